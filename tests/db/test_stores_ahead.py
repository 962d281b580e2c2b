"""Tables of references: whole tables and jobs fetch ahead of what they score, and the results are those of images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import PLANS, ask, planned_as, refused, rows
from buckets import Door, bucket, cutting, refusing
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.models import deploy
from dbinfer.report import ReportOptions, report
from dbinfer.score import ScoreOptions, score

COLOURS = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
IMAGES = [tiny_models.file(tiny_models.picture(*colour)) for colour in COLOURS]
ROWS = 150
GONE, EMPTY = 77, 5


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    with bucket() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def scans(dsn: str, door: Door, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A table of references, of which one leads to nothing and one is NULL, with the images themselves beside them."""
    folder = tmp_path_factory.mktemp("irs")
    for write in (tiny_models.colour_classifier, tiny_models.red_mask):
        deploy(write(folder), dsn=dsn)
    for number, image in enumerate(IMAGES):
        door.put(f"scans/{number}.png", image)
    with psycopg2.connect(dsn) as db:
        rows(db, "SELECT dbinfer.add_store('s', 's3://pictures/scans', %s, private => true)", door.url)
        rows(
            db,
            f"""
            CREATE TABLE public.scans AS
            SELECT n AS id, CASE n WHEN {GONE} THEN 's/none.png' WHEN {EMPTY} THEN NULL
                                   ELSE 's/' || n % 3 || '.png' END AS path
              FROM generate_series(0, {ROWS - 1}) n""",
        )
        rows(
            db,
            "CREATE TABLE public.kept AS SELECT id, dbinfer.image(path, on_error => 'null') AS img FROM scans",
        )
        rows(db, "ANALYZE scans; ANALYZE kept")


@pytest.fixture(autouse=True)
def faultless(door: Door, db: Connection) -> Iterator[None]:
    yield
    door.faults.clear()
    door.seen.clear()
    rows(db, "DROP TABLE IF EXISTS public.found, public.found_errors")


@pytest.mark.parametrize("plan", [PLANS[0], *wide(PLANS[1])])
@pytest.mark.parametrize("function", ["classify", *wide("segment", "predict")])
def test_a_whole_table(db: Connection, door: Door, plan: str, function: str) -> None:
    planned_as(db, plan)
    model = "redness" if function == "segment" else "colours"
    call = f"SELECT * FROM dbinfer.{function}_table('%s', '{model}', 'null'%s) ORDER BY id"
    found = rows(db, call % ("scans", ", 'id', 'path'"))
    assert len(found) == ROWS
    assert found == rows(db, call % ("kept", ""))


@pytest.mark.postgres_only(
    "a segment's process asks again for what waits at its end, as a parallel worker does"
)
@pytest.mark.wide
def test_the_rows_that_wait_are_fetched_once(db: Connection, door: Door) -> None:
    door.seen.clear()
    rows(db, "SELECT * FROM dbinfer.classify_table('scans', 'colours', 'null', 'id', 'path')")
    # a missing one was perhaps sought twice
    assert sum(door.seen.values()) <= ROWS


@pytest.mark.wide
def test_into_a_table(db: Connection) -> None:
    rows(db, "CREATE TABLE public.found (id bigint, class integer, label text, score real)")
    assert ask(db, "SELECT dbinfer.classify_into('found', 'scans', 'colours', 'null', 'id', 'path')") == ROWS
    whole = "SELECT id, class, label, score FROM {} ORDER BY id"
    assert rows(db, whole.format("found")) == rows(
        db, whole.format("dbinfer.classify_table('kept', 'colours', 'null')")
    )


def test_an_image_that_is_gone_is_named(db: Connection) -> None:
    diag = refused(
        db, "P0002", "SELECT * FROM dbinfer.classify_table('scans', 'colours', 'error', 'id', 'path')"
    )
    assert f"row {GONE}" in f"{diag.message_primary} {diag.message_detail}"
    assert "has no 'none.png'" in str(diag.message_primary)


def test_a_store_that_fails_ends_the_statement(db: Connection, door: Door) -> None:
    door.faults["1.png"] = cutting
    call = "SELECT * FROM dbinfer.classify_table('scans', 'colours', 'null', 'id', 'path')"
    refused(db, "58030", call)
    door.faults.clear()
    assert len(rows(db, call)) == ROWS


@pytest.mark.wide
def test_a_busy_store_loses_nothing(db: Connection, door: Door) -> None:
    door.faults[".png"] = refusing(503, times=3)
    found = rows(
        db,
        "SELECT id, class FROM dbinfer.classify_table('scans', 'colours', 'null', 'id', 'path') ORDER BY 1",
    )
    assert found == rows(
        db, "SELECT id, class FROM dbinfer.classify_table('kept', 'colours', 'null') ORDER BY 1"
    )


@pytest.mark.parametrize("isolation", ["never", *wide("always")])
@pytest.mark.wide
def test_a_job(db: Connection, dsn: str, door: Door, isolation: str) -> None:
    rows(db, "SELECT dbinfer.set_isolation('colours', %s)", isolation)
    done = score("scans", "found", ScoreOptions(column="path", model="colours", batch=64), dsn)
    assert (done.rows, done.errors, done.nulls) == (ROWS - 1, 1, 1)
    assert rows(db, "SELECT id, reason FROM found_errors") == [(GONE, "the store s has no 'none.png'")]
    found = rows(db, "SELECT id, class, score FROM found ORDER BY id")
    expected = (
        "SELECT id, class, score FROM dbinfer.classify_table('kept', 'colours') WHERE id <> %s ORDER BY id"
    )
    assert found == rows(db, expected, GONE)
    rows(db, "SELECT dbinfer.set_isolation('colours', 'auto')")


def test_a_job_and_its_page(db: Connection, dsn: str, tmp_path: Path) -> None:
    score("scans", "found", ScoreOptions(column="path", model="redness"), dsn)
    made = report("scans", "found", ReportOptions(column="path", out=tmp_path / "page.html"), dsn)
    assert made.bytes > 0
    assert "data:image/" in (tmp_path / "page.html").read_text()


@pytest.mark.wide
def test_in_one_transaction(db: Connection, dsn: str) -> None:
    options = ScoreOptions(column="path", model="colours", atomic=True, on_error="null")
    assert score("scans", "found", options, dsn).nulls == 2


def test_a_handle_is_worth_nothing_elsewhere(db: Connection) -> None:
    token = "dbinfer._resolve('', false)"
    handle = ask(db, f"SELECT dbinfer._fetch_ahead('s/0.png', {token}, 'error')")
    refused(db, "22P03", "SELECT dbinfer.classify(%s::bytea, 'colours')", handle)
    # its end is random: a fixed byte in its place was the very handle once in 256 runs
    wrong = handle[:-1] + bytes([handle[-1] ^ 1])
    rows(db, "CREATE TABLE public.found AS SELECT 1 AS id, %s::bytea AS img", wrong)
    diag = refused(db, "22P03", "SELECT * FROM dbinfer.classify_table('found', 'colours')")
    assert "not an image" in str(diag.message_primary)


@pytest.mark.postgres_only("large objects lie on the coordinator")
class TestLargeObjects:
    def test_one_and_a_table_of_them(self, db: Connection, dsn: str) -> None:
        rows(
            db,
            "CREATE TABLE public.found AS SELECT id, lo_from_bytea(0, img) AS photo FROM kept WHERE id < 4",
        )
        call = "SELECT id, (dbinfer.classify({}, 'colours')).class FROM {} WHERE id < 4 ORDER BY id"
        expected = rows(db, call.format("img", "kept"))
        assert rows(db, call.format("lo_get(photo)", "found")) == expected
        whole = "SELECT id, class FROM dbinfer.classify_table('found', 'colours', img_column => 'photo') ORDER BY id"
        assert rows(db, whole) == expected
        done = score("found", "found_predictions", ScoreOptions(column="photo", model="colours"), dsn)
        assert (done.rows, done.errors) == (4, 0)
        rows(db, "SELECT lo_unlink(photo) FROM found; DROP TABLE found_predictions, found_predictions_errors")
