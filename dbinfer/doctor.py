"""doctor: examines the database and every backend that scores, and says for what is wrong what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg2

from dbinfer._version import __version__
from dbinfer.backends import Check, check_backends
from dbinfer.connection import session
from dbinfer.errors import ServerError
from dbinfer.install.content import Content
from dbinfer.platform import detect
from dbinfer.report import Report


@dataclass(frozen=True)
class DoctorReport(Report):
    """What was looked at."""

    derived = ("ok",)

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Return whether all is well."""
        return all(check.ok for check in self.checks)


def doctor(dsn: str | None = None) -> DoctorReport:
    """Examine the database of `dsn`.

    Raises:
        ServerError: the server cannot be reached.
    """
    with session(dsn, error=ServerError, needs_dbinfer=False, autocommit=True) as conn:
        platform = detect(conn)
        server = Check("server", True, f"{platform.name} {platform.version}")
        settings = _settings(conn)
        if settings is None:
            missing = Check("installed", False, "dbinfer is not in this database", "dbinfer install")
            return DoctorReport((server, missing))
        return DoctorReport((server, *_installed(settings), *check_backends(conn, platform, settings)))


def _settings(conn: Any) -> dict[str, str] | None:
    with conn.cursor() as cur:
        try:
            cur.execute("SELECT to_regclass('dbinfer_private.setting') IS NOT NULL")
            if not cur.fetchone()[0]:
                return None
            cur.execute("SELECT name, value FROM dbinfer_private.setting")
        except psycopg2.errors.InsufficientPrivilege:
            return {}
        return dict(cur.fetchall())


def _installed(settings: dict[str, str]) -> list[Check]:
    if not settings:
        return [
            Check(
                "installed",
                True,
                "settings are not readable with this role; connect as a member of dbinfer_owner",
            )
        ]
    content = Content()
    same = settings.get("version") == __version__
    runtime = settings.get("runtime_digest") == content.runtime_digest
    return [
        Check(
            "version",
            same,
            f"database {settings.get('version')}, client {__version__}",
            "" if same else "dbinfer upgrade",
        ),
        Check(
            "runtime",
            runtime,
            f"digest {settings.get('runtime_digest', '')[:12]}",
            "" if runtime else "dbinfer upgrade",
        ),
    ]
