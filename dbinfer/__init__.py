"""dbinfer: deep-learning image inference with plain SQL, inside Greenplum or PostgreSQL."""

from __future__ import annotations

from dbinfer._version import __version__
from dbinfer.connection import connect
from dbinfer.errors import DbinferError

__all__ = ["DbinferError", "__version__", "connect"]
