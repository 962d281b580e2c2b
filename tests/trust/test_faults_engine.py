"""The engine beside a server that is killed, stopped, upgraded: it finishes or goes, and no process of ours stays."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import answers_again, ask, rows
from engine_processes import below, kill, meanwhile, scoring, title, until
from psycopg2.extensions import connection as Connection

from dbinfer import server as embedded
from dbinfer.install import InstallOptions, install, upgrade
from dbinfer.install.content import Content
from dbinfer.models import DeployOptions, deploy

pytestmark = [pytest.mark.wide, pytest.mark.postgres_only("breaks a server that is its own")]
IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
HANGS = tiny_models.file(tiny_models.picture(200, 200, 200))
PREDICT = "SELECT dbinfer.predict(%s, 'endless')"
RIGHT = [2.0, 3.0, 4.0]
OTHER_RUNTIME = (
    "UPDATE dbinfer_private.runtime_module SET source = source || E'\\n# another' WHERE name = 'session'",
    "UPDATE dbinfer_private.setting SET value = reverse(value) WHERE name = 'runtime_digest'",
)


@pytest.fixture(scope="module")
def isolated(
    own_server: embedded.ServerReport, engine_dir: str, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The dsn of a database whose models run in an engine of its own."""
    dsn, venv = own_server.dsn, own_server.venv
    assert dsn is not None
    # a row for which nobody waits goes on for as long as a row may take
    options = InstallOptions(
        venv=str(venv), isolation="always", engine_dir=engine_dir, max_inference_seconds=8
    )
    install(options, dsn=dsn)
    deploy(tiny_models.endless(tmp_path_factory.mktemp("irs")), DeployOptions(), dsn=dsn)
    return dsn


@pytest.fixture
def db(isolated: str) -> Iterator[Connection]:
    with closing(connect(isolated)) as connection:
        yield connection


def connect(dsn: str) -> Connection:
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    return connection


def supervisors(db: Connection) -> dict[str, int]:
    return dict(rows(db, "SELECT runtime_digest, pid FROM dbinfer.engines WHERE problem IS NULL"))


def supervisor(db: Connection) -> int:
    assert ask(db, PREDICT, IMAGE) == RIGHT
    return supervisors(db)[Content().runtime_digest[:12]]


def test_a_backend_killed_while_its_row_runs_leaves_no_row_running(isolated: str, db: Connection) -> None:
    engine = supervisor(db)
    victim = db.get_backend_pid()

    def act() -> None:
        until(lambda: scoring(engine, "endless"), "a worker scores")
        kill(victim)

    with meanwhile(act), pytest.raises(psycopg2.Error):
        rows(db, PREDICT, HANGS)
    until(lambda: not scoring(engine, "endless"), "nobody scores for a backend that is gone")
    until(lambda: answers_again(isolated), "the server has recovered")
    with closing(connect(isolated)) as other:
        # the engine is none of the server's processes: it has not been restarted
        assert supervisor(other) == engine


def test_after_an_upgrade_the_old_engine_finishes_and_goes(isolated: str, db: Connection) -> None:
    for statement in OTHER_RUNTIME:
        rows(db, statement)
    with closing(connect(isolated)) as old:
        assert ask(old, PREDICT, IMAGE) == RIGHT
        old_engine = supervisors(old)[Content().runtime_digest[::-1][:12]]
        assert upgrade(dsn=isolated).changed
        until(lambda: not title(old_engine), "the engine of the old runtime has gone")
        assert ask(old, PREDICT, IMAGE) == RIGHT
        assert set(supervisors(old)) == {Content().runtime_digest[:12]}


@pytest.mark.parametrize("mode", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_when_the_server_stops_no_process_of_ours_stays(
    own_server: embedded.ServerReport, isolated: str, mode: int
) -> None:
    home = Path(own_server.home)
    postmaster = int((home / "data" / "postmaster.pid").read_text().split()[0])
    with closing(connect(isolated)) as db:
        everyone = below(supervisor(db))
        assert len(everyone) >= 4

        def act() -> None:
            until(lambda: scoring(everyone[0], "endless"), "a worker scores")
            kill(postmaster, mode)

        with meanwhile(act), pytest.raises(psycopg2.Error):
            rows(db, PREDICT, HANGS)
    until(lambda: not title(postmaster), "the server has ended")
    until(lambda: not any(title(pid).startswith("dbinfer-") for pid in everyone), "the engine has ended")
    embedded.up(home, embedded.UpOptions(Path(str(own_server.venv))))
    with closing(connect(isolated)) as db:
        assert ask(db, PREDICT, IMAGE) == RIGHT
