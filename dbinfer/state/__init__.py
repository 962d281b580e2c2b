"""Where the embedded server lives and whether it runs; it installs nothing, starts nothing and connects to nothing.

dbinfer.dsn asks here, so this room lies below every room that opens a connection.
"""

from __future__ import annotations

from pathlib import Path

from dbinfer.state import process, record
from dbinfer.state.home import Home, locate

__all__ = ["Home", "embedded_dsn", "locate"]


def embedded_dsn(folder: Path | str | None = None) -> str | None:
    """Return the connection string of the embedded server; None when it does not run."""
    home = locate(folder)
    known = record.load(home)
    return record.dsn(home, known) if known is not None and process.postmaster(home) else None
