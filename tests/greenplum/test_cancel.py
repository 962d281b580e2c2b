"""Cancel and timeout end a scoring query, and the session's next statement works."""

from __future__ import annotations

import threading
import time

import psycopg2
import pytest
from asking import ask, rows
from psycopg2.extensions import connection as Connection

SLOW = "SELECT count(dbinfer.predict(img, 'constant')) FROM images, generate_series(1, 20000)"
NEXT = "SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7"
ROUNDS = 8


def test_statement_timeout(session: Connection) -> None:
    assert rows(session, NEXT) == [(60,)]
    for number in range(ROUNDS):
        rows(session, f"SET statement_timeout = {200 + 37 * number}")
        started = time.monotonic()
        with pytest.raises(psycopg2.errors.QueryCanceled):
            rows(session, SLOW)
        print(f"ended after {time.monotonic() - started:.2f} s")
        rows(session, "SET statement_timeout = 0")
        assert rows(session, NEXT) == [(60,)]


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
    assert rows(session, NEXT) == [(60,)]


def test_client_cancel_as_ctrl_c_does(session: Connection) -> None:
    timer = threading.Timer(1, session.cancel)
    timer.start()
    with pytest.raises(psycopg2.errors.QueryCanceled):
        rows(session, SLOW)
    timer.join()
    assert rows(session, NEXT) == [(60,)]
