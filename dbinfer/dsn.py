"""Which server a command talks to: --dsn, $DBINFER_DSN, libpq's own variables, else the embedded server."""

from __future__ import annotations

import os

from dbinfer.errors import ServerError

LIBPQ_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT")


def resolve(dsn: str | None = None) -> str:
    """Return the connection string to use.

    Raises:
        ServerError: nothing is named and no embedded server runs.
    """
    named = dsn or os.environ.get("DBINFER_DSN")
    if named:
        return named
    if any(os.environ.get(name) for name in LIBPQ_VARIABLES):
        return ""
    from dbinfer.server import embedded_dsn

    embedded = embedded_dsn()
    if embedded is None:
        raise ServerError(
            "no database server: none is named and the embedded server is not running.",
            "Start it with 'dbinfer up', or name one with --dsn or $DBINFER_DSN.",
        )
    return embedded
