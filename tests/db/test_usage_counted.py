"""Who used what: rows of all processes are counted, for the role that acts, without a write in the database."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, force_parallel, make_images, refused, role, rows, workers
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.install import InstallOptions, install
from dbinfer.models import deploy
from dbinfer_udf.host.usage import BOUNDS

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
SCORE = "SELECT sum((dbinfer.predict(img, %s))[1]) FROM images"
ERRORS = "SELECT kind, sum(rows) FROM dbinfer.usage_errors WHERE model = %s GROUP BY kind"
COUNTED = "SELECT coalesce(sum(rows), 0)::integer FROM dbinfer.usage WHERE model = %s"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in "abcdefgh":
        deploy(tiny_models.constant(tmp_path_factory.mktemp("irs"), 5, name), dsn=dsn)


@pytest.fixture(autouse=True)
def counting(db: Connection) -> Iterator[None]:
    """100 images; usage is counted, and no longer after the test."""
    make_images(db, "images", [IMAGE], copies=100)
    rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
    yield
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")


def file_of(db: Connection) -> Path:
    number = ask(db, "SELECT oid FROM pg_database WHERE datname = current_database()")
    return Path(ask(db, "SHOW data_directory")) / "dbinfer_usage_2" / str(number)


def counted(db: Connection, model: str) -> int:
    return int(ask(db, COUNTED, model))


def test_it_is_off_until_somebody_turns_it_on(db: Connection, dsn: str) -> None:
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")
    rows(db, SCORE, "a")
    assert counted(db, "a") == 0
    assert ask(db, "SELECT dbinfer._usage_since()") is None
    assert "usage = on" in install(InstallOptions(usage="on"), dsn).message
    assert ask(db, "SELECT now() - dbinfer._usage_since() < interval '1 minute'")
    refused(db, "22023", "SELECT dbinfer.set_setting('usage', 'sometimes')")
    refused(db, "22023", "SELECT dbinfer.set_setting('usage', NULL)")


def test_rows_seconds_and_the_last_moment(db: Connection) -> None:
    before = ask(db, "SELECT clock_timestamp()")
    rows(db, SCORE, "b")
    rows(db, "SELECT dbinfer.predict(NULL, 'b')")
    rows(db, "SELECT * FROM dbinfer.warm('b')")
    (found,) = rows(db, "SELECT version, role, rows, seconds, last_used FROM dbinfer.usage WHERE model = 'b'")
    assert found[:3] == (1, ask(db, "SELECT current_user"), 100)
    assert 0 < found[3] < 60
    assert before <= found[4] <= ask(db, "SELECT clock_timestamp()")


def test_how_long_rows_took_and_why_some_had_no_result(db: Connection) -> None:
    rows(db, SCORE, "b")
    before = dict(rows(db, ERRORS, "b"))
    rows(db, "UPDATE images SET img = convert_to('torn' || id, 'UTF8') WHERE id < 3")
    rows(db, "SELECT dbinfer.predict(img, 'b', on_error => 'null') FROM images")
    refused(db, "22P03", "SELECT dbinfer.predict(img, 'b') FROM images WHERE id = 1")
    assert dict(rows(db, ERRORS, "b"))["image"] == before.get("image", 0) + 4
    counts = rows(
        db, "SELECT seconds, sum(rows) FROM dbinfer.usage_times WHERE model = 'b' GROUP BY 1 ORDER BY 1"
    )
    assert [seconds for seconds, _ in counts] == [*BOUNDS, float("inf")]
    assert sum(count for _, count in counts) == counted(db, "b")
    with role(db):
        # nobody else's
        assert ask(db, "SELECT count(*) FROM dbinfer.usage_times") == 0
        assert ask(db, "SELECT count(*) FROM dbinfer.usage_errors") == 0


@pytest.mark.wide
def test_rows_that_a_search_embeds_count_too(db: Connection, dsn: str, tmp_path: Path) -> None:
    """With usage on, a search over images ended with `run() takes 6 positional arguments but 7 were given`."""
    deploy(tiny_models.colour_embedding(tmp_path), dsn=dsn)
    assert len(rows(db, "SELECT * FROM dbinfer.similar('images', %s, 'vector', 5)", IMAGE + b"it")) == 5
    assert counted(db, "vector") == 101  # with the image that is looked for


@pytest.mark.postgres_only("parallel plans")
@pytest.mark.wide
def test_rows_of_parallel_workers_count(db: Connection) -> None:
    force_parallel(db)
    rows(db, "ALTER TABLE images SET (parallel_workers = 2)")
    query = "SELECT sum((dbinfer.predict(img, 'c'))[1]) FROM images"
    assert workers(db, query) > 0
    assert counted(db, "c") == 100
    rows(db, f"CREATE TABLE made AS {query}")
    assert counted(db, "c") == 200
    rows(db, "DROP TABLE made")


@pytest.mark.wide
def test_plans_are_the_same(db: Connection) -> None:
    with_it = plan(db)
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")
    assert plan(db) == with_it


def plan(db: Connection) -> list[str]:
    """Return the lines of a plan, without the token that Greenplum puts into it."""
    query = "EXPLAIN (VERBOSE, COSTS) SELECT id, dbinfer.predict(img, 'd') FROM images ORDER BY id"
    return [re.sub("dbinfer:[0-9]+:[0-9a-f]+", "TOKEN", line) for (line,) in rows(db, query)]


@pytest.mark.wide
def test_read_only_and_serializable_transactions_write_nothing(db: Connection) -> None:
    for begin in ("READ ONLY", "ISOLATION LEVEL SERIALIZABLE", "ISOLATION LEVEL REPEATABLE READ"):
        rows(db, f"BEGIN {begin}")
        rows(db, SCORE, "d")
        assert ask(db, "SELECT txid_current_if_assigned()") is None
        # what is rolled back was scored all the same
        rows(db, "ROLLBACK")
    assert counted(db, "d") == 300


def test_rows_of_batches_count_once(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.colour_classifier(tmp_path), dsn=dsn)
    rows(db, "UPDATE images SET img = NULL WHERE id = 7")
    assert len(rows(db, "SELECT * FROM dbinfer.classify_table('images', 'colours')")) == 100
    assert counted(db, "colours") == 99


def test_within_a_definer_function_its_owner_counts(db: Connection) -> None:
    rows(db, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    with role(db) as name:
        rows(
            db,
            "CREATE FUNCTION public.scored(img bytea) RETURNS real LANGUAGE sql SECURITY DEFINER AS "
            "$$ SELECT (dbinfer.predict(img, 'e'))[1] $$",
        )
        rows(db, "RESET ROLE")
        rows(db, "SELECT public.scored(img) FROM images")
        assert rows(db, "SELECT role, rows FROM dbinfer.usage WHERE model = 'e'") == [(name, 100)]
    rows(db, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")


def test_a_role_sees_its_own_rows_and_an_administrator_all(db: Connection) -> None:
    rows(db, SCORE, "f")
    with role(db) as name:
        assert counted(db, "f") == 0
        rows(db, "SELECT dbinfer.predict(%s, 'f')", IMAGE)
        assert rows(db, "SELECT role, rows FROM dbinfer.usage") == [(name, 1)]
        refused(db, "42501", "SELECT dbinfer._keep_usage()")
        refused(db, "42501", "SELECT dbinfer._usage_of('0')")
        refused(db, "42501", "SELECT * FROM dbinfer_private.usage")
        rows(db, "RESET ROLE")
        with role(db, "dbinfer_admin"):
            assert counted(db, "f") == 101
            rows(db, "SELECT dbinfer._keep_usage()")
        rows(db, f"SET ROLE {name}")
        assert rows(db, "SELECT role, rows FROM dbinfer.usage") == [(name, 1)]


@pytest.mark.postgres_only("32 sessions there are 128 processes")
@pytest.mark.parametrize("level", ["read\\ committed", "serializable"])
@pytest.mark.wide
def test_sessions_do_not_wait_for_each_other(db: Connection, dsn: str, level: str) -> None:
    """32 sessions of one role; whoever waited for a lock or failed to serialise would fail here."""
    before = counted(db, "g")
    failures: list[Exception] = []
    options = f"-c lock_timeout=1 -c deadlock_timeout=1 -c default_transaction_isolation={level}"

    def score() -> None:
        try:
            with closing(psycopg2.connect(make_dsn(dsn, options=options))) as session:
                for _ in range(20):
                    # two statements, so that a transaction holds what it has
                    rows(session, "SELECT dbinfer.predict(%s, 'g')", IMAGE)
                    rows(session, "SELECT dbinfer.predict(%s, 'g')", IMAGE)
                    session.commit()
        except Exception as err:
            failures.append(err)

    threads = [threading.Thread(target=score) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert counted(db, "g") == before + 32 * 40


@pytest.mark.wide
def test_sessions_that_end_leave_their_records_to_the_next_ones(db: Connection, dsn: str) -> None:
    before = counted(db, "h")
    for _ in range(5):
        with closing(psycopg2.connect(dsn)) as session:
            rows(session, "SELECT dbinfer.predict(%s, 'h')", IMAGE)
    with closing(psycopg2.connect(dsn)) as killed:
        killed.autocommit = True
        rows(killed, "SELECT dbinfer.predict(%s, 'h')", IMAGE)
        rows(db, "SELECT pg_terminate_backend(%s)", killed.get_backend_pid())
    assert counted(db, "h") == before + 6


@pytest.mark.postgres_only("the data directories lie with the segments")
def test_a_failure_of_the_counter_fails_no_statement(db: Connection, dsn: str) -> None:
    """A folder stands where the file should be: nothing is counted, and everything is scored."""
    place = (
        Path(ask(db, "SHOW data_directory"))
        / "dbinfer_usage_2"
        / str(ask(db, "SELECT oid FROM pg_database WHERE datname = current_database()"))
    )
    kept = place.with_name("kept")
    place.rename(kept)
    place.mkdir()
    try:
        with closing(psycopg2.connect(dsn)) as session:
            assert ask(session, SCORE, "a") == 500
    finally:
        place.rmdir()
        kept.rename(place)


@pytest.mark.postgres_only("the data directories lie with the segments")
def test_what_was_kept_outlives_the_file_and_counts_once(db: Connection, dsn: str) -> None:
    rows(db, SCORE, "a")
    first = counted(db, "a")
    for _ in range(2):
        rows(db, "SELECT dbinfer._keep_usage()")
        assert counted(db, "a") == first
    file_of(db).unlink()
    assert counted(db, "a") == first
    # this session's file is gone, and it makes a new one
    rows(db, SCORE, "a")
    assert counted(db, "a") == first + 100
    rows(db, "BEGIN READ ONLY")
    rows(db, "SELECT dbinfer._keep_usage()")
    rows(db, "ROLLBACK")


@pytest.mark.wide
def test_a_dropped_version_takes_its_use_along(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 5, "gone"), dsn=dsn)
    rows(db, SCORE, "gone")
    rows(db, "SELECT dbinfer._keep_usage()")
    rows(db, "SELECT dbinfer.drop_model('gone', force => true)")
    assert counted(db, "gone") == 0
    assert (
        ask(
            db,
            "SELECT count(*) FROM dbinfer_private.usage k WHERE NOT EXISTS "
            "(SELECT FROM dbinfer_private.model_version v WHERE v.id = k.version_id)",
        )
        == 0
    )
