"""Measures the coefficients of this machine, and keeps them in the state folder."""

from __future__ import annotations

from pathlib import Path

from dbinfer.connection import session
from dbinfer.cost import Coefficients
from dbinfer.cost.coefficients import from_dict, write
from dbinfer.dsn import named
from dbinfer.errors import ServerError, UsageError
from dbinfer.platform import detect
from dbinfer.progress import OnProgress
from dbinfer.state import home


def kept_file() -> Path:
    """Return the file of this machine's coefficients."""
    return home.locate(None).path / "plan.json"


def calibrate(dsn: str | None, progress: OnProgress) -> Coefficients:
    """Return the coefficients of this machine, measured now, and keep them.

    Raises:
        UsageError: the database is a cluster, whose hosts may be other machines.
        ServerError: no server, or dbinfer is not installed there.
    """
    from dbinfer.bench.planning import run_planning

    if named(dsn) is not None:
        with session(dsn, error=ServerError) as conn:
            if detect(conn).mpp:
                raise UsageError(
                    "coefficients are measured on a PostgreSQL server of this machine, but this is a cluster",
                    "Run it on one of the cluster's hosts without --dsn: with the embedded server.",
                )
    found = from_dict(run_planning(dsn, None, progress).coefficients, "the calibration")
    write(kept_file(), found)
    return found
