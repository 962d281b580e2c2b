"""Databases of other encodings, languages and habits: everything a user does gives what it gives anywhere."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from catalog import another_database
from typer.testing import CliRunner
from variants import further, wide

from dbinfer.base.errors import RegistryError
from dbinfer.cli.app import app
from dbinfer.models import deploy

pytestmark = [pytest.mark.wide, pytest.mark.postgres_only("makes databases of other encodings")]
COLOURS = {"red": (200, 9, 9), "green": (9, 200, 9), "blue": (9, 9, 200)}
LABELS = ["red", "green", "blue"]
# What makes other texts of numbers, times, arrays and bytes, or another meaning of statements
HABITS = {
    "array_nulls": "off",
    "bytea_output": "escape",
    "DateStyle": "'German, DMY'",
    "default_transaction_isolation": "serializable",
    "extra_float_digits": "-10",
    "IntervalStyle": "sql_standard",
    "search_path": "''",
    "standard_conforming_strings": "off",
    "TimeZone": "'Asia/Kathmandu'",
    "transform_null_equals": "on",
}
C = "LC_COLLATE 'C' LC_CTYPE 'C'"
# How a database is made, and a label that its encoding has
ODD = {
    "LATIN1": (f"TEMPLATE template0 ENCODING 'LATIN1' {C}", "gr\u00fcn"),
    "SQL_ASCII": (f"TEMPLATE template0 ENCODING 'SQL_ASCII' {C}", "green"),
    "EUC_JP": (f"TEMPLATE template0 ENCODING 'EUC_JP' {C}", "\u7dd1"),
    "Turkish": ("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR'", "YE\u015e\u0130L I\u0131"),
    "habits": ("", "gr\u00fcn"),
}
TRUE = "(dbinfer.classify(img, 'colours')).class = 0"
ASKED = {
    "predict": "SELECT encode(array_send(dbinfer.predict(img, 'colours')), 'hex') FROM public.photos ORDER BY id",
    "score": "SELECT float4send((dbinfer.classify(img, 'colours')).score) FROM public.photos ORDER BY id",
    "segment": "SELECT dbinfer.segment(img, 'redness') FROM public.photos ORDER BY id",
    "draw": "SELECT dbinfer.draw(img, dbinfer.detect(img, 'redbox')) FROM public.photos ORDER BY id",
    "crop": "SELECT dbinfer.crop(img, (dbinfer.detect(img, 'redbox'))[1]) FROM public.photos ORDER BY id",
    "info": "SELECT i.* FROM public.photos, LATERAL dbinfer.image_info(img) i ORDER BY id",
    "problem": "SELECT dbinfer.problem(substr(img, 1, 40), 'colours') FROM public.photos ORDER BY id",
    "none": "SELECT dbinfer.predict(substr(img, 1, 40), 'colours', on_error => 'null') FROM public.photos",
    "find": f"SELECT id FROM dbinfer.find('public.photos', $$ {TRUE} $$) ORDER BY id",
    "estimate": f"SELECT estimate FROM dbinfer.estimate('public.photos', $$ {TRUE} $$, within => 0.01)",
    "versions": "SELECT name, version, active FROM dbinfer.model_versions ORDER BY 1",
}


def run(dsn: str, *words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words), "--dsn", dsn])
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.output


def use(dsn: str, venv: Path, folder: Path, label: str) -> dict[str, Any]:
    """Do what users do, and return what they are answered."""
    for name, colour in COLOURS.items():
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(4):
            image = tiny_models.file(tiny_models.picture(*colour))
            (folder / "photos" / name / f"{number}.png").write_bytes(image)
    run(dsn, "install", "--venv", venv, "--usage", "on")
    run(dsn, "deploy", tiny_models.colour_classifier(folder, labels=["red", label, "blue"]))
    run(dsn, "deploy", tiny_models.red_mask(folder))
    run(dsn, "deploy", tiny_models.red_box(folder))
    run(dsn, "load", folder / "photos", "--table", "public.photos", "--label-from", "folder")
    tables = ("--table", "public.photos", "--predictions", "public.answers")
    follow = ("score", *tables, "--model", "colours", "--follow", "--changed-column", "at")
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        # of the answers as they are shown, not of how they came about
        rows(db, "SET extra_float_digits = 3")
        rows(db, "ALTER TABLE public.photos ADD COLUMN at timestamptz NOT NULL DEFAULT now()")
        run(dsn, *follow)
        redder = tiny_models.file(tiny_models.picture(220, 5, 5))
        rows(db, "UPDATE public.photos SET img = %s, at = clock_timestamp() WHERE label = 'red'", redder)
        assert "4 rows" in run(dsn, *follow)
        assert "0 rows" in run(dsn, *follow)
        found = {what: rows(db, query) for what, query in ASKED.items()}
        joined = "SELECT s.label, p.label, count(*) FROM public.photos s JOIN public.answers p USING (id) GROUP BY 1, 2"
        assert sorted(rows(db, joined)) == [("blue", "blue", 4), ("green", label, 4), ("red", "red", 4)]
    run(dsn, "report", *tables, "--label", "label", "--out", folder / "page.html")
    assert label in (folder / "page.html").read_text(encoding="utf-8")
    for words in (["doctor"], ["models"], ["jobs"], ["usage"], ["plan", *tables[:2]], ["upgrade"]):
        run(dsn, *words)
    run(dsn, "uninstall", "--yes")
    return found


@pytest.fixture(scope="module")
def usual(server_dsn: str, venv: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with another_database(server_dsn, "test_usual") as dsn:
        return use(dsn, venv, tmp_path_factory.mktemp("usual"), "green")


@pytest.mark.parametrize("odd", [*wide("LATIN1", "habits"), *further("SQL_ASCII", "EUC_JP", "Turkish")])
def test_all_that_a_user_does(
    server_dsn: str, venv: Path, tmp_path: Path, odd: str, usual: dict[str, Any]
) -> None:
    name, (made, label) = f"test_odd_{odd}", ODD[odd]
    with another_database(server_dsn, name, made) as dsn:
        if odd == "habits":
            with closing(psycopg2.connect(server_dsn)) as db:
                db.autocommit = True
                for setting, value in HABITS.items():
                    rows(db, f'ALTER DATABASE "{name}" SET {setting} = {value}')
        found = use(dsn, venv, tmp_path, label)
    for what, answers in usual.items():
        assert [tuple(map(plain, row)) for row in found[what]] == [
            tuple(map(plain, row)) for row in answers
        ], what


def plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def test_a_label_that_the_database_cannot_keep_is_named(server_dsn: str, venv: Path, tmp_path: Path) -> None:
    with another_database(server_dsn, "test_odd_label", ODD["LATIN1"][0]) as dsn:
        run(dsn, "install", "--venv", venv)
        with pytest.raises(RegistryError) as caught:
            deploy(tiny_models.colour_classifier(tmp_path, labels=["red", "\u7dd1", "blue"]), dsn=dsn)
        assert "LATIN1" in str(caught.value)
        with closing(psycopg2.connect(dsn)) as db:
            assert ask(db, "SELECT count(*) FROM dbinfer.models") == 0
