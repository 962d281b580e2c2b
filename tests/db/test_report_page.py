"""report: the figures of real tables, and a page that says them and nothing that the database could slip in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import report_tables
import tiny_models
from asking import make_images, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from typer.testing import CliRunner

from dbinfer.cli.app import app
from dbinfer.models import deploy
from dbinfer.report import ReportOptions, report
from dbinfer.score import ScoreOptions, score


@pytest.fixture(scope="module", autouse=True)
def tables(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    from contextlib import closing

    import psycopg2

    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        report_tables.make_colours(db, dsn, tmp_path_factory.mktemp("colours"))
        report_tables.make_masks(db, dsn, tmp_path_factory.mktemp("masks"))


def page(dsn: str, folder: Path, table: str, predictions: str, **values: object) -> tuple[object, str]:
    options = ReportOptions(out=folder / "page.html", **values)  # type: ignore[arg-type]
    done = report(table, predictions, options, dsn)
    html = options.out.read_text(encoding="utf-8")
    assert done.bytes == len(html.encode())
    return done, html


def test_two_versions_with_labels(dsn: str, tmp_path: Path) -> None:
    done, html = page(dsn, tmp_path, "images", "predictions")
    figures = done.to_dict()  # type: ignore[attr-defined]
    assert (figures["model"], figures["against"]) == ("colours@2", "colours@1")
    assert (figures["rows"], figures["sampled"], figures["errors"]) == (31, 31, 2)
    assert figures["accuracy"] == pytest.approx(29 / 30)
    assert figures["agreement"] == pytest.approx(29 / 30)
    for part in ("confusion", "calibration", "uncertain", "mistakes", "versions", "bad", "scores", "counts"):
        assert f'id="{part}"' in html, part
    assert "won: only the newer is right" in html
    # The page opens the images of a cell: the one that was taken for blue
    assert 'href="#cell-1-2"' in html
    assert 'id="cell-1-2"' in html


def test_nothing_of_the_database_becomes_a_part_of_the_page(dsn: str, tmp_path: Path) -> None:
    _, html = page(dsn, tmp_path, "images", "predictions")
    assert report_tables.EVIL not in html
    assert "&lt;script&gt;" in html
    links = report_tables.Links(html)
    assert links.harm == []
    assert [address[:40] for address in links.addresses if not address.startswith(("data:image/", "#"))] == []
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html


def test_rows_are_called_by_their_paths(dsn: str, db: Connection, tmp_path: Path) -> None:
    """A path is shown as a text, from its end; a row without one is called by its key."""
    far = "WHEN '08' THEN repeat('far/', 90) || '08.png'"
    name = f"CASE id WHEN '07' THEN %s {far} WHEN '09' THEN ' ' ELSE id || '.png' END"
    rows(
        db,
        f"CREATE TABLE public.named AS SELECT *, {name} AS filename FROM public.images",
        report_tables.EVIL_KEY,
    )
    _, html = page(dsn, tmp_path, "named", "predictions")
    assert "<bdi>05.png</bdi>" in html
    assert "<bdi>…" + ("far/" * 10 + "08.png")[-39:].replace("/", "/<wbr>") + "</bdi>" in html
    assert "key <bdi>09</bdi>" in html
    assert "<bdi>bad.png</bdi><br><small>key <bdi>bad</bdi></small>" in html
    assert report_tables.Links(html).harm == []
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, f"GRANT SELECT ON public.predictions, public.predictions_errors TO {name}")
        rows(db, f"GRANT SELECT (id, img, label) ON public.named TO {name}")
        _, html = page(make_dsn(dsn, options=f"-c role={name}"), tmp_path, "named", "predictions")
    assert "key <bdi>05</bdi>" in html


def test_masks_worst_first_with_a_key_of_two_columns(dsn: str, tmp_path: Path) -> None:
    done, html = page(dsn, tmp_path, "shots", "masks")
    figures = done.to_dict()  # type: ignore[attr-defined]
    assert figures["dice"] == figures["iou"] == pytest.approx(0.75)
    assert html.index("key <bdi>1, 2</bdi>") < html.index("key <bdi>1, 0</bdi>")


def test_two_versions_of_masks(dsn: str, db: Connection, tmp_path: Path) -> None:
    """The older version found nothing in the first image, where all is to be found."""
    older = "SELECT shop, number, model, 0, CASE WHEN number = 0 THEN empty.truth "
    source = "FROM public.masks, (SELECT truth FROM public.shots WHERE number = 3) empty"
    rows(db, "CREATE TABLE public.masks_of_two AS SELECT * FROM public.masks")
    rows(db, f"INSERT INTO public.masks_of_two {older} ELSE mask END, scored_at - interval '1 day' {source}")
    done, html = page(dsn, tmp_path, "shots", "masks_of_two")
    assert done.to_dict()["agreement"] == pytest.approx(0.75)  # type: ignore[attr-defined]
    assert "dice 0 → 1" in html
    assert "Of 4 masks 1 became better, 0 worse, the others hardly changed." in html


def test_a_sample_of_keys_says_so(dsn: str, db: Connection, tmp_path: Path) -> None:
    rows(
        db,
        "CREATE TABLE public.many AS SELECT n AS id, '\\x00'::bytea AS img, 'a'::text AS label "
        "FROM generate_series(1, 5000) n",
    )
    rows(
        db,
        "CREATE TABLE public.many_found AS "
        "SELECT id, 0 AS class, 'a'::text AS label, 0.5::real AS score FROM public.many",
    )
    done, html = page(dsn, tmp_path, "many", "many_found", sample=500)
    figures = done.to_dict()  # type: ignore[attr-defined]
    assert figures["rows"] == 5000
    assert 350 < figures["sampled"] < 650
    assert f"{figures['sampled']:,} of 5,000 rows" in html


@pytest.mark.wide
def test_the_table_that_score_makes_at_once(dsn: str, db: Connection, tmp_path: Path) -> None:
    deploy(tiny_models.colour_embedding(tmp_path), dsn=dsn)
    make_images(
        db, "shown", [tiny_models.file(tiny_models.picture(*colour)) for colour in report_tables.COLOURS]
    )
    score("shown", "public.vectors", ScoreOptions(model="vector", replace=True), dsn)
    _, html = page(dsn, tmp_path, "shown", "vectors")
    assert html.count("<image ") == 3
    score("shown", "public.sizes", ScoreOptions(function="image_info", replace=True), dsn)
    done, html = page(dsn, tmp_path, "shown", "sizes")
    assert done.to_dict()["rows"] == 3  # type: ignore[attr-defined]


def test_on_the_command_line(dsn: str, tmp_path: Path) -> None:
    out = tmp_path / "new folder" / "page.html"
    words = ["report", "--table", "images", "--out", str(out), "--dsn", dsn]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "colours@2 on 31 rows, accuracy 96.7 %" in shown.output.replace("\n", "")
    given = CliRunner().invoke(app, [*words, "--model", "colours@1", "--against", "", "--json"])
    found = json.loads(given.output)
    assert (found["model"], found["against"], found["agreement"]) == ("colours@1", None, None)
    assert found["accuracy"] == pytest.approx(28 / 30)


def test_what_a_job_wrote_with_its_speed(dsn: str, db: Connection, tmp_path: Path) -> None:
    deploy(tiny_models.red_mask(tmp_path), dsn=dsn)
    shown = [tiny_models.file(tiny_models.picture(*colour)) for colour in report_tables.COLOURS]
    make_images(db, "seen", [*shown, b"no image", None])
    score("seen", "public.found", ScoreOptions(model="redness"), dsn)
    done, html = page(dsn, tmp_path, "seen", "found")
    figures = done.to_dict()  # type: ignore[attr-defined]
    assert figures["model"].startswith("redness@")
    assert (figures["rows"], figures["errors"]) == (4, 2)
    assert 'id="jobs"' in html
    assert "<td>job " in html
    # of a picture that cannot be drawn the reason stands in its own column alone
    reason = html[html.index("The last ones") :]
    assert reason.count("not an image") == 1
