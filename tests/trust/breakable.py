"""A database whose parts can be broken: its cache, its backends, the clients that talk to it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import tiny_models
from asking import ask, rows
from costly_models import slow_model, weighty_model
from psycopg2.extensions import connection as Connection

from dbinfer.install import InstallOptions, install
from dbinfer.models import DeployOptions, deploy
from dbinfer.server import ServerReport

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
PATIENCE = 60.0
TRIPS = 20_000  # of the slow model: about a tenth of a second an image
PREDICT = "SELECT dbinfer.predict(%s, %s)"
SEVEN, SLOW, WEIGHED = [7.0] * 3, [5.0] * 3, [2.0] * 3  # what the models answer
REGISTRY = (
    "model",
    "model_version",
    "model_part",
    "part",
    "alias",
    "model_grant",
    "setting",
    "runtime_module",
    "runtime_code",
)
ORPHANED_PARTS = """
SELECT count(*) FROM dbinfer_private.part p
 WHERE NOT EXISTS (SELECT FROM dbinfer_private.model_part m WHERE m.digest = p.digest)"""


CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dbinfer'"
WAITING = f"{CLIENTS} AND wait_event_type = 'Lock'"


@dataclass(frozen=True)
class Breakable:
    """The database of a server that is the test's own; `cache` is where its backends keep model files."""

    server: ServerReport
    dsn: str
    cache: Path

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Yield a new session in autocommit mode; it may be dead at the end."""
        connection = psycopg2.connect(self.dsn)
        connection.autocommit = True
        try:
            yield connection
        finally:
            connection.close()

    def registry(self) -> dict[str, list[str]]:
        """Return the registry's tables as text, row by row, to be compared before and after."""
        with self.session() as db:
            text = "SELECT md5(t::text) FROM dbinfer_private.{} t ORDER BY 1"
            return {table: [row[0] for row in rows(db, text.format(table))] for table in REGISTRY}

    def leftovers(self) -> list[str]:
        """Return what nobody would ever remove: temporary files, parts of no version, sessions without a client."""
        found = [str(path) for path in self.cache.rglob("*.tmp")]
        with self.session() as db:
            parts = ask(db, ORPHANED_PARTS)
            until(lambda: ask(db, CLIENTS) == 0, "no session of a client that is gone")
        return found + ([f"{parts} parts of no version"] if parts else [])

    def client(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start `dbinfer WORDS --dsn ...` in a process of its own."""
        program = "import sys; from dbinfer.cli import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", program, *map(str, words), "--dsn", self.dsn]
        return subprocess.Popen(
            command,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200"},
        )

    def run(self, *words: str | Path) -> str:
        """Run a client to its end, which must be a good one; return what it printed."""
        process = self.client(*words)
        printed = process.communicate(timeout=PATIENCE * 4)[0]
        assert process.returncode == 0, printed
        return printed

    def kill_client_at(self, lock: str, *words: str | Path) -> None:
        """Kill -9 a client when it waits for a lock (`LOCK TABLE ...`) that a session holds; then let go."""
        with self.session() as holder, self.session() as watcher:
            rows(holder, f"BEGIN; {lock}")
            process = self.client(*words)
            try:
                until(lambda: process.poll() is not None or ask(watcher, WAITING) > 0, f"it waits for {lock}")
                assert process.poll() is None, process.communicate()[0]
            finally:
                kill(process.pid)
                process.communicate()
            rows(holder, "ROLLBACK")


def lose_venv(dsn: str) -> None:
    """Name a virtual environment that is not there, as if its folder had gone: install would keep the old one."""
    with closing(psycopg2.connect(dsn)) as db, db:
        rows(db, "SELECT dbinfer_private.set_setting('venv', '/nowhere/venv')")


def outcome(db: Connection, query: str, *values: Any) -> tuple[list[tuple[Any, ...]], Any]:
    """Return the rows of a query and None, or no rows and the parts of the error it failed with."""
    try:
        return rows(db, query, *values), None
    except psycopg2.Error as err:
        return [], err.diag


def kill(pid: int) -> None:
    """Kill -9."""
    os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition holds; fail where it does not come true in a minute."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.05)


def breakable(server: ServerReport, folder: Path) -> Breakable:
    """Return the server's database with its cache in a folder of its own, and three models deployed."""
    assert server.dsn is not None
    cache, engine = server.home / "cache", server.home / "engine"
    for made in (cache, engine):
        made.mkdir(mode=0o700)
        shutil.chown(made, Path(server.data_dir).owner())
    # not the engine that other servers of this user have: some tests stop theirs
    install(InstallOptions(cache_dir=str(cache), engine_dir=str(engine)), server.dsn)
    for model in (
        tiny_models.constant(folder, 7, "seven"),
        slow_model(folder, TRIPS),
        weighty_model(folder, 1),
    ):
        # in the backend, whose death is tried; an engine would serve its first rows
        deploy(model, DeployOptions(isolation="never"), dsn=server.dsn)
    return Breakable(server, server.dsn, cache)


def empty(folder: Path) -> None:
    """Remove what is in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path)
