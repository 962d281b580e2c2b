"""Examines every place where functions run and says, for what is wrong, what mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extras import RealDictCursor

from dbinfer._version import __version__
from dbinfer.connection import session
from dbinfer.errors import ServerError
from dbinfer.install.content import Content
from dbinfer.platform import Platform, detect

SEGMENTS = "SELECT * FROM dbinfer.segments ORDER BY content"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what; detail: what was found; hint: what to do where it is not ok.
    """

    name: str
    ok: bool
    detail: str
    hint: str = ""


def examine(dsn: str | None = None) -> list[Check]:
    """Return all checks for the database of `dsn`.

    Raises:
        ServerError: the server cannot be reached.
    """
    with session(dsn, error=ServerError, needs_dbinfer=False, autocommit=True) as conn:
        platform = detect(conn)
        checks = [Check("server", True, f"{platform.name} {platform.version}")]
        settings = _settings(conn)
        if settings is None:
            return [*checks, Check("installed", False, "dbinfer is not in this database", "dbinfer install")]
        checks += _installed(settings)
        rows, problem = _places(conn)
        if problem:
            return [*checks, Check("backends", False, problem, "dbinfer upgrade; then run the doctor again")]
        if platform.segments:
            checks.append(_all_answer(platform, rows))
        for row in rows:
            checks += _place(row, rows, settings)
        return checks


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


def _places(conn: Any) -> tuple[list[dict[str, Any]], str]:
    try:
        with conn.cursor(cursor_factory=RealDictCursor) as cur:
            cur.execute(SEGMENTS)
            return [dict(row) for row in cur.fetchall()], ""
    except psycopg2.Error as err:
        return [], str(err).strip().splitlines()[0]


def _all_answer(platform: Platform, rows: list[dict[str, Any]]) -> Check:
    ok = len(rows) == platform.segments
    return Check(
        "segments",
        ok,
        f"{len(rows)} of {platform.segments} answer",
        "" if ok else "gpstate -e shows the failed ones",
    )


def _place(row: dict[str, Any], rows: list[dict[str, Any]], settings: dict[str, str]) -> list[Check]:
    """Return the checks of one segment, or of the backend on PostgreSQL."""
    where = (
        f"segment {row['content']} ({row['host']})"
        if row["content"] is not None
        else f"backend ({row['host']})"
    )
    if row["problem"]:
        message, _, hint = row["problem"].partition(" On that host: ")
        cure = hint or "Mend the venv on that host, or name another: dbinfer install --venv PATH"
        return [Check(f"{where} packages", False, message, cure)]
    return [check(where, row, rows, settings) for check in PLACE_CHECKS]


def _python(where: str, row: dict[str, Any], rows: list[dict[str, Any]], settings: dict[str, str]) -> Check:
    ok = tuple(int(x) for x in row["python"].split(".")[:2]) >= (3, 9)
    return Check(
        f"{where} python",
        ok,
        f"{row['python']} with {row['venv']}",
        "" if ok else "PL/Python 3.9 or newer is needed",
    )


def _packages(where: str, row: dict[str, Any], rows: list[dict[str, Any]], settings: dict[str, str]) -> Check:
    names = ("openvino", "numpy", "opencv", "orjson")
    versions = {name: row[name] for name in names}
    majority = {
        name: max((r[name] or "" for r in rows), key=[r[name] or "" for r in rows].count) for name in names
    }
    other = [name for name in names if versions[name] != majority[name]]
    detail = ", ".join(f"{name} {version}" for name, version in versions.items())
    hint = f"On {row['host']}: {row['venv']}/bin/pip install " + " ".join(
        f"{n}=={majority[n]}" for n in other
    )
    return Check(f"{where} packages", not other, detail, hint if other else "")


def _threads(where: str, row: dict[str, Any], rows: list[dict[str, Any]], settings: dict[str, str]) -> Check:
    here = sum(r["host"] == row["host"] for r in rows) if row["content"] is not None else 1
    ok = row["threads"] >= 1 and row["threads"] * here <= max(row["cores"], here)
    detail = f"{row['threads']} of {row['cores']} cores, {here} scoring here"
    return Check(
        f"{where} threads", ok, detail, "" if ok else "dbinfer install --threads auto, then dbinfer upgrade"
    )


def _cache(where: str, row: dict[str, Any], rows: list[dict[str, Any]], settings: dict[str, str]) -> Check:
    free = row["cache_free"] or 0
    ok = free > 1 << 30
    detail = f"{row['cache_dir']}, {row['cache_bytes'] / 1e6:.1f} MB used, {free / 1e9:.1f} GB free"
    return Check(
        f"{where} cache",
        ok,
        detail,
        "" if ok else "Make room on that disk, or: dbinfer install --cache-dir FOLDER",
    )


def _runtime(where: str, row: dict[str, Any], rows: list[dict[str, Any]], settings: dict[str, str]) -> Check:
    wanted = settings.get("runtime_digest", row["runtime_digest"])
    ok = row["runtime_digest"] == wanted
    return Check(
        f"{where} runtime", ok, f"digest {row['runtime_digest'][:12]}", "" if ok else "Start a new session"
    )


PLACE_CHECKS: tuple[Callable[..., Check], ...] = (_python, _packages, _threads, _cache, _runtime)
