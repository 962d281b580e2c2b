"""What belongs to SQL alone: microseconds of each step, first row, memory of a process that scores, plan."""

from __future__ import annotations

import json
import re
from statistics import median
from typing import Any

import psycopg2

from dbinfer.bench.database import PARALLEL_SMALL
from dbinfer.bench.methods import Context
from dbinfer.bench.sessions import (
    PRIVATE,
    TOGETHER,
    first_row_ms,
    megabytes,
    scored,
    stop_engine,
    warm_engine,
)
from dbinfer.bench.workers import Job
from dbinfer.sqlfiles import read
from dbinfer_udf.tasks import TASKS

PROFILE_ROWS = 16
STEPS = ("decode", "preprocess", "infer", "postprocess")
COUNT = "EXPLAIN SELECT count({call}) FROM {table}"


def profile(context: Context) -> dict[str, Any]:
    """Return the profile of a case as flat JSON values; what the server does not tell is left out."""
    # that of another model would serve the first rows of a fast one, whose own figures these are to be
    stop_engine(context.database)
    known = {"cores": context.workers.processes, "agreement": context.files.agreement}
    measured = {**steps(context), "first_row_ms": first_row_ms(context), **memory(context)}
    warm_engine(context)
    return {**measured, "first_row_warm_ms": first_row_ms(context), **planned(context), **known}


def steps(context: Context) -> dict[str, float]:
    """Return the median microseconds of each step in a backend."""
    database = context.database
    text = database.format(read("bench/profile.sql"), table=database.table("small"))
    rows = database.rows(text, {"model": context.case.model, "rows": PROFILE_ROWS})
    return _step_medians([row[0]["microseconds"] for row in rows])


def full_decode(context: Context, sql_rate: float) -> dict[str, float]:
    """Return rate and steps of the bare loop with full decode and resize, and ours in SQL against it."""
    context.workers.load(Job(context.files, context.case.function, context.images, exact=True))
    count = max(context.workers.processes * 4, context.rows // 8)
    rate = count / context.workers.loop(count)
    model = context.files.compile(exact=True)
    taken = [json.loads(TASKS["profile"](model, img, None))["microseconds"] for img in context.images]
    return {
        "full_decode_images_per_s": round(rate, 2),
        "ratio_full_decode": round(sql_rate / rate, 3),
        **{f"full_{name}": value for name, value in _step_medians(taken).items()},
    }


def _step_medians(taken: list[dict[str, float]]) -> dict[str, float]:
    return {f"{step}_us": round(median(t[step] for t in taken), 1) for step in STEPS if taken}


def memory(context: Context) -> dict[str, float]:
    """Return PSS and private MB of a process that has scored, while others have, too.

    Score and memory are columns of one row, so that on a cluster it is the segment that scored which is asked and
    not another one that sat idle. Nothing is returned where the role may not read the server's files.
    """
    try:
        with scored(context, TOGETHER) as texts:
            return {
                "pss_mb": round(median(megabytes(text, "Pss") for text in texts), 1),
                "private_mb": round(median(megabytes(text, *PRIVATE) for text in texts), 1),
            }
    except psycopg2.Error:
        return {}


def planned(context: Context) -> dict[str, int]:
    """Return how many processes PostgreSQL plans for the measured statement with its own settings."""
    database = context.database
    if database.platform.mpp:
        return {"processes": database.platform.segments}
    text = database.format(COUNT, call=context.call(), table=database.table("big"))
    database.run("RESET parallel_setup_cost")
    plan = "\n".join(row[0] for row in database.rows(text))
    database.run(PARALLEL_SMALL)
    found = re.search(r"Workers Planned: (\d+)", plan)
    return {"processes": 1 + int(found.group(1)) if found else 1}
