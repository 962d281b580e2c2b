"""Images in stores, on a server without PL/Python: workers and commands fetch them by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
import workers
from asking import ask, refused, role, rows
from bare_server import bare_server
from buckets import Door, bucket, cutting
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.images import stores
from dbinfer.images.load import LoadOptions, load
from dbinfer.label.options import LabelOptions
from dbinfer.label.work import Work
from dbinfer.models import deploy
from dbinfer.report import report
from dbinfer.report.options import ReportOptions
from dbinfer.score import ScoreOptions, score

COLOURS = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
LABELS = ["red", "green", "blue"]
ROWS = 60


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    with bucket() as made:
        for number in range(ROWS):
            made.put(f"scans/{number:02}.png", tiny_models.file(tiny_models.picture(*COLOURS[number % 3])))
        yield made


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    with bare_server() as dsn:
        yield dsn


@pytest.fixture(scope="module")
def shop(bare: str, door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with workers.tables_only(bare) as dsn:
        deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs"), labels=LABELS), dsn=dsn)
        options = stores.StoreOptions(endpoint=door.url, private=True)
        stores.add_store("s", "s3://pictures/scans", options, dsn)
        yield dsn


@pytest.fixture
def at_home(shop: str, door: Door) -> Iterator[Connection]:
    with closing(psycopg2.connect(shop)) as db:
        db.autocommit = True
        yield db
        rows(db, "DROP TABLE IF EXISTS scans, answers, answers_errors, labels")
    door.faults.clear()


def test_from_a_list_of_files_to_their_labels(at_home: Connection, shop: str) -> None:
    done = load((), LoadOptions(table="scans", reference="s"), shop)
    assert (done.created, done.loaded) == (True, ROWS)
    rows(at_home, "INSERT INTO scans (path) VALUES ('s/none.png'), ('s/../x')")
    made = score("scans", "answers", ScoreOptions(column="path", model="colours"), shop)
    assert (made.rows, made.errors) == (ROWS, 2)
    found = "SELECT path, label FROM answers JOIN scans USING (id) ORDER BY path"
    assert rows(at_home, found) == [(f"s/{n:02}.png", LABELS[n % 3]) for n in range(ROWS)]
    assert [row[0] for row in rows(at_home, "SELECT reason FROM answers_errors ORDER BY 1")] == [
        "the reference 's/../x' is no path in a store",
        "the store s has no 'none.png'",
    ]


def test_report_and_label_show_images_that_lie_there(
    at_home: Connection, shop: str, door: Door, tmp_path: Path
) -> None:
    load((), LoadOptions(table="scans", reference="s"), shop)
    score("scans", "answers", ScoreOptions(column="path", model="colours"), shop)
    rows(at_home, "UPDATE scans SET path = 's/none.png' WHERE path = 's/03.png'")
    options = ReportOptions(column="path", out=tmp_path / "report.html", sample=ROWS)
    report("scans", "answers", options, shop)
    page = (tmp_path / "report.html").read_text()
    assert len(set(re.findall('data:image/png;base64,[^"]*', page))) == len(COLOURS)

    label = LabelOptions(todo="answers", column="path", into="labels", classes=tuple(LABELS))
    work = Work.begin("scans", label, shop)
    shown = {row.key: number for number, row in enumerate(work.rows)}
    keys = dict(rows(at_home, "SELECT path, id::text FROM scans"))
    first = tiny_models.file(tiny_models.picture(*COLOURS[1]))
    assert work.image(shown[(keys["s/01.png"],)]) == first
    with pytest.raises(DataError, match=r"the store s has no 'none\.png'"):
        work.image(shown[(keys["s/none.png"],)])
    door.faults["02.png"] = cutting
    with pytest.raises(DataError, match="the store s cannot be read"):
        work.image(shown[(keys["s/02.png"],)])


def test_a_store_is_checked_from_here(shop: str) -> None:
    assert stores.check_store("s", "01.png", shop).bytes
    assert stores.check_store("s", None, shop).bytes is None
    with pytest.raises(DataError, match="you may read no store with 'x/"):
        stores.check_store("x", None, shop)


@pytest.mark.wide
def test_a_store_that_fails_ends_the_job(at_home: Connection, shop: str, door: Door) -> None:
    load((), LoadOptions(table="scans", reference="s"), shop)
    door.faults["07.png"] = cutting
    with pytest.raises(DataError, match="the store s cannot be read"):
        score("scans", "answers", ScoreOptions(column="path", model="colours"), shop)
    door.faults.clear()
    score("scans", "answers", ScoreOptions(column="path", model="colours"), shop)
    assert ask(at_home, "SELECT count(label) FROM answers") == ROWS


def test_another_role_reads_what_is_granted(shop: str, bare: str) -> None:
    with workers.another_role(bare, shop) as other, closing(psycopg2.connect(other)) as db:
        db.autocommit = True
        name = ask(db, "SELECT current_user")
        with pytest.raises(DataError, match="you may read no store"):
            load((), LoadOptions(table="scans", reference="s"), other)
        assert rows(db, "SELECT * FROM dbinfer.stores") == []
        stores.grant_store("s", name, shop)
        assert load((), LoadOptions(table="scans", reference="s"), other).loaded == ROWS
        assert rows(db, "SELECT name, url FROM dbinfer.stores") == [("s", None)]
        stores.revoke_store("s", name, shop)


def test_a_server_that_fetches_shows_no_addresses(db: Connection) -> None:
    with role(db):
        refused(db, "42501", "SELECT dbinfer._readable_stores(dbinfer._ask('dbinfer worker'))")
