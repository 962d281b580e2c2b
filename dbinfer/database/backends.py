"""Checks every backend that scores, with a hint for each problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extras import RealDictCursor

from dbinfer.database import pins
from dbinfer.database.connection import one
from dbinfer.database.platform import Platform

SEGMENTS = "SELECT * FROM dbinfer.segments ORDER BY content"
COORDINATOR = -1
DOWN = (
    "gpstate -e names what is down; gprecoverseg brings it back (without mirrors: gpstop -a, then gpstart -a)"
)
EXPAND = "finish gpexpand with its second phase, gpexpand -d HH:MM:SS, then dbinfer upgrade"
UPGRADE = "dbinfer upgrade, then start a new session; a segment needs the coordinator's version of Python"
DEVICE = (
    "Mend the device or its driver: within an hour models are tried there again. Or take the processor: "
    "dbinfer install --device CPU"
)
Row = dict[str, Any]
Settings = Mapping[str, str]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what; detail: what was found; hint: what to do where it is not ok, or what to know where it is.
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
    expansion = unfinished(conn, platform)
    if expansion is not None:
        # Alone: functions fail on the new segments until gpexpand is done, and so would the other checks
        return [expansion]
    try:
        rows = _rows(conn, platform, settings)
    except psycopg2.Error as err:
        return [_no_answer(err, platform)]
    checks = [_all_answer(platform, rows)] if platform.segments else []
    return checks + [check for row in rows for check in _backend(row, rows, settings)]


def _rows(conn: Connection, platform: Platform, settings: Settings) -> list[Row]:
    """Return the facts of every segment and, where the role may ask it, of the coordinator, which scores too."""
    with conn.cursor(cursor_factory=RealDictCursor) as cur:
        cur.execute(SEGMENTS)
        rows = [dict(row) for row in cur.fetchall()]
    # A role without rights on dbinfer_private sees no settings, and may not ask the coordinator either
    if platform.segments and settings:
        with (
            conn.cursor() as cur
        ):  # each a statement of its own: while segments work, the coordinator reads no table
            cur.execute("SELECT dbinfer_private.load_runtime()")
            cur.execute("SELECT dbinfer_private.status(dbinfer_private.settings())")
            rows.append(dict.fromkeys(rows[0]) | json.loads(one(cur)))
    return rows


def _no_answer(err: psycopg2.Error, platform: Platform) -> Check:
    problem = str(err).strip().splitlines()[0]
    # Connection lost, shutdown, system and internal errors come from a segment that is down, others from us
    if platform.segments and (err.pgcode or "").startswith(("08", "57", "58", "XX")):
        return Check("segments", False, problem, DOWN)
    return Check("backends", False, problem, "dbinfer upgrade; then run the doctor again")


def unfinished(conn: Connection, platform: Platform) -> Check | None:
    """Find tables of ours that gpexpand has not yet brought to new segments; functions fail there until it has."""
    if not platform.segments:
        return None
    with conn.cursor() as cur:
        cur.execute(
            "SELECT pg_catalog.min(p.numsegments) FROM pg_catalog.gp_distribution_policy p "
            "JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) p.localoid "
            "JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace "
            "WHERE n.nspname OPERATOR(pg_catalog.=) 'dbinfer_private'"
        )
        least = one(cur)
    if least is None or int(str(least)) >= platform.segments:
        return None
    found = f"the registry is on {least} of {platform.segments} segments: the cluster was expanded, not redistributed"
    return Check("segments", False, found, EXPAND)


def _all_answer(platform: Platform, rows: list[Row]) -> Check:
    # The coordinator also has a row here, but is no segment
    answers = sum(row["content"] >= 0 for row in rows)
    ok = answers == platform.segments
    return Check("segments", ok, f"{answers} of {platform.segments} answer", "" if ok else DOWN)


def _backend(row: Row, rows: list[Row], settings: Settings) -> list[Check]:
    """Return the checks of one segment, or of the backend on PostgreSQL."""
    coordinator = row["content"] == COORDINATOR
    segment = f"segment {row['content']}" if row["content"] is not None else "backend"
    segment = "coordinator" if coordinator else segment
    # Host and folders are for administrators
    named = row["host"] is not None
    where = f"{segment} ({row['host']})" if named else segment
    if row["problem"]:
        hint = row.get("hint") or "Mend the venv on that host, or name another: dbinfer install --venv PATH"
        return [Check(f"{where} packages", False, row["problem"], hint)]
    # the coordinator scores in one process a session, whatever segments share its host
    left_out = {_threads} if coordinator else set() if named else {_threads, _cache}
    # None: the processor
    left_out |= set() if row.get("devices") else {_device}
    return [check(where, row, rows, settings) for check in CHECKS if check not in left_out]


def _python(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    ok = tuple(int(x) for x in row["python"].split(".")[:2]) >= (3, 9)
    return Check(
        f"{where} python",
        ok,
        f"{row['python']} with {row['venv']}" if row["venv"] else row["python"],
        "" if ok else "PL/Python 3.9 or newer is needed",
    )


def _packages(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    names = ("openvino", "numpy", "opencv", "orjson")
    versions = {name: row[name] for name in names}
    # No version is known to be right: the most frequent one counts, so that the odd one out is named
    majority = {
        name: max((r[name] or "" for r in rows), key=[r[name] or "" for r in rows].count) for name in names
    }
    other = [name for name in names if versions[name] != majority[name]]
    detail = ", ".join(f"{name} {version}" for name, version in versions.items())
    detail += pins.openvino_note(row["python"], row["openvino"] or "")
    wanted = " ".join(f"{n}=={majority[n]}" for n in other)
    hint = f"On {row['host'] or 'that host'}: {row['venv'] or 'VENV'}/bin/pip install {wanted}"
    return Check(f"{where} packages", not other, detail, hint if other else "")


def _threads(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    here = (
        sum(r["host"] == row["host"] and r["content"] != COORDINATOR for r in rows)
        if row["content"] is not None
        else 1
    )
    # Where a host has more segments than cores, each takes one thread, and that is right
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
    # A role that may not read the settings has nothing to compare with
    wanted = settings.get("runtime_digest", row["runtime_digest"])
    ok = row["runtime_digest"] == wanted
    return Check(
        f"{where} runtime", ok, f"digest {row['runtime_digest'][:12]}", "" if ok else "Start a new session"
    )


def _compiled(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    # None: an older runtime's view
    ok = row.get("compiled") is not False
    detail = "from the registry" if ok else "each session compiles it: the registry has it for another Python"
    return Check(f"{where} compiled runtime", ok, detail, "" if ok else UPGRADE)


def _device(where: str, row: Row, rows: list[Row], settings: Settings) -> Check:
    found = row["devices"]
    detail = f"{found['wanted']} computes {found['models']} of {found['tried']} models"
    if found["models"] == found["tried"]:
        return Check(f"{where} device", True, detail)
    return Check(f"{where} device", False, f"{detail}: {'; '.join(found['reasons'])}", DEVICE)


CHECKS: tuple[Callable[..., Check], ...] = (
    _python,
    _packages,
    _threads,
    _cache,
    _runtime,
    _compiled,
    _device,
)
