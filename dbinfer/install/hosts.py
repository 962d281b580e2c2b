"""What dbinfer keeps on the database's hosts: caches of model files (to prune) and engines (to stop and serve)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import RegistryError, ServerError, UsageError
from dbinfer.base.options import documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.backends import Check, Settings
from dbinfer.database.connection import one, session
from dbinfer.database.platform import detect
from dbinfer.install.content import Content
from dbinfer_udf.engine.client import run_service
from dbinfer_udf.errors import UdfError

MAY_ASK_COORDINATOR = (
    "SELECT pg_catalog.has_schema_privilege('dbinfer_private', 'USAGE') "
    "AND pg_catalog.has_function_privilege('dbinfer_private.cache_here(boolean)', 'EXECUTE')"
)


@documented
@dataclass(frozen=True)
class CacheOptions:
    """What to do with the caches."""

    prune: bool = option(
        False, "Remove models that no version of this database uses and that have been idle for an hour."
    )


@dataclass(frozen=True)
class HostCache:
    """The cache of one segment, or of a PostgreSQL server.

    Attributes:
        content: the segment's number; -1 for Greenplum's coordinator, None on PostgreSQL.
        models: how many have a folder there, those of other databases included.
        removed, removed_bytes: what this call has pruned.
    """

    content: int | None
    host: str
    folder: str
    models: int
    used_bytes: int
    free_bytes: int
    removed: int
    removed_bytes: int


@dataclass(frozen=True)
class CacheReport(Report):
    """The caches of all hosts.

    Attributes:
        caches: one for each segment; on Greenplum a superuser also sees that of the coordinator.
    """

    caches: tuple[HostCache, ...]


def cache(
    options: CacheOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> CacheReport:
    """Return what lies in the host caches; prune them first if the options say so.

    Raises:
        RegistryError: this role may not, or a folder cannot be used.
    """
    prune = (options or CacheOptions()).prune
    progress(Progress("pruning the caches" if prune else "looking at the caches"))
    with session(dsn, error=RegistryError, catalog_only=True) as conn:
        found = [HostCache(**json.loads(text)) for text in _caches(conn, prune)]
    return CacheReport(tuple(sorted(found, key=lambda cache: (cache.content or 0, cache.host))))


def _caches(conn: Connection, prune: bool) -> list[str]:
    with conn.cursor() as cur:
        cur.execute("SELECT t FROM dbinfer._cache(%s) t", (prune,))
        found = [str(row[0]) for row in cur.fetchall()]
        if detect(conn).mpp:
            cur.execute(MAY_ASK_COORDINATOR)
            # a statement of its own: while segments work, the coordinator reads no table
            if one(cur):
                cur.execute("SELECT dbinfer_private.cache_here(%s)", (prune,))
                found.append(str(one(cur)))
    return found


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
# What a hostile file that takes over one of them can do where guards are missing (docs/explanation/security.md)
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
        stop: let them finish what runs, then end; the next row that needs an engine starts another.
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
        denied: the problem is a folder that belongs to another user, or is open to others.
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
    """The engines of all hosts; after a stop, those that are still ending are among them."""

    engines: tuple[HostEngine, ...]


def engine(options: EngineOptions | None = None, dsn: str | None = None) -> EngineReport:
    """Return the engines of the database's hosts; stop them first if the options say so.

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
        # another user of the host has forced decoding into the backends
        if isolation == "auto" and found.denied:
            hint = "Mend it on that host, or: dbinfer install --engine-dir FOLDER"
            return Check(name, False, f"models run in the backends, because {found.problem}", hint)
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
    """Return which guards a host's kernel, or a model, does not give (docs/explanation/security.md)."""
    given = [found.sandbox, *(model.get("sandbox") for model in found.models)]
    return [name for name in GUARDS if any(each and not each.get(name) for each in given)]


@documented
@dataclass(frozen=True)
class ServiceOptions:
    """How the service runs; the database's settings hold for the models."""

    venv: str = option(
        "/opt/dbinfer/venv", "Virtual environment of the backends, whose Python runs the engine."
    )
    folder: str | None = option(
        None, "Folder of its sockets. Default: /run/dbinfer-engine, else below /tmp.", "--dir"
    )
    memory_mb: int | None = option(None, "Memory of all its models. Default: half of the host's.", least=1)
    log: str | None = option(
        None, "Its log; lines of JSON if the name ends in .json. Default: engine.log in its folder."
    )


def serve(options: ServiceOptions) -> int:
    """Run the engine of this host and user in this process, until it is stopped.

    It serves databases whose runtime is this client's: after an upgrade the service is to be restarted.

    Raises:
        ServerError: it cannot be started.
        UsageError: nothing can be written where its log is to be.
    """
    log = None if options.log is None else os.path.abspath(options.log)
    if log is not None and not os.access(log if os.path.exists(log) else os.path.dirname(log), os.W_OK):
        raise UsageError(
            f"the log {options.log} cannot be written",
            f"Make the folder {os.path.dirname(log)}, and let this user write into it.",
        )
    named = {
        "engine_log": log,
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
