"""A table of real digits, some of them damaged, clients that score it and may be killed, and what must come of it.

Digits are scikit-learn's 1,797, repeated; 1 in 200 is cut off. LONG=1 for 20,000 rows.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import cv2
import psycopg2
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection
from sklearn.datasets import load_digits

from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score

LONG = os.environ.get("LONG") == "1"
ROWS, KILLS, BATCH = (20_000, 5, 100) if LONG else (3_000, 2, 20)
DAMAGED = 200  # one of so many
CLIENT = "import sys; from dbinfer.cli import main; main(sys.argv[1:])"
PATIENCE = 120.0
BACKEND = """
SELECT pid FROM pg_stat_activity WHERE application_name = 'dbinfer' AND pid <> pg_backend_pid()
   AND datname = current_database() ORDER BY random() LIMIT 1"""


def make_digits(dsn: str, folder: Path) -> None:
    """Make the table `digits`, and deploy a classifier."""
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    files = [
        cv2.imencode(".png", (image * 16).astype("uint8"))[1].tobytes() for image in load_digits().images
    ]
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, "CREATE TABLE sample (n integer, img bytea)")
        with db.cursor() as cur:
            cur.executemany("INSERT INTO sample VALUES (%s, %s)", list(enumerate(files)))
        cut = f"CASE WHEN g %% {DAMAGED} = 7 THEN substring(img FOR 40) ELSE img END"
        rows(db, "CREATE TABLE digits (id bigint PRIMARY KEY, img bytea)")
        rows(
            db,
            f"INSERT INTO digits SELECT g, {cut} FROM generate_series(1, %s) g JOIN sample ON n = g %% {len(files)}",
            ROWS,
        )


def client(dsn: str, batch: int = BATCH, *more: str) -> subprocess.Popen[str]:
    """Start `dbinfer score --table digits --predictions killed` with more words in a process of its own."""
    words = ["score", "--table", "digits", "--predictions", "killed", "--json", "--dsn", dsn]
    words += ["--batch", str(batch), *more]
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def stored(dsn: str) -> int:
    """Return how many rows are stored; -1 while the server cannot be asked."""
    try:
        with closing(psycopg2.connect(dsn)) as db:
            if ask(db, "SELECT to_regclass('killed_errors')") is None:
                return 0
            return int(ask(db, "SELECT (SELECT count(*) FROM killed) + (SELECT count(*) FROM killed_errors)"))
    except psycopg2.Error:
        return -1


def wait_for(dsn: str, least: int, running: subprocess.Popen[str]) -> None:
    """Wait until so many rows are stored, by a client that is still at work."""
    end = time.monotonic() + PATIENCE
    while (there := stored(dsn)) < least:
        assert time.monotonic() < end, f"{there} of {least} rows"
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.01)


def killed_at(dsn: str, more: int, deed: Callable[[subprocess.Popen[str]], None]) -> str:
    """Let a client score so many rows, do the deed to it, wait until the server answers; return what it printed."""
    running = client(dsn)
    wait_for(dsn, stored(dsn) + more, running)
    deed(running)
    printed = running.communicate(timeout=PATIENCE)[0]
    assert running.returncode != 0, printed
    end = time.monotonic() + PATIENCE
    while stored(dsn) < 0:
        assert time.monotonic() < end
        time.sleep(0.1)
    return printed


def kill_client(running: subprocess.Popen[str]) -> None:
    """Kill -9."""
    running.send_signal(signal.SIGKILL)


def kill_backend(dsn: str) -> None:
    """Kill -9 a server process that works for the job: the server ends every session and recovers."""
    with closing(psycopg2.connect(dsn)) as db:
        pid = ask(db, BACKEND)
    os.kill(pid, signal.SIGKILL)


def finish(dsn: str, killed: int) -> None:
    """Run the same command to its end; all must be there once, and the jobs before it are known to be lost."""
    last = client(dsn)
    printed = last.communicate(timeout=PATIENCE * 5)[0]
    assert last.returncode == 0, printed
    with closing(psycopg2.connect(dsn)) as db:
        same_as_at_once(db, dsn)
        query = "SELECT state, count(*) FROM dbinfer.jobs WHERE target = 'public.killed' GROUP BY 1"
        states = dict(rows(db, query))
    assert states["done"] == 1
    assert states.get("lost", 0) + states.get("failed", 0) == killed


def same_as_at_once(db: Connection, dsn: str) -> None:
    """See that the results are those of one statement, and that each damaged image has a reason."""
    score("digits", "at_once", ScoreOptions(atomic=True, on_error="null"), dsn)
    expected = "SELECT id, class, label, score FROM at_once WHERE class IS NOT NULL"
    own = "SELECT id, class, label, score FROM killed"
    assert rows(db, f"({expected} EXCEPT ALL {own}) UNION ALL ({own} EXCEPT ALL {expected})") == []
    bad = len(range(7, ROWS + 1, DAMAGED))
    assert ask(db, "SELECT count(*) FROM killed") == ROWS - bad
    assert ask(db, "SELECT count(*) FROM killed_errors WHERE reason <> ''") == bad
    assert ask(db, f"SELECT bool_and(id % {DAMAGED} = 7) FROM killed_errors") is True
