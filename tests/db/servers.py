"""Servers and databases of the tests: one embedded server a run (or Greenplum), one database a test module."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

import psycopg2
import pytest
from asking import ask
from common_folders import common_folder
from hosts import cached, leave_hosts, others_test
from psycopg2.extensions import make_dsn, parse_dsn

from dbinfer import server as embedded
from dbinfer.database import state
from dbinfer.install import InstallOptions, ensure, install
from dbinfer.server import cluster, ensure_venv, python_at

GREENPLUM_DSN = "DBINFER_TEST_GREENPLUM_DSN"
ISOLATION = "DBINFER_TEST_ISOLATION"  # auto, always or never: where the tests' models run
LOG = pytest.StashKey[tuple[Path, int]]()


def allowed(isolation: str) -> str:
    """Return where a model shall run, or skip: a database whose models run in the engine always has no other way."""
    if os.environ.get(ISOLATION) == "always" != isolation:
        pytest.skip(f"{ISOLATION} is always")
    return isolation


def backend_venv() -> Path:
    """Return a runtime that stays between runs: the default state folder's, made now when it is not there."""
    place = state.locate(os.environ.get("DBINFER_TEST_RUNTIME_HOME") or state.default())
    place.runtimes.mkdir(parents=True, exist_ok=True, mode=0o755)
    found = cluster.find()
    assert found.plpython is not None
    with _locked(place.runtimes):
        venv = ensure_venv(place, python_at(cluster.linked_python(found.plpython)), print)
        _add_tokenizers(venv)
        return venv


def _add_tokenizers(venv: Path) -> None:
    """Install what hosts need for networks that read texts; where pip cannot, those tests say why they are skipped."""
    if not list(venv.glob("lib/python3*/site-packages/openvino_tokenizers")):
        fitting = f"openvino-tokenizers=={version('openvino')}.*"
        command = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", fitting]
        subprocess.run(command, check=False, umask=0o022)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let the other process of `make test` wait: two that install into one folder spoil each other's work."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def ask_server(running: embedded.ServerReport, query: str) -> object:
    """Return the first column of the first row that an embedded server answers in its own database."""
    assert running.dsn is not None
    with closing(psycopg2.connect(running.dsn)) as connection:
        return ask(connection, query)


@pytest.fixture(scope="session")
def session_env() -> Iterator[pytest.MonkeyPatch]:
    """An environment without this user's servers; undone at the end of the run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [
            name for name in os.environ if name.startswith("PG") or name in ("DBINFER_DSN", "DBINFER_HOME")
        ]:
            patch.delenv(name)
        yield patch


@pytest.fixture(scope="session")
def server(session_env: pytest.MonkeyPatch, engine_dir: str) -> Iterator[embedded.ServerReport]:
    """The one embedded server of this run, in a state folder of its own that is removed at the end."""
    if os.environ.get(GREENPLUM_DSN):
        pytest.skip("needs the embedded server, but the tests run against Greenplum")
    with common_folder("test") as folder:
        session_env.setenv("DBINFER_HOME", str(folder))
        try:
            yield embedded.up(
                folder, embedded.UpOptions(backend_venv()), lambda progress: print(progress.note)
            )
        finally:
            embedded.down(folder)


@pytest.fixture(scope="session")
def server_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """A superuser's dsn of the server under test: Greenplum when DBINFER_TEST_GREENPLUM_DSN names one.

    At the end of the run no host keeps a model that was not there before.
    """
    found = os.environ.get(GREENPLUM_DSN)
    if found:
        request.getfixturevalue("session_env")
    else:
        found = request.getfixturevalue("server").dsn
    assert found is not None
    before = cached(found)
    yield found
    # 0.1.0 leaves models that bear no mark, and another run on the same cluster has models there, too
    released = any("test_install_upgrade_from_0_1_0" in item.nodeid for item in request.session.items)
    assert released or others_test(found) or cached(found) <= before, "models were left in the host caches"


@pytest.fixture(scope="session")
def venv(request: pytest.FixtureRequest) -> Path:
    """The venv of the backends; on Greenplum $DBINFER_TEST_GREENPLUM_VENV names it."""
    if os.environ.get(GREENPLUM_DSN):
        return Path(os.environ["DBINFER_TEST_GREENPLUM_VENV"])
    running: embedded.ServerReport = request.getfixturevalue("server")
    assert running.venv is not None
    return Path(running.venv)


@pytest.fixture(scope="session")
def engine_dir() -> Iterator[str]:
    """A folder for the engines of this run, which the first of them makes; they end with the server."""
    folder = Path(f"/tmp/dbinfer-test-{uuid.uuid4().hex[:8]}")
    yield str(folder)
    end = time.monotonic() + 10.0
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


@pytest.fixture(scope="module")
def empty_dsn(server_dsn: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The dsn of a fresh database without dbinfer; dropped after the module."""
    with _database(server_dsn, request.module.__name__, "template1") as made:
        yield made


@pytest.fixture(scope="session")
def installed(server_dsn: str, venv: Path, engine_dir: str) -> Iterator[str]:
    """The name of a database with dbinfer that the modules' databases are copies of: installing it takes longer."""
    with _database(server_dsn, "installed", "template1") as made:
        ensure(made, venv=str(venv))
        # other runs of this user have engines of their own, which tests of faults would end
        install(InstallOptions(isolation=os.environ.get(ISOLATION), engine_dir=engine_dir), dsn=made)
        yield parse_dsn(made)["dbname"]


@pytest.fixture(scope="module")
def dsn(server_dsn: str, installed: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The dsn of this module's database, with dbinfer installed in it; dropped after the module."""
    with _database(server_dsn, request.module.__name__, installed) as made:
        yield made


@contextmanager
def _database(server_dsn: str, module: str, template: str) -> Iterator[str]:
    name = (
        f"test_{module.rsplit('.', maxsplit=1)[-1].removeprefix('test_')}"[:50] + f"_{uuid.uuid4().hex[:8]}"
    )
    _as_admin(server_dsn, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield make_dsn(server_dsn, dbname=name)
    finally:
        stop = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        _as_admin(server_dsn, stop)
        leave_hosts(make_dsn(server_dsn, dbname=name))
        _as_admin(server_dsn, stop, f'DROP DATABASE "{name}"')


def _as_admin(server_dsn: str, *commands: str) -> None:
    with closing(psycopg2.connect(server_dsn)) as admin, admin.cursor() as cursor:
        admin.autocommit = True
        for command in commands:
            cursor.execute(command)


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg2.extensions.connection]:
    """A new session (a fresh backend) on this module's database, in autocommit mode."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        yield connection


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    log = server_log()
    if log is not None:
        item.stash[LOG] = (log, log.stat().st_size)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    log, begin = item.stash.get(LOG, (Path(), 0))
    # the end of the run may have failed after the server was removed
    if report.failed and log.is_file():
        with log.open("rb") as handle:
            handle.seek(begin)
            report.sections.append(("server log", handle.read().decode(errors="replace")[-8000:]))
    return report


def server_log() -> Path | None:
    """Return the log of the server that these tests have started; None for another one."""
    folder = os.environ.get("DBINFER_HOME")
    log = state.Home(Path(folder)).log if folder else None
    return log if log is not None and log.exists() else None
