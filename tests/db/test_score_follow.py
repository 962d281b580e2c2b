"""score --follow: each result belongs to the image that its row has now, whatever has happened to the row."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from following import IMAGES, as_now, follow, labels, paint, settled, until, watching, write_all_the_time
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from variants import wide

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.platform import detect
from dbinfer.models import deploy
from dbinfer.report import ReportOptions, report
from dbinfer.score import ScoreOptions, score


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    """A table of 60 images: red, green, blue, red, ..."""
    make_images(db, "images", list(IMAGES.values()), copies=20, equal=True)
    yield
    rows(db, "DROP TABLE IF EXISTS predictions, predictions_errors, images CASCADE")


def test_changed_rows_are_scored_again_and_those_of_deleted_rows_go(db: Connection, dsn: str) -> None:
    assert follow(dsn).rows == 60
    paint(db, "blue", "id IN (0, 3)")
    rows(db, "DELETE FROM images WHERE id IN (6, 9)")
    rows(db, "DELETE FROM images WHERE id = 12; INSERT INTO images VALUES (12, %s)", IMAGES["green"])
    again = follow(dsn)
    assert (again.rows, again.outdated, again.removed, again.gone, again.changed) == (3, 3, 2, 0, 0)
    found = labels(db)
    assert [found.get(number) for number in (0, 3, 6, 9, 12, 15)] == [
        "blue",
        "blue",
        None,
        None,
        "green",
        "red",
    ]
    as_now(db)
    last = follow(dsn)
    assert (last.rows, last.outdated, last.removed) == (0, 0, 0)


@pytest.mark.wide
def test_truncate_and_copy(db: Connection, dsn: str) -> None:
    follow(dsn)
    rows(db, "CREATE TABLE public.kept AS SELECT id, img FROM images WHERE id >= 30")
    rows(db, "TRUNCATE images")
    rows(db, "INSERT INTO images SELECT id, img FROM kept")
    rows(db, "DROP TABLE kept")
    again = follow(dsn)
    # the same images: their digests say so, and nothing is scored again
    assert (again.rows, again.outdated, again.removed) == (0, 0, 30)
    as_now(db)
    rows(db, "TRUNCATE images")
    assert follow(dsn).removed == 30
    assert labels(db) == {}


@pytest.mark.wide
def test_rows_that_were_written_and_show_the_same_image_are_not_scored(db: Connection, dsn: str) -> None:
    rows(db, "ALTER TABLE images ADD title text")
    follow(dsn)
    before = rows(db, "SELECT id, scored_at FROM predictions ORDER BY id")
    rows(db, "UPDATE images SET title = 'new'")
    assert follow(dsn).rows == 0
    assert rows(db, "SELECT id, scored_at FROM predictions ORDER BY id") == before
    changed = follow(dsn).changed
    assert changed == 0


def test_what_rolls_back_changes_nothing(db: Connection, dsn: str) -> None:
    follow(dsn)
    with closing(psycopg2.connect(dsn)) as other:
        paint(other, "blue", "true")
        rows(other, "DELETE FROM images WHERE id < 10")
        other.rollback()
    again = follow(dsn)
    assert (again.rows, again.outdated, again.removed) == (0, 0, 0)


@pytest.mark.wide
def test_a_damaged_image_that_is_repaired_and_a_good_one_that_is_damaged(db: Connection, dsn: str) -> None:
    rows(db, "UPDATE images SET img = 'no image' WHERE id IN (0, 3)")
    rows(db, "UPDATE images SET img = NULL WHERE id = 6")
    first = follow(dsn)
    assert (first.rows, first.errors, first.nulls) == (58, 2, 1)
    assert follow(dsn).errors == 0
    paint(db, "green", "id IN (0, 6)")
    rows(db, "UPDATE images SET img = 'damaged' WHERE id = 9")
    rows(db, "DELETE FROM images WHERE id = 3")
    again = follow(dsn)
    assert (again.rows, again.errors, again.outdated, again.removed) == (2, 1, 3, 1)
    assert rows(db, "SELECT id FROM predictions_errors") == [(9,)]
    assert [labels(db).get(number) for number in (0, 6, 9)] == ["green", "green", None]
    as_now(db)


@pytest.mark.wide
def test_results_of_runs_that_did_not_follow_are_made_again_once(db: Connection, dsn: str) -> None:
    assert score(dsn=dsn).rows == 60
    columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'predictions'::regclass AND attname LIKE 'image%%'"
    assert ask(db, columns) == 0
    told: list[str] = []
    first = score(options=ScoreOptions(follow=True), dsn=dsn, progress=lambda event: told.append(event.note))
    assert (first.rows, first.outdated) == (60, 60)
    assert any("do not say of which image" in note for note in told if note)
    assert ask(db, columns) == 2
    # from now on every run keeps them
    rows(db, "INSERT INTO images SELECT 100 + id, img FROM images WHERE id < 5")
    assert score(dsn=dsn).rows == 5
    assert follow(dsn).rows == 0
    paint(db, "blue", "id = 100")
    assert follow(dsn).rows == 1


def test_exact_sees_what_no_mark_tells(db: Connection, dsn: str) -> None:
    follow(dsn)
    rows(db, "UPDATE predictions SET image_digest = '\\x00' WHERE id IN (1, 2)")
    assert follow(dsn).rows == 0
    again = follow(dsn, exact=True)
    assert (again.rows, again.outdated) == (2, 2)
    assert follow(dsn, exact=True).rows == 0


def test_a_column_that_says_when(db: Connection, dsn: str) -> None:
    rows(db, "ALTER TABLE images ADD at timestamptz")
    rows(db, "CREATE VIEW public.shown AS SELECT * FROM images")
    assert follow(dsn, "shown", changed_column="at").rows == 60
    paint(db, "blue", "id = 0")
    rows(db, "UPDATE images SET img = %s, at = now() WHERE id = 3", IMAGES["green"])
    rows(db, "UPDATE images SET at = now() WHERE id = 6")
    # 0 says nothing, and 6 has the same image
    assert follow(dsn, "shown", changed_column="at").rows == 1
    zone = make_dsn(dsn, options="-c TimeZone=Asia/Tokyo -c DateStyle=German")
    assert follow(zone, "shown", changed_column="at").changed == 0
    assert follow(dsn, "shown", changed_column="at", exact=True).rows == 1
    as_now(db)
    rows(db, "DROP VIEW shown")


@pytest.mark.wide
def test_a_condition_leaves_the_other_rows_alone(db: Connection, dsn: str) -> None:
    follow(dsn)
    paint(db, "blue", "true")
    assert follow(dsn, where="id < 10").outdated == 7
    assert (labels(db)[3], labels(db)[12]) == ("blue", "red")
    # a name that both tables have
    rows(db, "ALTER TABLE images ADD label text")
    assert follow(dsn, where="label IS NULL").outdated == 33


@pytest.mark.wide
def test_each_version_follows_for_itself(db: Connection, dsn: str, tmp_path: Any) -> None:
    follow(dsn)
    new = deploy(tiny_models.colour_classifier(tmp_path, labels=["r", "g", "b"]), dsn=dsn).version
    try:
        assert follow(dsn).rows == 60
        paint(db, "blue", "id = 0")
        assert follow(dsn).rows == 1
        found = rows(db, "SELECT version, label FROM predictions WHERE id = 0 ORDER BY 1")
        assert found == [(1, "red"), (new, "b")]
    finally:
        from dbinfer.models import activate

        activate("colours@1", dsn)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"exact": True}, UsageError, "exact needs follow"),
        ({"changed_column": "at"}, UsageError, "changed_column needs follow"),
        ({"follow": True, "atomic": True}, UsageError, "follow does not go with one transaction"),
        ({"follow": True, "changed_column": "at"}, DataError, "no column 'at' that says when"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    dsn: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        score(options=ScoreOptions(**options), dsn=dsn)


@pytest.mark.wide
def test_a_role_follows_in_its_own_tables(db: Connection, dsn: str) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, f"CREATE SCHEMA own_{name} AUTHORIZATION {name}")
        own = make_dsn(dsn, options=f"-c role={name}")
        run = lambda: score("images", f"own_{name}.predictions", ScoreOptions(follow=True), own)  # noqa: E731
        assert run().rows == 60
        paint(db, "blue", "id < 6")
        assert run().outdated == 4
        rows(db, f"DROP SCHEMA own_{name} CASCADE")


@pytest.mark.wide
def test_a_report_on_results_that_follow(db: Connection, dsn: str, tmp_path: Any) -> None:
    follow(dsn)
    page = report("images", "predictions", ReportOptions(out=tmp_path / "page.html"), dsn)
    assert page.rows == 60


@pytest.mark.parametrize("options", [{}, *wide({"exact": True})])
def test_a_job_that_watches(db: Connection, dsn: str, options: dict[str, Any]) -> None:
    with watching(dsn, **options) as job:
        until(lambda: settled(db))
        paint(db, "blue", "id < 10")
        until(lambda: settled(db))
        rows(db, "DELETE FROM images WHERE id >= 50; INSERT INTO images VALUES (-1, NULL), (70, 'bad')")
        until(lambda: settled(db))
    assert job.ended[0].state == "cancelled"


@pytest.mark.wide
def test_rows_that_change_while_a_job_follows(db: Connection, dsn: str) -> None:
    """A second session writes all the time; a change that comes after its row was read is seen in a later pass."""
    rows(db, "CREATE UNIQUE INDEX ON images (id)")
    stop = threading.Event()

    def write() -> None:
        with closing(psycopg2.connect(dsn)) as other:
            other.autocommit = True
            write_all_the_time(stop, other)

    writer = threading.Thread(target=write)
    with watching(dsn, batch=8, connections=None if not detect(db).mpp else 1):
        writer.start()
        try:
            time.sleep(3)
        finally:
            stop.set()
            writer.join()
        until(lambda: settled(db))
    last = follow(dsn)
    assert (last.rows, last.errors, last.removed) == (0, 0, 0)
