"""The database tests' servers, see servers.py."""

from __future__ import annotations

from servers import (
    db,
    dsn,
    empty_dsn,
    engine_dir,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    server,
    server_dsn,
    session_env,
    venv,
)

__all__ = [
    "db",
    "dsn",
    "empty_dsn",
    "engine_dir",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "server",
    "server_dsn",
    "session_env",
    "venv",
]
