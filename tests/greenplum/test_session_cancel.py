"""Cancel and timeout end a scoring query, and the session's next statement works.

The images take milliseconds each, as real ones do. A cancel sends two signals; when both come within the few
hundred nanoseconds in which PL/Python runs and we cannot catch them yet, one KeyboardInterrupt is left for the next
statement, which works when repeated (docs/how-to/greenplum.md). Without our care that happens nearly always; the test
allows one in eight.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

SLOW = "SELECT count(dbinfer.predict(img || int4send(n), 'constant')) FROM large, generate_series(1, 1000) n"
NEXT = "SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7"
ROUNDS = 8


@pytest.fixture(scope="module", autouse=True)
def large(cluster: str) -> None:
    """Make a table of images that take about 10 ms each, on every segment."""
    noise = np.random.default_rng(0).integers(0, 256, (800, 800, 3), np.uint8)
    with closing(psycopg2.connect(cluster)) as connection:
        connection.autocommit = True
        rows(connection, "CREATE TABLE large AS SELECT id, ''::bytea AS img FROM images DISTRIBUTED BY (id)")
        rows(connection, "UPDATE large SET img = %s", tiny_models.file(noise))


def test_statement_timeout(session: Connection) -> None:
    assert rows(session, NEXT) == [(60,)]
    left_over = 0
    for number in range(ROUNDS):
        rows(session, f"SET statement_timeout = {200 + 37 * number}")
        started = time.monotonic()
        with pytest.raises(psycopg2.errors.QueryCanceled):
            rows(session, SLOW)
        print(f"ended after {time.monotonic() - started:.2f} s")
        rows(session, "SET statement_timeout = 0")
        left_over += next_statement(session)
    assert left_over <= 1


def next_statement(session: Connection) -> int:
    """Run the next statement; return 1 where it met a KeyboardInterrupt that was left over, and worked repeated."""
    try:
        assert rows(session, NEXT) == [(60,)]
    except psycopg2.errors.ExternalRoutineException as err:
        if "KeyboardInterrupt" not in str(err):
            raise
        print("left over:", err)
        assert rows(session, NEXT) == [(60,)]
        return 1
    return 0


def test_pg_cancel_backend(session: Connection, cluster: str) -> None:
    pid = ask(session, "SELECT pg_backend_pid()")

    def cancel() -> None:
        with psycopg2.connect(cluster) as other:
            ask(other, "SELECT pg_cancel_backend(%s)", pid)

    timer = threading.Timer(1, cancel)
    timer.start()
    with pytest.raises(psycopg2.errors.QueryCanceled):
        rows(session, SLOW)
    timer.join()
    next_statement(session)


def test_client_cancel_as_ctrl_c_does(session: Connection) -> None:
    timer = threading.Timer(1, session.cancel)
    timer.start()
    with pytest.raises(psycopg2.errors.QueryCanceled):
        rows(session, SLOW)
    timer.join()
    next_statement(session)
