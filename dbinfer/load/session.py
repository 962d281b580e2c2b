"""A transaction on the user's tables, whose server errors become one sentence with its cure."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import connect
from dbinfer.errors import DataError, ServerError


@contextmanager
def data_session(dsn: str | None = None, needs_dbinfer: bool = True) -> Iterator[Connection]:
    """Yield a connection; commit at the end, roll everything back on an error.

    Raises:
        DataError: dbinfer is not installed where it is needed, or the server refused a statement.
        ServerError: the connection was lost.
    """
    conn = connect(dsn)
    try:
        conn.set_client_encoding("UTF8")
        if needs_dbinfer:
            _check_installed(conn)
        yield conn
        conn.commit()
    except psycopg2.Error as err:
        raise sentence(err) from err
    finally:
        conn.close()


def one(cur: Cursor) -> Any:
    """Return the first value of the next row; None where there is no row."""
    row = cur.fetchone()
    return row[0] if row else None


def execute_patiently(cur: Cursor, statement: sql.Composable) -> None:
    """Execute a long statement so that Ctrl-C cancels it on the server, too."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(cur.execute, statement)
        try:
            wait([future])
        except KeyboardInterrupt:
            cur.connection.cancel()
            wait([future])
            raise
        future.result()


def sentence(err: psycopg2.Error) -> DataError | ServerError:
    """Return the server's error as a sentence with its cure; DETAIL's first line is kept, tracebacks are not."""
    primary = (err.diag.message_primary or str(err).strip().split("\n")[0]).rstrip(".")
    if err.pgcode is None:
        return ServerError(
            f"{primary}.", "The connection was lost and nothing was changed; see the server's log."
        )
    detail = (err.diag.message_detail or "").strip().split("\n")[0]
    detail = "" if not detail or detail.startswith("Traceback") else f" ({detail.rstrip('.')})"
    return DataError(f"{primary}{detail}.", err.diag.message_hint or "")


def _check_installed(conn: Connection) -> None:
    with conn.cursor() as cur:
        cur.execute("SELECT to_regclass('dbinfer.models') IS NOT NULL")
        if not one(cur):
            raise DataError("dbinfer is not installed in this database.", "Install it with: dbinfer install")
    conn.rollback()
