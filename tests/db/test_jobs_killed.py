"""A job whose client is killed five times and whose server crashes once: each row once, as without any of it.

Digits are real images (scikit-learn's 1,797, repeated), 1 in 200 is damaged. LONG=1 for 20,000 rows.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing

import cv2
import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection
from sklearn.datasets import load_digits

from dbinfer.errors import DataError
from dbinfer.registry import deploy
from dbinfer.score import ScoreOptions, jobs, score

pytestmark = pytest.mark.postgres_only(
    "crashes the server; a cluster's segments are killed in tests/greenplum"
)
LONG = os.environ.get("LONG") == "1"
ROWS, KILLS, BATCH = (20_000, 5, 100) if LONG else (3_000, 2, 20)
DAMAGED = 200  # one of so many
CLIENT = "import sys; from dbinfer.cli import main; main(sys.argv[1:])"
PATIENCE = 120.0


@pytest.fixture(scope="module")
def digits(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of digits, some of them cut off, and a classifier."""
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
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
    return dsn


def client(dsn: str) -> subprocess.Popen[str]:
    words = ["score", "--table", "digits", "--into", "killed", "--batch", str(BATCH), "--json", "--dsn", dsn]
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


def wait_for(dsn: str, least: int, running: subprocess.Popen[str]) -> int:
    end = time.monotonic() + PATIENCE
    while (there := stored(dsn)) < least:
        assert time.monotonic() < end, f"{there} of {least} rows"
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.01)
    return there


def test_killed_at_random_each_row_is_there_once(digits: str, server: object) -> None:
    chance = random.Random(14)
    for kill in range(KILLS + 1):
        running = client(digits)
        wait_for(digits, stored(digits) + chance.randrange(1, ROWS // (2 * KILLS + 4)), running)
        if kill == KILLS // 2:
            _crash(digits)
        else:
            running.send_signal(signal.SIGKILL)
        printed = running.communicate()[0]
        assert running.returncode != 0, printed
        end = time.monotonic() + PATIENCE
        while stored(digits) < 0:
            assert time.monotonic() < end
            time.sleep(0.1)
    last = client(digits)
    printed = last.communicate(timeout=PATIENCE * 5)[0]
    assert last.returncode == 0, printed
    with closing(psycopg2.connect(digits)) as db:
        _same_as_at_once(db, digits)
        states = rows(
            db, "SELECT state, count(*) FROM dbinfer.jobs WHERE target = 'public.killed' GROUP BY 1"
        )
        assert dict(states)["done"] == 1
        assert dict(states).get("lost", 0) + dict(states).get("failed", 0) == KILLS + 1


def _crash(dsn: str) -> None:
    """Kill -9 the postmaster's child that scores: the server ends every session and recovers."""
    with closing(psycopg2.connect(dsn)) as db:
        pid = ask(
            db,
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'dbinfer' AND pid <> pg_backend_pid() "
            "AND datname = current_database() ORDER BY random() LIMIT 1",
        )
    os.kill(pid, signal.SIGKILL)


def _same_as_at_once(db: Connection, dsn: str) -> None:
    score("digits", "at_once", ScoreOptions(atomic=True, on_error="null"), dsn)
    differing = "SELECT id, class, label, score FROM at_once WHERE class IS NOT NULL"
    own = "SELECT id, class, label, score FROM killed"
    assert rows(db, f"({differing} EXCEPT ALL {own}) UNION ALL ({own} EXCEPT ALL {differing})") == []
    bad = len(range(7, ROWS + 1, DAMAGED))
    assert ask(db, "SELECT count(*) FROM killed") == ROWS - bad
    assert ask(db, "SELECT count(*) FROM killed_errors WHERE reason <> ''") == bad
    assert ask(db, "SELECT bool_and(id % 200 = 7) FROM killed_errors") is True


def test_a_second_client_says_that_the_first_is_at_work(digits: str) -> None:
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        rows(db, "DROP TABLE IF EXISTS killed, killed_errors")
        running = client(digits)
        wait_for(digits, 1, running)
        with pytest.raises(DataError, match="is already scoring into") as caught:
            score("digits", "killed", dsn=digits)
        assert "dbinfer jobs cancel" in caught.value.cure
        running.communicate(timeout=PATIENCE)
        assert stored(digits) == ROWS
        (job,) = jobs(1, digits).jobs
        assert (job["state"], job["done"], job["total"]) == ("done", ROWS, ROWS)
