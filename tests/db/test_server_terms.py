"""What a running embedded server asks for, how it is set, and which folders it does not import from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg2
import pytest
from common_folders import common_folder
from servers import ask_server

from dbinfer import server as embedded
from dbinfer.base.errors import ServerError
from dbinfer.server import ServerReport, UpOptions
from dbinfer.server.account import server_account

pytestmark = pytest.mark.postgres_only("the embedded server is PostgreSQL")


def test_a_venv_that_others_may_write_is_refused(server: ServerReport) -> None:
    with common_folder("open") as folder:
        (folder / "bin").mkdir()
        program = folder / "bin" / "python"
        program.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
        program.chmod(0o755)
        folder.chmod(0o777)
        with pytest.raises(ServerError, match="not safe to import from: everybody may write") as caught:
            embedded.up(server.home, UpOptions(folder))
        assert "chmod -R go-w" in caught.value.hint
        assert not (folder / "ran").exists()
    assert embedded.status(server.home).venv == server.venv, "the good one is kept"


def test_a_venv_closed_to_the_servers_user_is_refused(server: ServerReport, tmp_path: Path) -> None:
    if not server_account().switch:
        pytest.skip("the server runs as this user, who can read all of its own")
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    with pytest.raises(ServerError, match=r"the server's user .* cannot enter the folder"):
        embedded.up(server.home, UpOptions(tmp_path / "venv"))
    assert embedded.status(server.home).venv == server.venv, "the good one is kept"


def test_the_password_is_asked_for_on_the_socket_and_on_tcp(server: ServerReport) -> None:
    for host in (server.socket_dir, "127.0.0.1"):
        with pytest.raises(psycopg2.OperationalError, match=r"no password supplied|password authentication"):
            psycopg2.connect(
                host=host, port=server.port, dbname="dbinfer", user="dbinfer", passfile="/dev/null"
            )


def test_the_settings_fit_this_machine(server: ServerReport) -> None:
    assert ask_server(server, "SHOW max_parallel_workers") == str(server.cores)
    assert ask_server(server, "SHOW max_parallel_workers_per_gather") == str(max(1, server.cores - 1))
    assert ask_server(server, "SHOW jit") == "off"
    assert ask_server(server, "SHOW listen_addresses") == "127.0.0.1"
    assert ask_server(server, "SHOW data_directory") == str(server.data_dir)


def test_plpython_and_dbinfer_are_in_the_database(server: ServerReport) -> None:
    assert ask_server(server, "SELECT count(*) FROM pg_language WHERE lanname = 'plpython3u'") == 1
    assert ask_server(server, "SELECT to_regnamespace('dbinfer')::text") == "dbinfer"
