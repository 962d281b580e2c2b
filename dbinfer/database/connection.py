"""Which server a command talks to, connections and transactions, and the server's errors as one sentence with its
hint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, DbinferError, ServerError
from dbinfer.base.version import __version__
from dbinfer.database.sql import upgrades
from dbinfer.database.state import embedded_dsn

# Those that say where to go: PGUSER and PGPASSWORD alone name no server
LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT")


def named(dsn: str | None = None) -> str | None:
    """Return the connection string that the user names; empty for libpq's own variables, None for nothing."""
    chosen = dsn or os.environ.get("DBINFER_DSN")
    return chosen or ("" if any(os.environ.get(name) for name in LIBPQ_VARIABLES) else None)


def resolve(dsn: str | None = None) -> str:
    """Return the connection string to use.

    Raises:
        ServerError: nothing is named and no embedded server runs.
    """
    chosen = named(dsn)
    chosen = embedded_dsn() if chosen is None else chosen
    if chosen is None:
        raise ServerError(
            "no database server is named, and the embedded server is not running",
            "Start the embedded server with 'dbinfer up', or name another one with --dsn or $DBINFER_DSN.",
        )
    return chosen


def connect(dsn: str | None = None, **more: Any) -> Connection:
    """Open a connection to the server that `dsn` names (see dbinfer.database.connection.resolve).

    Args:
        more: parameters of libpq that the dsn need not name.

    Raises:
        ServerError: the dsn cannot be parsed, or the server does not answer.
    """
    resolved = resolve(dsn)
    try:
        made: Connection = psycopg2.connect(resolved, application_name="dbinfer", **more)
        return made
    # psycopg2 has this class for a dsn that libpq cannot parse; what a server says is an OperationalError
    except psycopg2.ProgrammingError as err:
        raise ServerError(
            f"cannot parse the connection string {resolved!r}: {str(err).strip()}",
            "Write it as 'host=... port=... dbname=... user=...' or as postgresql://user@host:port/dbname.",
        ) from err
    except psycopg2.OperationalError as err:
        # libpq reports every address that it tried, on a line or more each
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
        needs_dbinfer: refuse a database without dbinfer, or of another version; see `require_dbinfer`.
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
    """Refuse a database without dbinfer, or with one that does not go with this client.

    Ends the transaction, so that settings of the next one can be made.

    Raises:
        DbinferError: of the given class: dbinfer is not installed in this database, or older or newer than this client.
    """
    with conn.cursor() as cur:
        found = installed(cur)
    conn.rollback()
    if found is None:
        raise not_installed(error)
    if found.order:
        raise found.refusal(error)


def not_installed(error: type[DbinferError]) -> DbinferError:
    """Return what to raise for a database without dbinfer."""
    return error("dbinfer is not installed in this database", "Install it: dbinfer install")


@dataclass(frozen=True)
class Installed:
    """Which dbinfer a database has.

    Attributes:
        release: empty before 0.2.0, which shows it to superusers only.
        upgrades: how many changes of its tables it has seen.
    """

    release: str = ""
    upgrades: int = 0

    @property
    def order(self) -> int:
        """Return -1 where it is older than this client, 1 where it is newer, 0 where the two go together.

        They do within a minor release: what a client asks of a database changes with the next one, or, between two
        releases, with an upgrade.
        """
        there = _numbers(self.release)[:2], self.upgrades
        here = _numbers(__version__)[:2], len(upgrades())
        return (there > here) - (there < here)

    @property
    def newer(self) -> bool:
        """Return whether this client would set it back."""
        return self.order > 0 or _numbers(self.release) > _numbers(__version__)

    def refusal(self, error: type[DbinferError]) -> DbinferError:
        """Return what to raise where the two do not go together."""
        there, here = (
            f"dbinfer {self.release}" if self.release else "a dbinfer from before 0.2.0",
            __version__,
        )
        if self.release == __version__:
            there, here = (f"{there} with {self.upgrades} upgrades", f"{here} with {len(upgrades())}")
        order, hint = "older", "Bring it up to date: dbinfer upgrade"
        if self.newer:
            order, hint = (
                "newer",
                "Install that version of the client: pip install with its wheel, or in a clone.",
            )
        return error(f"the database has {there}, which is {order} than this client, {here}", hint)


def installed(cur: Cursor) -> Installed | None:
    """Return which dbinfer the database has; None where it has none."""
    cur.execute("SELECT pg_catalog.to_regclass('dbinfer.models'), pg_catalog.to_regclass('dbinfer.version')")
    models, version = cur.fetchone() or (None, None)
    if version is None:
        return None if models is None else Installed()
    cur.execute("SELECT release, upgrades FROM dbinfer.version")
    # no row: a coordinator in utility mode, which sees none of our tables; what follows has the words for it
    return Installed(*(cur.fetchone() or (__version__, len(upgrades()))))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)[:3]))


def one(cur: Cursor) -> Any:
    """Return the first value of the next row; None where there is no row."""
    row = cur.fetchone()
    return row[0] if row else None


def execute_patiently(cur: Cursor, statement: str | sql.Composable) -> None:
    """Execute a long statement so that Ctrl-C also cancels it on the server."""
    patiently(cur, lambda: cur.execute(statement))


def patiently(cur: Cursor, call: Callable[[], None]) -> None:
    """Do what waits for the server so that Ctrl-C also cancels it there.

    psycopg2 waits in C, where Python handles no signal; so a thread waits, and this one hears the signal.
    """
    from concurrent.futures import ThreadPoolExecutor, wait

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        try:
            wait([future])
        except KeyboardInterrupt:
            # Allowed while another thread executes: the cancel request has a connection of its own
            cur.connection.cancel()
            # The connection cannot be used until the server has answered
            wait([future])
            raise
        future.result()


# Hints of the server's functions are SQL; in a shell the command of the same meaning replaces it
_IN_A_SHELL = (
    ("force => true", "--force"),
    ("SELECT name, version FROM dbinfer.model_versions", "dbinfer models"),
    ("SELECT name, granted_to FROM dbinfer.models", "dbinfer models --json"),
    (r"SELECT dbinfer\.grant_model\('([^']*)', '([^']*)'\)", r"dbinfer grant \1 \2"),
)


def _way_out(err: psycopg2.Error, when_denied: str) -> str:
    """Return a hint for an error of which the server gives none."""
    if isinstance(err, psycopg2.errors.ReadOnlySqlTransaction):
        return "A standby takes no changes, nor does a read-only session: do it on the primary server."
    if not isinstance(err, psycopg2.errors.InsufficientPrivilege):
        return ""
    if not when_denied and (err.diag.message_primary or "").startswith("permission denied for schema"):
        return (
            "Name a table in a schema of your own (CREATE SCHEMA makes one), or ask for rights in this one."
        )
    return when_denied


def sentence(err: psycopg2.Error, error: type[DbinferError] = DataError) -> DbinferError:
    """Return the server's error as a sentence with its hint; DETAIL's first line is kept, tracebacks are not."""
    primary = (err.diag.message_primary or str(err).strip().split("\n")[0]).rstrip(".")
    # Without a SQLSTATE no server has answered; mistakes in using psycopg2 have none either
    if err.pgcode is None and not isinstance(err, psycopg2.ProgrammingError):
        return ServerError(
            f"{primary}",
            "The connection was lost, and everything uncommitted was rolled back. The server's log says why.",
        )
    detail = (err.diag.message_detail or "").strip().split("\n")[0]
    detail = "" if not detail or detail.startswith("Traceback") else f" ({detail.rstrip('.')})"
    hint = err.diag.message_hint or _way_out(err, error.when_denied)
    for statement, command in _IN_A_SHELL:
        hint = re.sub(statement, command, hint)
    return error(f"{primary}{detail}", hint)
