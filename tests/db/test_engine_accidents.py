"""What happens to rows when the engine's processes die, hang or are gone, and when statements are cancelled."""

from __future__ import annotations

import shutil
import signal
import tempfile
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from engine_processes import below, kill, meanwhile, scoring, title, until
from psycopg2.extensions import connection as Connection

from dbinfer.install.hosts import EngineOptions, check_engines, engine
from dbinfer.models import DeployOptions, deploy

pytestmark = pytest.mark.postgres_only("kills processes of the host it runs on")
IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
HANGS = tiny_models.file(tiny_models.picture(200, 200, 200))
PREDICT = "SELECT dbinfer.predict(%s, 'endless')"
RIGHT = [2.0, 3.0, 4.0]
DIED = "the worker that scored this image"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    # tests before these may have left an engine of another runtime, which these would see and count
    engine(EngineOptions(stop=True), dsn)
    until(lambda: not engine(None, dsn).engines, "no engine runs")
    deploy(tiny_models.endless(folder), DeployOptions(isolation="always"), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder), DeployOptions(isolation="always"), dsn=dsn)


@pytest.fixture
def supervisor(db: Connection) -> int:
    """The pid of this run's engine, which holds the model."""
    assert ask(db, PREDICT, IMAGE) == RIGHT
    (pid,) = (pid for (pid,) in rows(db, "SELECT pid FROM dbinfer.engines WHERE problem IS NULL"))
    return int(pid)


def kill_who_scores(supervisor: int, number: int = signal.SIGKILL) -> None:
    until(lambda: scoring(supervisor, "endless"), "a worker scores")
    for pid in scoring(supervisor, "endless"):
        kill(pid, number)


@pytest.mark.wide
def test_a_timeout_ends_the_statement_in_the_servers_words(db: Connection, supervisor: int) -> None:
    rows(db, "CREATE TEMP TABLE results (p real[])")
    rows(db, "SET statement_timeout = '1s'")
    for query in (PREDICT, "INSERT INTO results SELECT dbinfer.predict(%s, 'endless', 'null')"):
        diag = refused(db, "57014", query, HANGS)
        assert "canceling statement due to statement timeout" in str(diag.message_primary)
    rows(db, "SET statement_timeout = 0")
    assert rows(db, "SELECT * FROM results") == []
    assert ask(db, PREDICT, IMAGE) == RIGHT


@pytest.mark.wide
def test_a_cancel_and_a_terminate_need_not_wait_for_the_network(
    dsn: str, db: Connection, supervisor: int
) -> None:
    with closing(psycopg2.connect(dsn)) as other:
        other.autocommit = True
        for function, sqlstate, sentence in (
            ("pg_cancel_backend", "57014", "canceling statement due to user request"),
            ("pg_terminate_backend", "57P01", "terminating connection due to administrator command"),
        ):
            pid = other.get_backend_pid()

            def act(pid: int = pid, function: str = function) -> None:
                until(lambda: scoring(supervisor, "endless"), "a worker scores")
                rows(db, f"SELECT {function}(%s)", pid)

            with meanwhile(act), pytest.raises(psycopg2.Error) as caught:
                rows(other, PREDICT, HANGS)
            assert (caught.value.pgcode, sentence in str(caught.value)) == (sqlstate, True)
            # the worker does not go on with what nobody waits for
            until(lambda: not scoring(supervisor, "endless"), "no worker scores")
            if function == "pg_cancel_backend":
                assert ask(other, PREDICT, IMAGE) == RIGHT
    assert ask(db, PREDICT, IMAGE) == RIGHT


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_costs_its_row_only(db: Connection, supervisor: int, number: int) -> None:
    with meanwhile(lambda: kill_who_scores(supervisor, number)):
        diag = refused(db, "XX000", PREDICT, HANGS)
    assert DIED in str(diag.message_primary)
    assert ask(db, PREDICT, IMAGE) == RIGHT
    make_images(db, "three", [IMAGE, HANGS, IMAGE])
    with meanwhile(lambda: kill_who_scores(supervisor, number)):
        found = rows(db, "SELECT dbinfer.predict(img, 'endless', 'null') FROM three ORDER BY id")
    assert found == [(RIGHT,), (None,), (RIGHT,)]


@pytest.mark.wide
def test_an_image_that_takes_too_long_is_one_rows_error(dsn: str, db: Connection, supervisor: int) -> None:
    rows(db, "SELECT dbinfer_private.set_setting('max_inference_seconds', '1')")
    try:
        with closing(psycopg2.connect(dsn)) as other:
            other.autocommit = True
            diag = refused(other, "54000", PREDICT, HANGS)
            assert "took more than 1 s" in str(diag.message_primary)
            assert ask(other, "SELECT dbinfer.predict(%s, 'endless', 'null')", HANGS) is None
            assert ask(other, PREDICT, IMAGE) == RIGHT
    finally:
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = 'max_inference_seconds'")


def test_an_engine_that_is_gone_between_two_rows_is_started_again(db: Connection, supervisor: int) -> None:
    everyone = below(supervisor)
    kill(supervisor)
    assert ask(db, PREDICT, IMAGE) == RIGHT
    until(lambda: not any(title(pid).startswith("dbinfer-") for pid in everyone), "the old engine is gone")
    # the first row may have been answered by a worker that had not noticed yet
    assert ask(db, PREDICT, IMAGE) == RIGHT
    assert ask(db, "SELECT count(*) FROM dbinfer.engines WHERE pid <> %s", supervisor) == 1


@pytest.mark.wide
def test_a_killed_supervisor_costs_no_more_than_the_row(db: Connection, supervisor: int) -> None:
    def act() -> None:
        until(lambda: scoring(supervisor, "endless"), "a worker scores")
        kill(supervisor)

    rows(db, "SET statement_timeout = '10s'")
    with meanwhile(act), pytest.raises(psycopg2.Error) as caught:
        rows(db, PREDICT, HANGS)
    assert caught.value.pgcode in ("XX000", "58000", "57014")
    assert ask(db, PREDICT, IMAGE) == RIGHT


@pytest.mark.wide
def test_a_stop_lets_rows_end_and_the_next_row_starts_another(
    dsn: str, db: Connection, supervisor: int
) -> None:
    engine(EngineOptions(stop=True), dsn)
    assert ask(db, PREDICT, IMAGE) == RIGHT
    until(lambda: not title(supervisor), "the old engine is gone")
    (found,) = engine(None, dsn).engines
    assert (found.pid != supervisor, found.problem, found.models[0]["model"]) == (True, None, "endless")


def test_somebody_elses_folder_is_an_error_or_auto_does_without(dsn: str, db: Connection) -> None:
    folder, kept = tempfile.mkdtemp(prefix="dbinfer-test-foreign-"), ask(db, SETTING)
    rows(db, "SELECT dbinfer_private.set_setting('engine_dir', %s)", folder)
    try:
        with closing(psycopg2.connect(dsn)) as other:
            other.autocommit = True
            diag = refused(other, "58000", PREDICT, IMAGE)
            assert "belongs to user id" in str(diag.message_primary)
            assert "--engine-dir" in str(diag.message_hint)
            checks = check_engines(other, settings(db))
            # the database's `always` lets no model be `auto`
            if settings(db).get("isolation") == "always":
                assert not checks[0].ok
            else:
                rows(db, "SELECT dbinfer.set_isolation('endless', 'auto')")
                assert ask(other, PREDICT, IMAGE) == RIGHT
                assert "models run in the backends, because" in checks[0].detail
                # and decode strangers' images there: somebody else's choice
                assert not checks[0].ok
    finally:
        rows(db, "SELECT dbinfer_private.set_setting('engine_dir', %s)", kept)
        rows(db, "SELECT dbinfer.set_isolation('endless', 'always')")
        shutil.rmtree(folder)


SETTING = "SELECT value FROM dbinfer_private.setting WHERE name = 'engine_dir'"


def settings(db: Connection) -> dict[str, Any]:
    return dict(rows(db, "SELECT name, value FROM dbinfer_private.setting"))


def test_what_the_view_shows_to_whom(db: Connection, supervisor: int) -> None:
    shown = "SELECT host IS NULL, models IS NULL, pid, requests > 0, runtime_digest FROM dbinfer.engines"
    digest = settings(db)["runtime_digest"][:12]
    assert rows(db, shown) == [(False, False, supervisor, True, digest)]
    rows(db, "CREATE ROLE passer_by")
    rows(db, "SET ROLE passer_by")
    try:
        assert rows(db, shown) == [(True, True, supervisor, True, digest)]
        refused(db, "42501", "SELECT dbinfer._hosts_engines('stop')")
    finally:
        rows(db, "RESET ROLE")
        rows(db, "DROP ROLE passer_by")
