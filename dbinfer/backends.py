"""Asks every backend that scores what it has, and says for what is wrong there what mends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extras import RealDictCursor

from dbinfer.platform import Platform

SEGMENTS = "SELECT * FROM dbinfer.segments ORDER BY content"
Row = dict[str, Any]
Settings = Mapping[str, str]


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


def check_backends(conn: Connection, platform: Platform, settings: Settings) -> list[Check]:
    """Return the checks of every segment, or on PostgreSQL of one backend.

    Args:
        settings: of the database, as far as this role may read them.
    """
    try:
        with conn.cursor(cursor_factory=RealDictCursor) as cur:
            cur.execute(SEGMENTS)
            rows = [dict(row) for row in cur.fetchall()]
    except psycopg2.Error as err:
        problem = str(err).strip().splitlines()[0]
        return [Check("backends", False, problem, "dbinfer upgrade; then run the doctor again")]
    checks = [_all_answer(platform, rows)] if platform.segments else []
    return checks + [check for row in rows for check in _backend(row, rows, settings)]


def _all_answer(platform: Platform, rows: list[Row]) -> Check:
    ok = len(rows) == platform.segments
    return Check(
        "segments",
        ok,
        f"{len(rows)} of {platform.segments} answer",
        "" if ok else "gpstate -e shows the failed ones",
    )


def _backend(row: Row, rows: list[Row], settings: Settings) -> list[Check]:
    """Return the checks of one segment, or of the backend on PostgreSQL."""
    segment = f"segment {row['content']}" if row["content"] is not None else "backend"
    where = f"{segment} ({row['host']})"
    if row["problem"]:
        message, _, hint = row["problem"].partition(" On that host: ")
        cure = hint or "Mend the venv on that host, or name another: dbinfer install --venv PATH"
        return [Check(f"{where} packages", False, message, cure)]
    return [check(where, row, rows, settings) for check in CHECKS]


def _python(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    ok = tuple(int(x) for x in row["python"].split(".")[:2]) >= (3, 9)
    return Check(
        f"{where} python",
        ok,
        f"{row['python']} with {row['venv']}",
        "" if ok else "PL/Python 3.9 or newer is needed",
    )


def _packages(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
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


def _threads(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    here = sum(r["host"] == row["host"] for r in rows) if row["content"] is not None else 1
    ok = row["threads"] >= 1 and row["threads"] * here <= max(row["cores"], here)
    detail = f"{row['threads']} of {row['cores']} cores, {here} scoring here"
    return Check(
        f"{where} threads", ok, detail, "" if ok else "dbinfer install --threads auto, then dbinfer upgrade"
    )


def _cache(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    free = row["cache_free"] or 0
    ok = free > 1 << 30
    detail = f"{row['cache_dir']}, {row['cache_bytes'] / 1e6:.1f} MB used, {free / 1e9:.1f} GB free"
    return Check(
        f"{where} cache",
        ok,
        detail,
        "" if ok else "Make room on that disk, or: dbinfer install --cache-dir FOLDER",
    )


def _runtime(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    wanted = settings.get("runtime_digest", row["runtime_digest"])
    ok = row["runtime_digest"] == wanted
    return Check(
        f"{where} runtime", ok, f"digest {row['runtime_digest'][:12]}", "" if ok else "Start a new session"
    )


CHECKS: tuple[Callable[..., Check], ...] = (_python, _packages, _threads, _cache, _runtime)
