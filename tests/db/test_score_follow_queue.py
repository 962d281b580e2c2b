"""follow: a trigger queues the keys of changed rows, and a job that follows takes them and looks at no other row."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, role, rows
from following import IMAGES, as_now, follow, labels, paint, settled, until, watching, write_all_the_time
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from typer.testing import CliRunner
from variants import wide

import dbinfer
from dbinfer.base.errors import DataError
from dbinfer.cli.app import app
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score
from dbinfer.score.statements import Plan

pytestmark = pytest.mark.postgres_only("triggers that write")
WAITING = "SELECT count(*) FROM predictions_queue WHERE follower IS NULL"
LOOKED = (
    "SELECT count(*) FROM predictions_queue WHERE follower IS NOT NULL"  # whether a job has seen all rows
)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    """A table of 60 images: red, green, blue, red, ..."""
    make_images(db, "images", list(IMAGES.values()), copies=20, equal=True)
    yield
    rows(db, "DROP TABLE IF EXISTS predictions, predictions_errors, predictions_queue, images CASCADE")
    rows(db, "DROP FUNCTION IF EXISTS predictions_queue() CASCADE")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The looks among all rows: where each began."""
    begun: list[Any] = []
    really = Plan.boundary

    def boundary(plan: Plan, low: Any, *rest: Any) -> Any:
        begun.append(low)
        return really(plan, low, *rest)

    monkeypatch.setattr(Plan, "boundary", boundary)
    return begun


def test_changed_rows_are_taken_from_the_queue_and_no_others_looked_at(
    db: Connection, dsn: str, looks: list[Any]
) -> None:
    made = dbinfer.follow(dsn=dsn)
    assert (made.queue, made.dropped) == ("public.predictions_queue", False)
    assert follow(dsn).rows == 60
    looks.clear()
    paint(db, "blue", "id IN (0, 3, 5)")
    rows(db, "DELETE FROM images WHERE id IN (6, 9)")
    rows(db, "DELETE FROM images WHERE id = 12; INSERT INTO images VALUES (12, %s)", IMAGES["green"])
    rows(db, "INSERT INTO images VALUES (-5, %s), (1000, 'bad'), (1001, NULL)", IMAGES["red"])
    rows(db, "UPDATE images SET id = 2000 WHERE id = 15")
    again = follow(dsn)
    # 5 was blue, and its digest says so
    assert (again.rows, again.errors, again.outdated, again.removed) == (6, 1, 3, 3)
    as_now(db)
    assert looks == []
    assert ask(db, WAITING) == 0
    assert labels(db)[2000] == "red"
    last = follow(dsn)
    assert (last.rows, last.outdated, last.removed, looks) == (0, 0, 0, [])


def test_copy_upsert_and_what_rolls_back(db: Connection, dsn: str) -> None:
    rows(db, "ALTER TABLE images ADD PRIMARY KEY (id)")
    dbinfer.follow(dsn=dsn)
    follow(dsn)
    with closing(psycopg2.connect(dsn)) as other:
        paint(other, "blue", "true")
        other.rollback()
    assert ask(db, WAITING) == 0
    upsert = "INSERT INTO images VALUES (0, %s), (100, %s) ON CONFLICT (id) DO UPDATE SET img = excluded.img"
    rows(db, upsert, IMAGES["blue"], IMAGES["blue"])
    rows(db, "CREATE TEMP TABLE more AS SELECT id + 200 AS id, img FROM images")
    rows(db, "INSERT INTO images SELECT * FROM more")
    assert follow(dsn).rows == 63
    as_now(db)


@pytest.mark.parametrize(
    "change", ["TRUNCATE images", *wide("ALTER TABLE images ALTER img TYPE bytea USING {}")]
)
def test_what_no_trigger_sees_makes_the_next_job_look_at_all_rows(
    db: Connection, dsn: str, looks: list[Any], change: str
) -> None:
    dbinfer.follow(dsn=dsn)
    follow(dsn)
    looks.clear()
    blue = f"'\\x{IMAGES['blue'].hex()}'::bytea"
    rows(db, change.format(blue))
    follow(dsn)
    as_now(db)
    assert looks != []
    looks.clear()
    follow(dsn)
    assert looks == []


@pytest.mark.wide
def test_a_trigger_that_was_off_a_crash_and_other_words_make_it_look_at_all_rows(
    db: Connection, dsn: str, looks: list[Any]
) -> None:
    dbinfer.follow(dsn=dsn)
    follow(dsn)
    rows(db, "ALTER TABLE images DISABLE TRIGGER USER")
    paint(db, "blue", "id = 0")
    looks.clear()
    assert follow(dsn).rows == 1
    rows(db, "ALTER TABLE images ENABLE TRIGGER USER")
    follow(dsn)
    assert looks != []
    looks.clear()
    follow(dsn)
    assert looks == []
    # an unlogged table is empty after a crash
    rows(db, "TRUNCATE predictions_queue")
    follow(dsn)
    assert looks != []
    looks.clear()
    paint(db, "green", "id IN (0, 20)")
    assert follow(dsn, where="id < 10").rows == 1
    assert looks != []
    assert follow(dsn).rows == 1
    as_now(db)
    # made again, it begins again
    looks.clear()
    dbinfer.follow(dsn=dsn)
    follow(dsn)
    assert looks != []


@pytest.mark.wide
def test_each_version_looks_at_all_rows_first(db: Connection, dsn: str, tmp_path: Any) -> None:
    dbinfer.follow(dsn=dsn)
    follow(dsn, model="colours@1")
    new = deploy(tiny_models.colour_classifier(tmp_path, labels=["r", "g", "b"]), dsn=dsn).version
    paint(db, "blue", "id = 0")
    assert follow(dsn, model=f"colours@{new}").rows == 60
    assert follow(dsn, model="colours@1").rows == 1
    paint(db, "green", "id = 3")
    for version in (1, new):
        assert follow(dsn, model=f"colours@{version}").rows == 1
    dbinfer.drop(f"colours@{new}", force=True, dsn=dsn)
    dbinfer.activate("colours@1", dsn)


@pytest.mark.wide
def test_too_many_bad_rows_lose_no_key(db: Connection, dsn: str) -> None:
    dbinfer.follow(dsn=dsn)
    follow(dsn)
    rows(db, "UPDATE images SET img = 'bad' WHERE id < 10")
    with pytest.raises(DataError, match="more than --max-errors 2"):
        follow(dsn, max_errors=2)
    follow(dsn)
    assert ask(db, "SELECT count(*) FROM predictions_errors") == 10
    as_now(db)


@pytest.mark.wide
def test_a_job_that_watches_takes_what_comes(db: Connection, dsn: str, looks: list[Any]) -> None:
    dbinfer.follow(dsn=dsn)
    with watching(dsn) as job:
        # its look at all rows ends after the last of them has its result
        until(lambda: settled(db) and ask(db, LOOKED))
        looks.clear()
        paint(db, "blue", "id < 10")
        rows(db, "DELETE FROM images WHERE id >= 50; INSERT INTO images VALUES (-1, NULL), (70, 'bad')")
        until(lambda: settled(db))
        assert looks == []
        rows(db, "TRUNCATE images; INSERT INTO images VALUES (5, %s)", IMAGES["blue"])
        until(lambda: settled(db))
        dbinfer.follow(dsn=dsn)
        paint(db, "red", "true")
        until(lambda: settled(db))
    assert job.ended[0].state == "cancelled"


@pytest.mark.wide
def test_rows_that_change_while_a_job_takes_them(db: Connection, dsn: str) -> None:
    rows(db, "ALTER TABLE images ADD PRIMARY KEY (id)")
    dbinfer.follow(dsn=dsn)
    stop = threading.Event()

    def write() -> None:
        with closing(psycopg2.connect(dsn)) as other:
            other.autocommit = True
            write_all_the_time(stop, other)

    writer = threading.Thread(target=write)
    with watching(dsn, batch=8, connections=2):
        writer.start()
        try:
            time.sleep(3)
        finally:
            stop.set()
            writer.join()
        until(lambda: settled(db) and ask(db, WAITING) == 0)
    last = follow(dsn, exact=True)
    assert (last.rows, last.errors, last.outdated, last.removed) == (0, 0, 0, 0)


def test_the_command_and_its_drop(db: Connection, dsn: str) -> None:
    run = CliRunner().invoke
    made = run(app, ["follow", "images", "--into", "predictions", "--model", "colours", "--dsn", dsn])
    assert made.stdout == "public.predictions_queue: keys of changed rows of public.images\n", made.output
    follow(dsn)
    # writers would fail without it
    refused(db, "2BP01", "DROP TABLE predictions_queue")
    rows(db, "DROP TABLE predictions, predictions_errors")
    gone = run(app, ["follow", "images", "--drop", "--dsn", dsn])
    assert gone.stdout == "public.predictions_queue: removed, with its trigger\n", gone.output
    assert ask(db, "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'dbinfer%%'") == 0
    assert ask(db, "SELECT to_regclass('predictions_queue')") is None
    assert follow(dsn).rows == 60


@pytest.mark.wide
def test_a_queue_that_is_dropped_with_its_trigger(db: Connection, dsn: str) -> None:
    dbinfer.follow(dsn=dsn)
    follow(dsn)
    rows(db, "DROP TABLE predictions_queue CASCADE")
    paint(db, "blue", "id = 0")
    assert follow(dsn).rows == 1


@pytest.mark.parametrize(
    ("made", "table", "message"),
    [
        (
            "CREATE VIEW public.other AS SELECT * FROM images",
            "other",
            "public.other is a view, and no trigger",
        ),
        ("CREATE MATERIALIZED VIEW public.other AS SELECT 1 AS id", "other", "is a materialized view"),
        (
            "CREATE TABLE public.predictions_queue (x integer)",
            "images",
            "predictions_queue is no queue of dbinfer",
        ),
        ("SELECT 1", "nothing", "table public.nothing does not exist"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    db: Connection, dsn: str, made: str, table: str, message: str
) -> None:
    rows(db, made)
    try:
        with pytest.raises(DataError, match=message) as caught:
            dbinfer.follow(table, dsn=dsn)
        assert caught.value.hint
    finally:
        rows(db, "DROP MATERIALIZED VIEW other" if "MATERIALIZED" in made else "DROP VIEW IF EXISTS other")


class TestRights:
    """The function runs with the rights of the table's owner and does one thing."""

    @pytest.fixture
    def owner(self, db: Connection, dsn: str) -> Iterator[str]:
        """A role that owns images and may create tables in public; its dsn."""
        with role(db) as name:
            rows(db, "RESET ROLE")
            rows(db, f"GRANT CREATE ON SCHEMA public TO {name}")
            rows(db, f"ALTER TABLE images OWNER TO {name}")
            yield make_dsn(dsn, options=f"-c role={name}")
            rows(db, "RESET ROLE")
            rows(db, f"DROP OWNED BY {name} CASCADE")

    def test_who_may_write_needs_no_right_to_the_queue(self, db: Connection, owner: str) -> None:
        dbinfer.follow(dsn=owner)
        follow(owner)
        rows(db, "GRANT SELECT, INSERT, UPDATE, DELETE ON images TO PUBLIC")
        with role(db):
            paint(db, "blue", "id = 0")
            rows(db, "INSERT INTO images VALUES (500, %s)", IMAGES["red"])
            for query in (
                "SELECT * FROM predictions_queue",
                "INSERT INTO predictions_queue (id) VALUES (1)",
                "DELETE FROM predictions_queue",
                "CREATE TEMP TABLE own (id integer); "
                "CREATE TRIGGER t AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION predictions_queue()",
            ):
                refused(db, "42501", query)
        assert follow(owner).rows == 2
        as_now(db)

    def test_what_a_writer_puts_before_the_system_catalog_is_not_used(
        self, db: Connection, owner: str
    ) -> None:
        dbinfer.follow(dsn=owner)
        follow(owner)
        rows(
            db,
            "CREATE SCHEMA decoys; GRANT USAGE ON SCHEMA decoys TO PUBLIC; "
            "CREATE TABLE decoys.predictions_queue (id integer); CREATE TABLE decoys.images (id integer); "
            "CREATE FUNCTION decoys.alike(text, text) RETURNS boolean LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'a decoy has run as %', current_user; END $$; "
            "CREATE OPERATOR decoys.= (LEFTARG = text, RIGHTARG = text, FUNCTION = decoys.alike)",
        )
        rows(db, "GRANT SELECT, INSERT, UPDATE, DELETE ON images TO PUBLIC")
        try:
            with role(db):
                rows(db, "CREATE TEMP TABLE predictions_queue (id integer)")
                rows(db, "SET search_path = decoys, pg_temp, pg_catalog")
                rows(db, "INSERT INTO public.images VALUES (500, %s)", IMAGES["red"])
                rows(db, "UPDATE public.images SET img = %s WHERE id = 0", IMAGES["blue"])
                rows(db, "DELETE FROM public.images WHERE id = 1")
                rows(db, "RESET search_path; DROP TABLE pg_temp.predictions_queue")
            queued = rows(db, "SELECT id FROM predictions_queue WHERE id IS NOT NULL ORDER BY id")
            assert queued == [(0,), (0,), (1,), (500,)]
        finally:
            rows(db, "DROP SCHEMA decoys CASCADE")

    def test_who_does_not_own_the_table_is_told_so(self, db: Connection, dsn: str) -> None:
        with role(db) as name:
            rows(db, "RESET ROLE")
            rows(db, f"GRANT ALL ON images TO {name}; GRANT CREATE ON SCHEMA public TO {name}")
            other = make_dsn(dsn, options=f"-c role={name}")
            for drop in (False, True):
                with pytest.raises(DataError, match=r"who owns public\.images, or a superuser may") as caught:
                    dbinfer.follow(options=dbinfer.FollowOptions(drop=drop), dsn=other)
                assert "needs no right but SELECT" in caught.value.hint

    @pytest.mark.wide
    def test_a_superuser_follows_for_two_roles(self, db: Connection, dsn: str, owner: str) -> None:
        with role(db) as scorer:
            rows(db, "RESET ROLE")
            rows(db, f"GRANT CREATE ON SCHEMA public TO {scorer}; GRANT SELECT ON images TO {scorer}")
            own = make_dsn(dsn, options=f"-c role={scorer}")
            follow(own)
            with pytest.raises(DataError, match=f"belongs to {scorer}, who takes from no queue"):
                dbinfer.follow(dsn=owner)
            dbinfer.follow(dsn=dsn)
            function = (
                "SELECT pg_get_userbyid(proowner), prosecdef FROM pg_proc WHERE proname = 'predictions_queue'"
            )
            table = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'images'"
            assert rows(db, function) == [(ask(db, table), True)]
            assert follow(own).rows == 0
            with closing(psycopg2.connect(owner)) as writer, writer:
                paint(writer, "blue", "id = 0")
            assert follow(own).rows == 1
            as_now(db)

    def test_a_schema_whose_owner_could_put_another_queue_there(
        self, db: Connection, dsn: str, owner: str
    ) -> None:
        with role(db) as mallory:
            rows(db, "RESET ROLE")
            rows(db, f"CREATE SCHEMA hers AUTHORIZATION {mallory}; GRANT ALL ON SCHEMA hers TO PUBLIC")
            for who in (owner, dsn):
                with pytest.raises(DataError, match=f"the schema hers belongs to {mallory}"):
                    dbinfer.follow("images", "hers.predictions", dsn=who)
            rows(db, "DROP SCHEMA hers CASCADE")

    @pytest.mark.wide
    def test_a_key_with_a_hostile_name_is_a_name(self, db: Connection, dsn: str) -> None:
        name = "x\"$$; DROP TABLE images; --$dbinfer$';"
        quoted = '"' + name.replace('"', '""') + '"'
        rows(db, f"ALTER TABLE images RENAME id TO {quoted}")
        options = ScoreOptions(key=quoted, follow=True)
        dbinfer.follow(options=dbinfer.FollowOptions(key=quoted), dsn=dsn)
        score(options=options, dsn=dsn)
        paint(db, "blue", f"{quoted} = 0".replace("%", "%%"))
        assert score(options=options, dsn=dsn).rows == 1
