"""A transaction on the registry, whose server errors become one sentence with its cure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import connect
from dbinfer.errors import RegistryError


@contextmanager
def registry_session(dsn: str | None = None) -> Iterator[Cursor]:
    """Yield a cursor; commit at the end, roll everything back on an error.

    Raises:
        RegistryError: dbinfer is not installed, the role may not do this, or the server refused.
    """
    conn = connect(dsn)
    try:
        with conn, conn.cursor() as cur:
            cur.execute("SELECT to_regclass('dbinfer.models') IS NOT NULL")
            row = cur.fetchone()
            if row is None or not row[0]:
                raise RegistryError(
                    "dbinfer is not installed in this database.", "Install it with: dbinfer install"
                )
            yield cur
    except psycopg2.errors.InsufficientPrivilege as err:
        raise RegistryError(
            f"{err.diag.message_primary}.",
            "Deploying and managing models takes: GRANT dbinfer_owner TO your_role;",
        ) from err
    except psycopg2.Error as err:
        primary = err.diag.message_primary or str(err).strip()
        raise RegistryError(f"{primary}.", err.diag.message_hint or "") from err
    finally:
        conn.close()
