"""doctor: examines the database and every backend that scores, and says for what is wrong what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg2

from dbinfer._version import __version__
from dbinfer.backends import Check, check_backends
from dbinfer.balance import crowded_hosts, skewed_tables
from dbinfer.connection import session
from dbinfer.engine import check_engines
from dbinfer.errors import InstallError, ServerError
from dbinfer.install.content import Content
from dbinfer.install.foreign import check_foreign
from dbinfer.install.possible import check_server
from dbinfer.install.roles import lacks_rights
from dbinfer.mirrors import check_mirrors
from dbinfer.platform import Platform, detect
from dbinfer.registry.slow import slow_hosts
from dbinfer.report import Report

UNPROVED = "try it before you rely on it, and see docs/platforms.md"


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
    with session(dsn, error=ServerError, needs_dbinfer=False, catalog_only=True) as conn:
        platform = detect(conn)
        server = _server(platform)
        try:
            check_server(platform)
        except InstallError as err:
            # More checks would only fail there, each with a sentence of the server's own
            return DoctorReport((*server, Check("server", False, err.message, err.cure)))
        settings = _settings(conn)
        if settings is None:
            missing = Check("installed", False, "dbinfer is not in this database", "dbinfer install")
            return DoctorReport((*server, missing))
        # The backends last: an error of theirs ends the transaction
        known = (*_installed(settings), *_rights(conn), *check_mirrors(conn, platform))
        backends = check_backends(conn, platform, settings)
        if all(check.ok for check in backends):
            backends += [slow_hosts(conn), *crowded_hosts(conn, platform, settings)]
            backends += skewed_tables(conn, platform)
        return DoctorReport((*server, *known, *backends, *check_engines(conn, settings)))


def _server(platform: Platform) -> list[Check]:
    """Name the server and what a catalog of Greenplum's family has; where we know less of it, the hint says so."""
    checks = [Check("server", True, str(platform), platform.warning and f"{platform.warning}: {UNPROVED}")]
    if platform.features.family:
        lacking = platform.features.lacking
        cure = (
            "dbinfer needs what is missing; docs/platforms.md says which servers have it" if lacking else ""
        )
        checks.append(Check("features", not lacking, str(platform.features), cure))
    return checks


def _settings(conn: Any) -> dict[str, str] | None:
    with conn.cursor() as cur:
        try:
            cur.execute("SELECT pg_catalog.to_regclass('dbinfer.models') IS NOT NULL")
            if not cur.fetchone()[0]:
                return None
            # Asked, not tried: a refused SELECT would abort the transaction of all further checks
            cur.execute("SELECT pg_catalog.has_schema_privilege('dbinfer_private', 'USAGE')")
            if not cur.fetchone()[0]:
                return {}
            cur.execute("SELECT name, value FROM dbinfer_private.setting")
        except psycopg2.errors.InsufficientPrivilege:
            return {}
        return dict(cur.fetchall())


def _rights(conn: Any) -> list[Check]:
    """Look at what only the catalog says: the administrators' rights, and objects of others among ours."""
    with conn.cursor() as cur:
        lacking = lacks_rights(cur)
        try:
            # What stops an upgrade is a line of the report here
            check_foreign(cur, detect(conn), Content())
            foreign = None
        except InstallError as err:
            foreign = err
    rights = (
        "the role dbinfer_admin is missing, or may not deploy here" if lacking else "dbinfer_admin may deploy"
    )
    return [
        Check("rights", not lacking, rights, "dbinfer upgrade" if lacking else ""),
        Check(
            "objects",
            foreign is None,
            foreign.message if foreign else "all ours",
            foreign.cure if foreign else "",
        ),
    ]


def _installed(settings: dict[str, str]) -> list[Check]:
    if not settings:
        return [
            Check(
                "installed",
                True,
                "settings are not readable with this role; connect as a superuser",
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
