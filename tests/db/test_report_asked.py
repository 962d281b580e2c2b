"""report --query: the intervals of an estimate and how they shrank, the pictures that a search has found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asking import ask, rows
from psycopg2.extensions import connection as Connection
from red_tables import RED, red_table
from typer.testing import CliRunner

from dbinfer.base.errors import DataError
from dbinfer.cli.app import app
from dbinfer.report import PageReport, ReportOptions, report

TABLE = """
CREATE TABLE public.shots AS SELECT n AS id, n %% 4 AS camera, CASE WHEN n %% 4 = 3 THEN '<script>' ELSE 'b' END AS
    place, (CASE WHEN n %% 4 = 3 THEN %s::bytea ELSE %s::bytea END) || int4send(n) AS img FROM generate_series(1,4000) n
"""


@pytest.fixture(scope="module", autouse=True)
def table(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pictures of which a quarter is red: those of camera 3."""
    red_table(dsn, tmp_path_factory.mktemp("irs"), "shots", TABLE)


def page(dsn: str, folder: Path, query: str, **values: str) -> tuple[PageReport, str]:
    options = ReportOptions(out=folder / "page.html", query=query, **values)  # type: ignore[arg-type]
    done = report("shots", options=options, dsn=dsn)
    html = options.out.read_text(encoding="utf-8")
    assert done.bytes == len(html.encode())
    return done, html


def lines(html: str, section: str) -> list[list[str]]:
    """The cells of a section's table of intervals, without its head and its scale."""
    part = html.partition(f'id="{section}"')[2].partition("</section>")[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", one, re.DOTALL) for one in part.split("<tr>")[2:-1]]
    return [[re.sub("<[^>]*>", "", cell).strip() for cell in line] for line in cells]


def test_an_estimate_and_how_its_interval_shrank(dsn: str, tmp_path: Path) -> None:
    done, html = page(dsn, tmp_path, f"SELECT * FROM dbinfer.estimate('shots', $${RED}$$, within => 0.04);")
    assert done.estimate is not None
    assert done.low is not None
    assert done.high is not None
    # one interval in 20 may miss the truth; one in millions misses it by another such width
    assert done.low - 0.04 < 0.25 < done.high + 0.04
    assert (done.rows, done.table, done.model) == (4000, "shots", None)
    rounds = lines(html, "rounds")
    assert len(rounds) >= 2
    assert [line[0] for line in rounds] == [str(turn) for turn in range(1, len(rounds) + 1)]
    widths = [float(high) - float(low) for *_, bounds, _ in rounds for low, high in [bounds.split(" to ")]]
    assert widths[-1] < widths[0]
    assert rounds[-1][-1] == f"{done.sampled:,} of 4,000"
    assert f"{done.estimate:.3f}" in rounds[-1]
    assert "within =&gt; 0.04" in html


def test_groups(dsn: str, tmp_path: Path) -> None:
    done, html = page(
        dsn, tmp_path, f"SELECT * FROM dbinfer.estimate('shots', $${RED}$$, within => 0.1, by => 'place')"
    )
    assert (done.rows, done.estimate) == (4000, None)
    assert [line[0] for line in lines(html, "groups")] == ["&lt;script&gt;", "b"]
    assert 'id="rounds"' not in html
    assert "<script" not in html


def test_a_search_shows_what_it_has_found(dsn: str, tmp_path: Path) -> None:
    query = f"SELECT * FROM dbinfer.find('shots', $${RED}$$, proxy => 'camera', recall => 0.9)"
    done, html = page(dsn, tmp_path, query)
    assert 800 < done.rows <= 1000
    assert html.count("data:image") == done.sampled == 18
    assert "recall at least 0.9" in html
    assert "are left out unseen" in html


def test_what_is_kept_outlives_a_page_that_cannot_be_written(
    db: Connection, dsn: str, tmp_path: Path
) -> None:
    query = f"SELECT * FROM dbinfer.estimate('shots', $${RED}$$, within => 0.2, answers => 'paid')"
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot write"):
        report("shots", options=ReportOptions(out=tmp_path / "file" / "page.html", query=query), dsn=dsn)
    assert ask(db, "SELECT count(*) FROM paid") >= 100
    done, html = page(dsn, tmp_path, query)
    assert "0 rows scored" in html
    assert done.sampled == ask(db, "SELECT count(*) FROM paid")


def test_a_search_of_another_table_has_no_pictures(dsn: str, tmp_path: Path) -> None:
    query = "SELECT * FROM dbinfer.find('shots', 'id < 4', k => 2)"
    options = ReportOptions(out=tmp_path / "page.html", query=query)
    assert report("nothing", options=options, dsn=dsn).rows == 2
    html = options.out.read_text()
    assert "There are no pictures: table public.nothing does not exist." in html
    assert 'id="found"' not in html


def test_other_queries_are_refused(dsn: str, tmp_path: Path) -> None:
    said = {
        "SELECT 1 AS one, 2 AS two": "gives the columns one, two",
        "SET search_path = public": "gives no columns",
        "SELECT * FROM nothing": 'relation "nothing" does not exist',
        "SELECT * FROM dbinfer.estimate('shots', 'place')": "must be true or false, or a number",
    }
    for query, sentence in said.items():
        with pytest.raises(DataError, match=sentence):
            page(dsn, tmp_path, query)
    assert not (tmp_path / "page.html").exists()


def test_in_a_shell(db: Connection, dsn: str, tmp_path: Path) -> None:
    rows(db, "CREATE TABLE public.none (id integer PRIMARY KEY, img bytea)")
    out = tmp_path / "page.html"
    for query, said in (
        (
            "SELECT * FROM dbinfer.estimate('shots', 'camera = 3', within => 0.1)",
            r"\d+ of 4000 rows, 0\.\d+ \(0\.\d+ to 0\.\d+\)",
        ),
        ("SELECT * FROM dbinfer.estimate('none', 'true')", "0 rows"),
    ):
        done = CliRunner().invoke(app, ["report", "--query", query, "--out", str(out), "--dsn", dsn])
        assert done.exit_code == 0, done.output
        assert re.search(said, done.output)
