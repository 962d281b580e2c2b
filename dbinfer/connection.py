"""One psycopg2 connection, with errors that say which server could not be reached and what to do."""

from __future__ import annotations

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.dsn import resolve
from dbinfer.errors import ServerError


def connect(dsn: str | None = None) -> Connection:
    """Open a connection to the server that `dsn` names (see dbinfer.dsn.resolve).

    Raises:
        ServerError: the dsn cannot be parsed, or the server does not answer.
    """
    resolved = resolve(dsn)
    try:
        return psycopg2.connect(resolved, application_name="dbinfer")
    except psycopg2.ProgrammingError as err:
        raise ServerError(
            f"the dsn {resolved!r} cannot be understood: {str(err).strip()}",
            "Write it as 'host=... port=... dbname=... user=...' or as postgresql://user@host:port/dbname.",
        ) from err
    except psycopg2.OperationalError as err:
        first = str(err).strip().splitlines()[0]
        raise ServerError(
            f"cannot connect to the server: {first}",
            "Check --dsn, $DBINFER_DSN and that the server runs ('dbinfer status' for the embedded one).",
        ) from err
