"""The documentation's tests use the embedded server of the database tests, see tests/db/servers.py."""

from __future__ import annotations

from servers import dsn, empty_dsn, engine_dir, server, server_dsn, session_env, venv

__all__ = ["dsn", "empty_dsn", "engine_dir", "server", "server_dsn", "session_env", "venv"]
