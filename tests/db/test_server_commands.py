"""The commands up, down, status and psql as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbinfer.server import ServerReport

pytestmark = pytest.mark.postgres_only("the embedded server is PostgreSQL")
PROGRAM = Path(sys.executable).with_name("dbinfer")


def dbinfer(*args: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "200"} | ({"DBINFER_HOME": str(home)} if home else {})
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False, env=env)


def test_status_json_has_the_facts_and_no_password(server: ServerReport) -> None:
    done = dbinfer("status", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert facts["running"] is True
    assert facts["home"] == str(server.home)
    assert facts["pid"] == server.pid
    secret = json.loads((server.home / "server.json").read_text())["password"]
    assert secret not in done.stdout + dbinfer("status").stdout


def test_status_prints_the_psql_command(server: ServerReport) -> None:
    assert f'psql "{server.dsn}"' in dbinfer("status").stdout


@pytest.mark.wide
def test_status_of_an_empty_folder(tmp_path: Path) -> None:
    done = dbinfer("status", "--json", home=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["running"] is False
    assert "'dbinfer up'" in dbinfer("status", home=tmp_path).stdout


def test_up_on_a_running_server(server: ServerReport) -> None:
    done = dbinfer("up", "--json")
    assert done.returncode == 0, done.stderr
    assert "runs already" in done.stderr
    assert json.loads(done.stdout)["pid"] == server.pid


@pytest.mark.wide
def test_down_where_nothing_runs(tmp_path: Path) -> None:
    done = dbinfer("down", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "the embedded server was not running.\n")


def test_psql_passes_its_arguments_on(server: ServerReport) -> None:
    done = dbinfer("psql", "-XAt", "-c", "SELECT current_database(), 6 * 7")
    assert done.stdout == "dbinfer|42\n", done.stderr


@pytest.mark.wide
def test_psql_without_a_server_is_one_sentence(server: ServerReport, tmp_path: Path) -> None:
    done = dbinfer("psql", home=tmp_path)
    assert done.returncode == 1
    assert "'dbinfer up'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_venv_that_is_none_is_refused(server: ServerReport, tmp_path: Path) -> None:
    done = dbinfer("up", "--venv", str(tmp_path))
    assert done.returncode == 1
    assert "it has no bin/python" in done.stderr
    assert "Traceback" not in done.stderr
