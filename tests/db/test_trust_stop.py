"""A backend within the first inference of a network, which may take hours, ends when the server is stopped at once.

All signals were blocked for that long, SIGQUIT included: an immediate stop waited, and killed it after five seconds.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import answers_again, ask
from common_folders import common_folder
from engine_processes import threads
from psycopg2.extensions import connection as Connection

from dbinfer import server
from dbinfer.install import InstallOptions, ensure, install
from dbinfer.models import DeployOptions, deploy
from dbinfer.server import ServerReport, UpOptions

pytestmark = [pytest.mark.wide, pytest.mark.postgres_only("stops a server of its own")]
SPECIAL = tiny_models.file(tiny_models.picture(200, 200, 200))
BLACK = tiny_models.file(tiny_models.picture(0, 0, 0))
PATIENCE = 120.0
STOPS = {signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGALRM}


@pytest.fixture
def running(venv: Path, tmp_path: Path) -> Iterator[ServerReport]:
    """A server of its own with the endless network."""
    with common_folder("stop") as folder:
        report = server.up(folder, UpOptions(venv))
        try:
            assert report.dsn is not None
            ensure(report.dsn)
            # in the backend, also where another test's engine still runs
            deploy(tiny_models.endless(tmp_path), DeployOptions(isolation="never"), dsn=report.dsn)
            yield report
        finally:
            server.down(folder)


def _wait_until(what: str, done: object) -> None:
    end = time.monotonic() + PATIENCE
    while not done():  # type: ignore[operator]
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.05)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def _blocked(facts: dict[str, str]) -> set[signal.Signals]:
    """Return which of the signals that stop a backend a thread blocks."""
    return {number for number in STOPS if int(facts["SigBlk"], 16) >> (number - 1) & 1}


def _start_endless(connection: Connection) -> int:
    """Begin an inference that does not end; return the backend's pid once it is in it."""
    pid: int = connection.info.backend_pid
    assert ask(connection, "SELECT count(*) FROM (SELECT dbinfer.image_info(%s)) s", BLACK) == 1
    before = _processor_seconds(pid)

    def score() -> None:
        with pytest.raises(psycopg2.Error):
            ask(connection, "SELECT dbinfer.predict(%s, 'endless')", SPECIAL)

    threading.Thread(target=score, daemon=True).start()
    _wait_until("the network runs", lambda: _processor_seconds(pid) > before + 3)
    return pid


def test_quit_ends_the_first_inference(running: ServerReport) -> None:
    with closing(psycopg2.connect(running.dsn)) as connection:
        pid = _start_endless(connection)
        os.kill(pid, signal.SIGTERM)  # takes effect when the library returns, as in any function in C
        os.kill(pid, signal.SIGQUIT)
        _wait_until("the backend has ended", lambda: _gone(pid))
    # PostgreSQL may not heed a fast stop that meets its recovery
    _wait_until("the server has recovered", lambda: answers_again(str(running.dsn)))
    logs = [log.read_text() for log in Path(running.home).rglob("*.log")]
    assert any(f"(PID {pid}) exited with exit code 2" in log for log in logs)


def test_signals_reach_the_backend_again_after_the_first_inference(running: ServerReport) -> None:
    with closing(psycopg2.connect(running.dsn)) as connection:
        pid = connection.info.backend_pid
        assert len(ask(connection, "SELECT dbinfer.predict(%s, 'endless')", BLACK)) == 3
        blocked = {thread: _blocked(facts) for thread, facts in threads(pid).items()}
        assert blocked.pop(pid) == set()
        assert all(signals == STOPS for signals in blocked.values())
        os.kill(pid, signal.SIGTERM)
        _wait_until("the backend has ended", lambda: _gone(pid))


@pytest.mark.parametrize("isolation", ["never", "always"])
def test_a_backend_that_scores_ends_with_its_postmaster(running: ServerReport, isolation: str) -> None:
    """It went on to the end of its statement, and held the memory without which no server starts in that folder."""
    assert running.dsn is not None
    install(InstallOptions(isolation=isolation), running.dsn)
    connection = psycopg2.connect(running.dsn)
    pid = connection.info.backend_pid
    query = "SELECT count(dbinfer.predict(%s, 'endless')) FROM generate_series(1, 100000000)"
    assert len(ask(connection, "SELECT dbinfer.predict(%s, 'endless')", BLACK)) == 3
    before = _processor_seconds(pid)
    ended: list[psycopg2.Error] = []

    def score() -> None:
        with pytest.raises(psycopg2.Error) as caught:
            ask(connection, query, BLACK)
        ended.append(caught.value)

    thread = threading.Thread(target=score, daemon=True)
    thread.start()
    _wait_until("rows are scored", lambda: _processor_seconds(pid) > before + 1)
    os.kill(running.pid, signal.SIGKILL)
    _wait_until("the backend has ended", lambda: _gone(pid))
    thread.join()
    connection.close()
    assert "terminating connection due to unexpected postmaster exit" in str(ended[0])
