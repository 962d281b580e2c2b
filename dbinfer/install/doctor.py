"""doctor: examines the database, its mirrors and every backend that scores, with a hint for each problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_INERROR
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import InstallError, ServerError
from dbinfer.base.options import documented, option
from dbinfer.base.report import Report
from dbinfer.base.version import __version__
from dbinfer.database.backends import Check, check_backends
from dbinfer.database.connection import Installed, installed, session
from dbinfer.database.platform import Platform, detect
from dbinfer.install.balance import crowded_hosts, moving_images, skewed_tables
from dbinfer.install.content import Content
from dbinfer.install.hosts import check_engines
from dbinfer.install.steps import ADMIN, check_foreign, check_server, lacks_rights
from dbinfer.models.precision import slow_hosts

PRIMARY, MIRROR, DOWN, IN_SYNC = "p", "m", "d", "s"
# Every role may read it; content -1 is the coordinator
QUERY = (
    "SELECT content, role, preferred_role, mode, status, hostname FROM pg_catalog.gp_segment_configuration "
    "WHERE content OPERATOR(pg_catalog.>=) 0 ORDER BY content, dbid"
)
RECOVER = "gprecoverseg, and when gpstate -e names nothing any more: gprecoverseg -r"
WAIT = "gpstate -e names those that catch up; when it names none: dbinfer doctor"
SWAP = "gprecoverseg -r lets them change back"


@dataclass(frozen=True)
class Instance:
    """A primary or a mirror: what the cluster's catalog says of it."""

    content: int
    role: str
    preferred: str
    mode: str
    status: str
    host: str


def check_mirrors(conn: Connection, platform: Platform) -> list[Check]:
    """Return what the catalog says of mirrors; nothing where the cluster has none."""
    if not platform.segments:
        return []
    with conn.cursor() as cur:
        cur.execute(QUERY)
        found = [Instance(*row) for row in cur.fetchall()]
    return judge(found)


def judge(found: list[Instance]) -> list[Check]:
    """Return the check of these primaries and mirrors; none where there are no mirrors."""
    mirrors = {one.content: one for one in found if one.role == MIRROR}
    if not mirrors:
        return []
    primaries = [one for one in found if one.role == PRIMARY and one.content in mirrors]
    said = [_pair(one, mirrors[one.content]) for one in primaries]
    wrong = [pair for pair in said if pair]
    if not wrong:
        return [Check("mirrors", True, f"{len(mirrors)} in sync")]
    hint = next(each for each in (RECOVER, WAIT, SWAP) if any(each == pair[1] for pair in wrong))
    return [Check("mirrors", False, "; ".join(text for text, _ in wrong), hint)]


def _pair(acting: Instance, other: Instance) -> tuple[str, str] | None:
    """Return what is wrong with the two of a segment and its hint; None where all is as it should be."""
    swapped = acting.preferred == MIRROR
    words = list(_words(acting, other, swapped))
    if not words:
        return None
    hint = RECOVER if other.status == DOWN else WAIT if other.mode != IN_SYNC else SWAP
    return f"segment {acting.content}: " + ", ".join(words), hint


def _words(acting: Instance, other: Instance, swapped: bool) -> Iterator[str]:
    if swapped:
        yield f"its mirror on {acting.host} scores"
    if other.status == DOWN:
        yield f"its {'primary' if swapped else 'mirror'} on {other.host} is down"
    elif other.mode != IN_SYNC:
        yield f"{other.host} is not in sync yet"


WORKERS = Check("backends", True, "none scores here; workers do: dbinfer worker")
UNPROVED = "try it before you rely on it, and see docs/explanation/platforms.md"


@documented
@dataclass(frozen=True)
class DoctorOptions:
    """What to look at besides."""

    query: str | None = option(None, "A statement: say whether its plan moves images. It is not run.")


@dataclass(frozen=True)
class DoctorReport(Report):
    """What was looked at."""

    derived = ("ok",)

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Return whether all is well."""
        return all(check.ok for check in self.checks)


def doctor(options: DoctorOptions | None = None, dsn: str | None = None) -> DoctorReport:
    """Examine a database, and what the options name besides.

    Raises:
        ServerError: the server cannot be reached, or cannot plan the query.
    """
    given: object = options
    if isinstance(given, str):  # doctor(dsn), as 0.1.0 had it
        options, dsn = None, given
    report, query = _examined(dsn), (options or DoctorOptions()).query
    if query is None:
        return report
    # of its own: the names in it are the caller's, not the catalog's alone
    with session(dsn, error=ServerError, readonly=True) as conn:
        return DoctorReport((*report.checks, moving_images(conn, query)))


def _examined(dsn: str | None) -> DoctorReport:
    with session(dsn, error=ServerError, needs_dbinfer=False, catalog_only=True) as conn:
        platform = detect(conn)
        server = _server(platform)
        try:
            check_server(platform)
        except InstallError as err:
            # More checks would only fail there, each with a sentence of the server's own
            return DoctorReport((*server, Check("server", False, err.message, err.hint)))
        with conn.cursor() as cur:
            found = installed(cur)
        if found is None or found.order:
            return DoctorReport((*server, _unlike(found)))
        settings = _settings(conn)
        # The backends last: an error of theirs ends the transaction
        known = (*_installed(found, settings), *_rights(conn, platform), *check_mirrors(conn, platform))
        if platform.tables_only:
            return DoctorReport((*server, *known, WORKERS))
        backends = check_backends(conn, platform, settings)
        if all(check.ok for check in backends):
            backends += [slow_hosts(conn), *crowded_hosts(conn, platform, settings)]
            backends += skewed_tables(conn, platform)
        # after an error only the backends' lines say something, and they do
        broken = conn.info.transaction_status == TRANSACTION_STATUS_INERROR
        engines = [] if broken else check_engines(conn, settings)
        return DoctorReport((*server, *known, *backends, *engines))


def _server(platform: Platform) -> list[Check]:
    """Name the server and what a catalog of Greenplum's family has; where we know less of it, the hint says so."""
    checks = [Check("server", True, str(platform), platform.warning and f"{platform.warning}: {UNPROVED}")]
    if platform.features.family:
        lacking = platform.features.lacking
        hint = (
            "dbinfer needs what is missing; docs/explanation/platforms.md says which servers have it"
            if lacking
            else ""
        )
        checks.append(Check("features", not lacking, str(platform.features), hint))
    return checks


def _unlike(found: Installed | None) -> Check:
    """Say that dbinfer is missing, or of another version than this client: more checks would only fail."""
    if found is None:
        return Check("installed", False, "dbinfer is not in this database", "dbinfer install")
    refusal = found.refusal(ServerError)
    return Check("version", False, refusal.message, refusal.hint)


def _settings(conn: Any) -> dict[str, str]:
    with conn.cursor() as cur:
        try:
            # Asked, not tried: a refused SELECT would abort the transaction of all further checks
            cur.execute("SELECT pg_catalog.has_schema_privilege('dbinfer_private', 'USAGE')")
            if not cur.fetchone()[0]:
                return {}
            cur.execute("SELECT name, value FROM dbinfer_private.setting")
        except psycopg2.errors.InsufficientPrivilege:
            return {}
        return dict(cur.fetchall())


def _rights(conn: Any, platform: Platform) -> list[Check]:
    """Look at what only the catalog says: the administrators' rights, and objects of others among ours."""
    with conn.cursor() as cur:
        lacking = lacks_rights(cur, platform)
        try:
            # What stops an upgrade is a line of the report here
            check_foreign(cur, platform, Content())
            foreign = None
        except InstallError as err:
            foreign = err
    rights = (
        "the role dbinfer_admin is missing, or may not deploy here"
        if lacking
        else f"{'the owner of the tables' if platform.tables_only else ADMIN} may deploy"
    )
    return [
        Check("rights", not lacking, rights, "dbinfer upgrade" if lacking else ""),
        Check(
            "objects",
            foreign is None,
            foreign.message if foreign else "all ours",
            foreign.hint if foreign else "",
        ),
    ]


def _installed(found: Installed, settings: dict[str, str]) -> list[Check]:
    if not settings:
        return [
            Check(
                "installed",
                True,
                "settings are not readable with this role; connect as a superuser",
            )
        ]
    content = Content()
    hint = found.refusal(ServerError).hint if found.newer else "dbinfer upgrade"
    same = found.release == __version__
    runtime = settings.get("runtime_digest") == content.runtime_digest
    return [
        Check(
            "version",
            same,
            f"database {found.release}, client {__version__}",
            "" if same else hint,
        ),
        Check(
            "runtime",
            runtime,
            f"digest {settings.get('runtime_digest', '')[:12]}",
            "" if runtime else hint,
        ),
    ]
