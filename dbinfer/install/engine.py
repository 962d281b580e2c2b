"""The engines of the database's hosts: what they hold, how to start and end them, and how to run one as a service."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import RegistryError, ServerError
from dbinfer.base.report import Report
from dbinfer.database.backends import Check, Settings
from dbinfer.database.connection import one, session
from dbinfer.database.platform import detect
from dbinfer.install.content import Content
from dbinfer_udf.engine.client import run_service
from dbinfer_udf.errors import UdfError

__all__ = [
    "EngineOptions",
    "EngineReport",
    "HostEngine",
    "ServiceOptions",
    "check_engines",
    "engine",
    "serve",
]


# A database of an older version has no such function
MAY_ASK = (
    "SELECT pg_catalog.has_function_privilege(f.oid, 'EXECUTE') "
    "FROM (SELECT pg_catalog.to_regprocedure('dbinfer._full_engines(text)')::oid) f (oid)"
)


def may_ask(conn: Connection) -> bool:
    """Return whether this role sees hosts and models, and may start and stop engines."""
    with conn.cursor() as cur:
        cur.execute(MAY_ASK)
        return bool(one(cur))


def ask(conn: Connection, action: str) -> list[dict[str, Any]]:
    """Return the engines of all hosts, after `look`, `start`, `stop` or `replace`; see dbinfer_udf.session.upkeep."""
    queries = ["SELECT t FROM dbinfer._hosts_engines(%s) t"]
    # Greenplum's coordinator scores what needs no table, and its host may hold no segment.
    # A statement of its own: while segments work, the coordinator reads no table
    if detect(conn).mpp and may_ask(conn):
        queries.append("SELECT dbinfer._full_engines(%s)")
    found: list[dict[str, Any]] = []
    with conn.cursor() as cur:
        for query in queries:
            cur.execute(query, (action,))
            found += [facts for (text,) in cur.fetchall() for facts in json.loads(text)]
    # The segments of a host see the same engines
    each = {(facts.get("host"), facts.get("pid"), facts["digest"]): facts for facts in found}
    return [facts for _, facts in sorted(each.items(), key=lambda item: str(item[0]))]


# What keeps the engine's processes from all but their work
GUARDS = ("landlock", "seccomp")
SCOPES = 6  # the version of Landlock that keeps signals in, of Linux 6.12
# What a hostile file that takes over one of them can do, too, where guards are missing; see docs/security.md
GAINS = {
    ("landlock",): "a hostile model can read and write the server's files while it is compiled",
    (
        "seccomp",
    ): "a hostile image or model can open sockets and log in where the database trusts the server's user",
    GUARDS: "a hostile image or model can do all that the server's user can",
}


@dataclass(frozen=True)
class EngineOptions:
    """What to do with the engines.

    Attributes:
        stop: tell them to finish what runs and go; the next row that needs one starts another.
    """

    stop: bool = False


@dataclass(frozen=True)
class HostEngine:
    """One engine, or why there is none.

    Attributes:
        host: None where this role may not see hosts and models.
        pid: of its supervisor; None where it does not answer.
        uptime: in seconds.
        service: it was started as a service, and does not end by itself.
        models: what it holds: model, version, rows, threads, bytes, workers, requests, errors, restarts, queue.
        requests, errors, restarts, queue: sums over its models.
        bytes: of all its processes, pages that several share counted once.
        digest: of the runtime that it works for.
        problem: what is wrong, or None.
        denied: that is a folder which belongs to somebody else, or is open to others.
        sandbox: what the host's kernel has: landlock (its version), seccomp; None where that is not known.
    """

    host: str | None
    pid: int | None
    uptime: float | None
    service: bool
    models: tuple[dict[str, Any], ...]
    bytes: int
    requests: int
    errors: int
    restarts: int
    queue: int
    log: str | None
    digest: str
    problem: str | None
    sandbox: dict[str, Any] | None = None
    denied: bool = False


@dataclass(frozen=True)
class EngineReport(Report):
    """The engines of all hosts; after a stop those that were told may still be there."""

    engines: tuple[HostEngine, ...]


def engine(options: EngineOptions | None = None, dsn: str | None = None) -> EngineReport:
    """Return the engines of the database's hosts; tell them to go first if the options say so.

    Raises:
        RegistryError: this role may not stop them.
    """
    action = "stop" if (options or EngineOptions()).stop else "look"
    with session(dsn, error=RegistryError, catalog_only=True, autocommit=True) as conn:
        return EngineReport(tuple(_ask(conn, action)))


def _ask(conn: Connection, action: str) -> list[HostEngine]:
    return [_engine(facts) for facts in ask(conn, action)]


def _engine(facts: dict[str, Any]) -> HostEngine:
    sums = {name: facts.get(name) or 0 for name in ("bytes", "requests", "errors", "restarts", "queue")}
    return HostEngine(
        host=facts.get("host"),
        pid=facts.get("pid"),
        uptime=facts.get("uptime"),
        service=bool(facts.get("service")),
        models=tuple(facts.get("models") or ()),
        log=facts.get("log"),
        digest=facts["digest"],
        problem=facts.get("problem"),
        sandbox=facts.get("sandbox"),
        denied=bool(facts.get("denied")),
        **sums,
    )


def check_engines(conn: Connection, settings: Settings) -> list[Check]:
    """Return a check for each host: an engine runs there or can be started; nothing where none is wanted.

    `auto` scores without one, so there it is said and no fault; `always` does not.
    """
    isolation = settings.get("isolation", "auto")
    if isolation == "never" or not may_ask(conn):
        return []
    wanted = settings.get("runtime_digest", "")[:12]
    try:
        found = _ask(conn, "start")
    except psycopg2.Error:
        return []  # the checks of the segments say why
    return [_check(each, isolation) for each in found if each.digest == wanted or not wanted]


def _check(found: HostEngine, isolation: str) -> Check:
    name = f"engine ({found.host})"
    if found.problem is not None:
        # somebody on the host has moved the decoding into the backends
        if isolation == "auto" and found.denied:
            cure = "Mend it on that host, or: dbinfer install --engine-dir FOLDER"
            return Check(name, False, f"models run in the backends, because {found.problem}", cure)
        if isolation == "auto":
            return Check(name, True, f"models run in the backends, because {found.problem}")
        return Check(name, False, found.problem, "Mend it on that host, or: dbinfer install --isolation auto")
    kind = "service" if found.service else "engine"
    kernel = (found.sandbox or {}).get("kernel") or "an unknown kernel"
    detail = f"{kind} {found.pid}, {len(found.models)} models, isolation = {isolation}, {kernel}"
    lacking = _lacking(found)
    if lacking:
        detail += f", without {' and '.join(lacking)}: {GAINS[tuple(lacking)]}"
        # only then the kernel itself keeps signals in, with a scope of Landlock
        if lacking == ["seccomp"] and (found.sandbox or {}).get("landlock", 0) < SCOPES:
            detail += ", and signal the server's processes"
    if len(lacking) == len(GUARDS) and isolation == "always":
        return Check(
            name, False, detail, "Nothing keeps files closed there: use a kernel that has one of them."
        )
    return Check(name, True, detail)


def _lacking(found: HostEngine) -> list[str]:
    """Return which guards the kernel of the host, or a model, does not give; docs/security.md says what that means."""
    given = [found.sandbox, *(model.get("sandbox") for model in found.models)]
    return [name for name in GUARDS if any(each and not each.get(name) for each in given)]


@dataclass(frozen=True)
class ServiceOptions:
    """How the service runs; the database's settings hold for the models.

    Attributes:
        venv: whose Python runs it; the one that the database names.
        folder: of its sockets; None: /run/dbinfer-engine where that is this user's, else below /tmp.
        memory_mb: of all models; beyond it the model that was not used for longest goes.
    """

    venv: str
    folder: str | None = None
    memory_mb: int | None = None


def serve(options: ServiceOptions) -> int:
    """Be the engine of this host and user until it is told to stop; this process becomes it.

    It serves databases whose runtime is this client's: after an upgrade the service is to be restarted.

    Raises:
        ServerError: it cannot be started.
    """
    named = {
        "venv": options.venv,
        "engine_dir": options.folder,
        "engine_memory_mb": None if options.memory_mb is None else str(options.memory_mb),
    }
    content = Content()
    settings = {name: value for name, value in named.items() if value is not None}
    try:
        return run_service(settings, content.runtime_digest, content.modules)
    except UdfError as err:
        raise ServerError(err.message, err.hint or "") from err
