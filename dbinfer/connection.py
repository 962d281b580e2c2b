"""Connections and transactions, with the server's errors as one sentence and its cure."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.dsn import resolve
from dbinfer.errors import DataError, DbinferError, ServerError


def connect(dsn: str | None = None) -> Connection:
    """Open a connection to the server that `dsn` names (see dbinfer.dsn.resolve).

    Raises:
        ServerError: the dsn cannot be parsed, or the server does not answer.
    """
    resolved = resolve(dsn)
    try:
        return psycopg2.connect(resolved, application_name="dbinfer")
    # psycopg2 has this class for a dsn that libpq cannot parse; what a server says is an OperationalError
    except psycopg2.ProgrammingError as err:
        raise ServerError(
            f"cannot parse the connection string {resolved!r}: {str(err).strip()}",
            "Write it as 'host=... port=... dbname=... user=...' or as postgresql://user@host:port/dbname.",
        ) from err
    except psycopg2.OperationalError as err:
        # libpq tells of every address that it tried, a line or more each
        first = str(err).strip().splitlines()[0]
        raise ServerError(
            f"cannot connect to the server: {first}",
            "Check --dsn or $DBINFER_DSN, and that the server is running (the embedded one: 'dbinfer status').",
        ) from err


@contextmanager
def session(
    dsn: str | None = None,
    *,
    error: type[DbinferError] = DataError,
    needs_dbinfer: bool = True,
    autocommit: bool = False,
    readonly: bool = False,
    catalog_only: bool = False,
) -> Iterator[Connection]:
    """Yield a connection; commit at the end, roll everything back on an error.

    Args:
        error: what a refusal by the server becomes; see `sentence`.
        needs_dbinfer: refuse a database without dbinfer.
        autocommit: each statement is a transaction of its own.
        readonly: the server refuses every change.
        catalog_only: plain names and operators of the first transaction are the server's own, whatever the caller's
            search_path holds; for transactions that name no table of a user.

    Raises:
        ServerError: the server cannot be reached, or the connection was lost.
    """
    conn = connect(dsn)
    try:
        conn.set_client_encoding("UTF8")  # whatever PGCLIENTENCODING says: COPY sends bytes that we encoded
        # None, not False: to ask for READ WRITE is an error on a hot standby, also where nothing is written
        conn.set_session(autocommit=autocommit, readonly=readonly or None)
        if needs_dbinfer:
            require_dbinfer(conn, error)
        if catalog_only:
            # LOCAL: behind a pooler the next client gets this server session
            with conn.cursor() as cur:
                # pg_temp is named so that it comes last: unnamed it is searched first, for tables and types
                cur.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        yield conn
        conn.commit()
    except psycopg2.Error as err:
        raise sentence(err, error) from err
    finally:
        # Closing without a commit is the rollback
        conn.close()


def require_dbinfer(conn: Connection, error: type[DbinferError] = DataError) -> None:
    """Refuse a database without dbinfer; ends the transaction, so that settings of the next one can be made.

    Raises:
        DbinferError: of the given class: dbinfer is not installed in this database.
    """
    with conn.cursor() as cur:
        cur.execute("SELECT pg_catalog.to_regclass('dbinfer.models') IS NOT NULL")
        installed = one(cur)
    conn.rollback()
    if not installed:
        raise not_installed(error)


def not_installed(error: type[DbinferError]) -> DbinferError:
    """Return what to raise for a database without dbinfer."""
    return error("dbinfer is not installed in this database", "Install it: dbinfer install")


def one(cur: Cursor) -> Any:
    """Return the first value of the next row; None where there is no row."""
    row = cur.fetchone()
    return row[0] if row else None


def execute_patiently(cur: Cursor, statement: str | sql.Composable) -> None:
    """Execute a long statement so that Ctrl-C cancels it on the server, too.

    psycopg2 waits in C, where Python handles no signal; so a thread waits, and this one hears the signal.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(cur.execute, statement)
        try:
            wait([future])
        except KeyboardInterrupt:
            # Allowed while another thread executes: it goes to the server by a connection of its own
            cur.connection.cancel()
            # Until the server has answered nobody else may use the connection
            wait([future])
            raise
        future.result()


def sentence(err: psycopg2.Error, error: type[DbinferError] = DataError) -> DbinferError:
    """Return the server's error as a sentence with its cure; DETAIL's first line is kept, tracebacks are not."""
    primary = (err.diag.message_primary or str(err).strip().split("\n")[0]).rstrip(".")
    # Without a SQLSTATE no server has answered; mistakes in using psycopg2 have none either
    if err.pgcode is None and not isinstance(err, psycopg2.ProgrammingError):
        return ServerError(
            f"{primary}",
            "The connection was lost, and everything uncommitted was rolled back. The server's log says why.",
        )
    detail = (err.diag.message_detail or "").strip().split("\n")[0]
    detail = "" if not detail or detail.startswith("Traceback") else f" ({detail.rstrip('.')})"
    denied = error.when_denied if isinstance(err, psycopg2.errors.InsufficientPrivilege) else ""
    return error(f"{primary}{detail}", err.diag.message_hint or denied)
