"""What the tests of `dbinfer tune` ask while a search runs, and how they end one of its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import closing
from typing import Any

import psycopg2


def ask(dsn: str, text: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query in a session of its own."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall()


def kill_a_worker(dsn: str, once: str) -> None:
    """Kill one worker of this process's search as soon as the query gives a row."""
    while not ask(dsn, once):
        time.sleep(0.05)
    listing = subprocess.run(
        ["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    ).stdout
    for line in listing.splitlines()[1:]:
        pid, parent, words = line.split(None, 2)
        if "dbinfer.tune.worker" in words and int(parent) == os.getpid():
            os.kill(int(pid), signal.SIGKILL)
            return
