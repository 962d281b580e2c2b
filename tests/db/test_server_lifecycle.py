"""Up and down of an embedded server of its own: again, after a crash, with stale files, with a taken port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from common_folders import common_folder
from servers import ask_server

from dbinfer import server
from dbinfer.base.errors import ServerError
from dbinfer.base.progress import Progress, Say
from dbinfer.database import state
from dbinfer.database.state import Home, State, embedded_dsn
from dbinfer.server import ServerReport, UpOptions, cluster
from dbinfer.server.account import server_account
from dbinfer.server.cluster import choose_port


class Notes(list[str]):
    """Keeps the sentences that a verb tells."""

    def __call__(self, progress: Progress) -> None:
        self += [progress.note] if progress.note else []


pytestmark = pytest.mark.postgres_only("the embedded server is PostgreSQL")
gives_up_a_port = pytest.mark.alone("a port that it gives up could be taken by another server of the tests")


@pytest.fixture(scope="module")
def place(venv: Path) -> Iterator[Home]:
    """A state folder of its own, whose path has a space in it."""
    with common_folder("own") as folder:
        home = Home(folder / "state folder")
        server.up(home.path, UpOptions(venv))
        yield home
        server.down(home.path)


@pytest.fixture
def running(place: Home) -> ServerReport:
    """The server of that folder, started again when the test before stopped it."""
    return server.up(place.path)


def test_a_second_up_says_that_it_runs_and_changes_nothing(running: ServerReport) -> None:
    said = Notes()
    again = server.up(running.home, progress=said)
    assert said == [f"the embedded server runs already (process {running.pid}, port {running.port})."]
    assert (again.pid, again.port, again.venv) == (running.pid, running.port, running.venv)


def test_data_survives_down_and_up(running: ServerReport) -> None:
    assert running.dsn is not None
    with closing(psycopg2.connect(running.dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")
    assert server.down(running.home).changed is True
    assert server.status(running.home).running is False
    assert embedded_dsn(running.home) is None
    assert ask_server(server.up(running.home), "SELECT answer FROM kept") == 42


def test_down_twice_is_fine(running: ServerReport) -> None:
    assert server.down(running.home).changed is True
    assert server.down(running.home).changed is False


def test_down_where_nothing_ever_was_makes_nothing(tmp_path: Path) -> None:
    assert server.down(tmp_path / "none").changed is False
    assert not (tmp_path / "none").exists()


@pytest.mark.wide
def test_up_recovers_after_the_server_was_killed(running: ServerReport) -> None:
    assert running.pid is not None
    os.kill(running.pid, signal.SIGKILL)
    said = Notes()
    again = server.up(running.home, progress=said)
    assert any(f"its process {running.pid} is gone" in text for text in said)
    assert ask_server(again, "SELECT 1") == 1


@pytest.mark.wide
def test_a_pid_file_that_names_another_program_is_stale(running: ServerReport, place: Home) -> None:
    server.down(running.home)
    (place.data / "postmaster.pid").write_text(f"{os.getpid()}\n{place.data}\n")
    if server_account().switch:
        os.chown(place.data / "postmaster.pid", server_account().uid, server_account().gid)
    said = Notes()
    assert server.up(running.home, progress=said).running
    assert any("recovering" in text for text in said)


@gives_up_a_port
@pytest.mark.wide
def test_a_port_taken_by_another_program_is_given_up(running: ServerReport) -> None:
    server.down(running.home)
    assert running.port is not None
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", running.port))
        taken.listen()
        said = Notes()
        again = server.up(running.home, progress=said)
    assert again.port != running.port
    assert any(text.startswith(f"port {running.port} is taken") for text in said)
    assert ask_server(again, "SHOW port") == str(again.port)


@gives_up_a_port
@pytest.mark.wide
def test_a_port_that_another_server_takes_at_the_same_moment_is_given_up(
    running: ServerReport, place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a port and the server's start, somebody else was quicker."""
    with socket.socket() as taken:

        def too_late(state: State, say: Say) -> None:
            choose_port(state, say)
            if state.port == running.port:
                taken.bind(("127.0.0.1", state.port))
                taken.listen()

        server.down(place.path)
        monkeypatch.setattr(cluster, "choose_port", too_late)
        notes = Notes()
        again = server.up(place.path, progress=notes)
        assert again.port != running.port
        assert any(f"port {running.port} is taken by another program" in note for note in notes)
        assert ask_server(again, "SELECT 1") == 1


@pytest.mark.wide
def test_two_ups_at_once_start_one_server(running: ServerReport) -> None:
    server.down(running.home)
    found = list[ServerReport]()
    threads = [threading.Thread(target=lambda: found.append(server.up(running.home))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0].pid == found[1].pid is not None


@pytest.mark.wide
def test_a_start_that_fails_shows_the_log(running: ServerReport, place: Home) -> None:
    server.down(running.home)
    conf = place.data / "postgresql.auto.conf"
    before = conf.read_text()
    conf.write_text(before + "work_mem = 'plenty'\n")
    try:
        with pytest.raises(ServerError, match="work_mem") as caught:
            server.up(running.home)
        assert str(place.log) in caught.value.hint
    finally:
        conf.write_text(before)


@pytest.mark.wide
def test_a_lost_password_file_is_explained(running: ServerReport, place: Home) -> None:
    server.down(running.home)
    hidden = place.state.with_suffix(".hidden")
    place.state.rename(hidden)
    try:
        with pytest.raises(ServerError, match=r"server\.json is missing"):
            server.up(running.home)
    finally:
        hidden.rename(place.state)


def test_the_files_for_psql_work(running: ServerReport, place: Home) -> None:
    assert running.bindir is not None
    assert running.dsn is not None
    psql = [f"{running.bindir}/psql", "-XAtc", "SELECT current_user"]
    for way, env in ((running.dsn, {}), ("service=dbinfer", {"PGSERVICEFILE": str(place.servicefile)})):
        done = subprocess.run(
            [*psql, way], capture_output=True, text=True, check=False, env={**os.environ, **env}
        )
        assert done.stdout == "dbinfer\n", done.stderr


def test_processes_are_counted_while_it_runs(running: ServerReport, place: Home) -> None:
    assert server.status(running.home).processes >= 2
    server.down(running.home)
    assert state.children(place) == []
    assert server.status(running.home).processes == 0
