"""A segment backend that is killed in the middle: the query fails cleanly, the cluster recovers, nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import figures
import psycopg2
import pytest
from asking import rows

from dbinfer.install.doctor import doctor
from dbinfer.models import models

SLOW = (
    "SELECT count(dbinfer.predict(img || int4send(n), 'constant')) FROM images, generate_series(1, 20000) n"
)
NEXT = "SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7"
PATIENCE = 120  # seconds for the cluster to recover


def test_kill_9_of_a_scoring_segment_backend(cluster: str) -> None:
    before = models(cluster)
    connection = psycopg2.connect(cluster)
    connection.autocommit = True
    pid, host = rows(connection, "SELECT pid, host FROM dbinfer.segments ORDER BY content LIMIT 1")[0]
    if host != socket.gethostname():
        pytest.skip(f"segment 0 is on {host}: its processes cannot be killed from here")
    timer = threading.Timer(1, os.kill, (pid, signal.SIGKILL))
    timer.start()
    with pytest.raises(psycopg2.Error) as caught:
        rows(connection, SLOW)
    timer.join()
    print(f"the query ended with: {caught.value}")
    connection.close()
    figures.record("kill -9 of a segment's backend", faults=1)
    assert recovered(cluster) == [(60,)]
    assert models(cluster) == before
    assert [check for check in doctor(cluster).checks if not check.ok] == []


def recovered(dsn: str) -> list[tuple[int, ...]]:
    """Return the answer of the next query, once the cluster gives one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with psycopg2.connect(dsn) as connection:
                return rows(connection, NEXT)
        except psycopg2.Error as err:
            print(f"not yet: {str(err).strip().splitlines()[0]}")
            if time.monotonic() > deadline:
                raise
            time.sleep(2)
