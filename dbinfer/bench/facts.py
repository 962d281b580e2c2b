"""What belongs to the SQL way alone: microseconds of each step, first-row latency, memory of a backend, the plan."""

from __future__ import annotations

import re
import time
from contextlib import closing
from statistics import median
from typing import Any

import psycopg2

from dbinfer.bench.tables import PARALLEL_SMALL
from dbinfer.bench.ways.context import Context
from dbinfer.connection import connect
from dbinfer.sqlfiles import read

SESSIONS, TOGETHER = 9, 5
PROFILE_ROWS = 16
STEPS = ("decode", "preprocess", "infer", "postprocess")
FIRST = "SELECT {call} FROM {table} WHERE id = 1"
COUNT = "EXPLAIN SELECT count({call}) FROM {table}"


def facts(context: Context) -> dict[str, Any]:
    """Return the facts of a cell as flat JSON values; what the server does not tell is left out."""
    known = {"cores": context.pool.processes, "agreement": context.files.agreement}
    return {**steps(context), **sessions(context), **_plan(context), **known}


def steps(context: Context) -> dict[str, float]:
    """Return the median microseconds of each step in a backend."""
    made = context.bench
    text = made.format(read("bench/profile.sql"), table=made.table("small"))
    rows = made.rows(text, {"model": context.cell.model, "rows": PROFILE_ROWS})
    taken = [row[0]["microseconds"] for row in rows]
    return {f"{step}_us": round(median(t[step] for t in taken), 1) for step in STEPS if taken}


def sessions(context: Context) -> dict[str, Any]:
    """Return the first row's milliseconds in fresh sessions, one after the other, and the memory of several at once."""
    taken = []
    for _ in range(SESSIONS):
        with closing(connect(context.bench.dsn)) as conn:
            conn.autocommit = True
            taken.append(_first_row(context, conn))
    opened = [connect(context.bench.dsn) for _ in range(TOGETHER)]
    try:
        for conn in opened:
            conn.autocommit = True
            _first_row(context, conn)
        return {"first_row_ms": round(median(taken), 1), **_memory(context, opened)}
    finally:
        for conn in opened:
            conn.close()


def _first_row(context: Context, conn: Any) -> float:
    made = context.bench
    text = made.format(FIRST, call=context.call(), table=made.table("first"))
    with conn.cursor() as cur:
        started = time.perf_counter()
        cur.execute(text)
        cur.fetchall()
        return (time.perf_counter() - started) * 1000


def _memory(context: Context, opened: list[Any]) -> dict[str, float]:
    """Return PSS and private MB of the backends that have scored; nothing where the role may not read them."""
    texts = []
    for conn in opened:
        with closing(conn.cursor()) as cur:
            try:
                cur.execute(context.bench.platform.adapt(read("bench/memory.sql")))
            except psycopg2.Error:
                return {}
            texts += [row[0] for row in cur.fetchall()]
    return {
        "pss_mb": _kilobytes(texts, "Pss"),
        "private_mb": _kilobytes(texts, "Private_Clean", "Private_Dirty"),
    }


def _kilobytes(texts: list[str], *fields: str) -> float:
    """Return the median over processes of the sum of some fields, in MB."""
    sums = []
    for text in texts:
        found = [re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE) for name in fields]
        sums.append(sum(int(match.group(1)) for match in found if match) * 1024 / 1e6)
    return round(median(sums), 1)


def _plan(context: Context) -> dict[str, int]:
    """Return how many processes PostgreSQL plans for the measured statement with its own settings."""
    made = context.bench
    if made.platform.mpp:
        return {"processes": made.platform.segments}
    text = made.format(COUNT, call=context.call(), table=made.table("big"))
    made.run("RESET parallel_setup_cost")
    plan = "\n".join(row[0] for row in made.rows(text))
    made.run(PARALLEL_SMALL)
    found = re.search(r"Workers Planned: (\d+)", plan)
    return {"processes": 1 + int(found.group(1)) if found else 1}
