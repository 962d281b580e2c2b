"""The documentation's tests use the embedded server of the database tests, see tests/db/servers.py."""

from __future__ import annotations

from servers import engine_dir, server, session_env

__all__ = ["engine_dir", "server", "session_env"]
