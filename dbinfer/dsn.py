"""Which server a command talks to: --dsn, $DBINFER_DSN, libpq's own variables, else the embedded server."""

from __future__ import annotations

import os

from dbinfer.errors import ServerError
from dbinfer.state import embedded_dsn

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
