"""Databases with dbinfer's tables alone, on a server without PL/Python, and workers that may be killed or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import cv2
import psycopg2
from asking import ask, rows
from psycopg2.extensions import make_dsn
from sklearn.datasets import load_digits

from dbinfer.install import InstallOptions, install

PATIENCE = 120.0
DAMAGED = 200  # one image of so many is cut off


@contextmanager
def shop(superuser: str) -> Iterator[str]:
    """Yield the dsn of a role that may create schemas in a fresh database, and nothing else."""
    owner, database = (f"{word}_{uuid.uuid4().hex[:8]}" for word in ("keeper", "shop"))
    as_superuser(
        superuser,
        f"CREATE ROLE {owner} LOGIN",
        f"CREATE DATABASE {database}",
        f"GRANT CREATE ON DATABASE {database} TO {owner}",
    )
    try:
        yield make_dsn(superuser, dbname=database, user=owner)
    finally:
        gone = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
        as_superuser(superuser, gone, f"DROP DATABASE {database}", f"DROP ROLE {owner}")


@contextmanager
def tables_only(superuser: str) -> Iterator[str]:
    """Yield the same with dbinfer's tables, and a schema in the search path for the role's own."""
    with shop(superuser) as dsn:
        install(InstallOptions(tables_only=True), dsn)
        with closing(psycopg2.connect(dsn)) as db, db:
            owner = ask(db, "SELECT current_user")
            rows(db, f"CREATE SCHEMA {owner}")
        yield dsn


def as_superuser(dsn: str, *commands: str) -> None:
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        for command in commands:
            rows(db, command)


@contextmanager
def another_role(superuser: str, dsn: str) -> Iterator[str]:
    """Yield the dsn of one more role in the same database, with a schema of its own."""
    name = f"other_{uuid.uuid4().hex[:8]}"
    place = make_dsn(superuser, dbname=psycopg2.extensions.parse_dsn(dsn)["dbname"])
    as_superuser(place, f"CREATE ROLE {name} LOGIN", f"CREATE SCHEMA {name} AUTHORIZATION {name}")
    try:
        yield make_dsn(dsn, user=name)
    finally:
        as_superuser(place, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def make_digits(dsn: str, count: int) -> None:
    """Make the table `digits` of so many real ones, of which some are damaged and one is missing."""
    files = [cv2.imencode(".png", (img * 16).astype("uint8"))[1].tobytes() for img in load_digits().images]
    with closing(psycopg2.connect(dsn)) as db, db, db.cursor() as cur:
        rows(db, "CREATE TABLE digits (id bigint PRIMARY KEY, img bytea)")
        for number in range(1, count + 1):
            data = files[number % len(files)]
            img = data[:40] if number % DAMAGED == 7 else None if number == 5 else data
            cur.execute("INSERT INTO digits VALUES (%s, %s)", (number, img))


def start(dsn: str, *words: str) -> subprocess.Popen[str]:
    """Start `dbinfer worker` with these words."""
    return subprocess.Popen(
        [sys.executable, "-m", "dbinfer", "worker", "--json", *words],
        env=os.environ | {"DBINFER_DSN": dsn}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def processes(worker: subprocess.Popen[str]) -> list[int]:
    """Return the pids of a worker's lanes."""
    path = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def kill(worker: subprocess.Popen[str]) -> None:
    """Kill -9 all of a worker, so that nothing of it can say a word."""
    lanes = processes(worker)
    for pid in (worker.pid, *lanes):
        os.kill(pid, signal.SIGKILL)
    worker.communicate(timeout=PATIENCE)


def until(what: Callable[[], object], said: str) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, said
        time.sleep(0.02)


def stored(dsn: str, table: str = "answers") -> int:
    """Return how many rows have a result or a reason."""
    with closing(psycopg2.connect(dsn)) as db:
        if ask(db, "SELECT to_regclass(%s)", table + "_errors") is None:
            return 0
        return int(ask(db, f"SELECT (SELECT count(*) FROM {table}) + (SELECT count(*) FROM {table}_errors)"))
