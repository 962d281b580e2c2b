"""Measures one case: every method in turns, round after round, then what belongs to SQL alone."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import psycopg2

from dbinfer.base.progress import OnProgress, Progress
from dbinfer.bench import baselines, environment, methods, networks
from dbinfer.bench.database import PARALLEL_SMALL, Database
from dbinfer.bench.methods import Context, Method, Skip
from dbinfer.bench.report import BenchOptions, Case, Result, Row, Sample, results, with_profile
from dbinfer.bench.sessions import (
    PRIVATE,
    TOGETHER,
    first_row_ms,
    megabytes,
    scored,
    stop_engine,
    warm_engine,
)
from dbinfer.bench.workers import Job, Workers
from dbinfer.database.sql import read
from dbinfer.images import builtin
from dbinfer_udf.model.tasks import TASKS

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


DIGITS = f"{builtin.DIGIT_SIZE}x{builtin.DIGIT_SIZE}"
DISTINCT = {DIGITS: 256, "4000x3000": 6}
DISTINCT_STANDARD = 32
PROBE_SECONDS = 0.5
MIN_ROWS = 64
SMALL_SHARE = 8

METHODS: dict[str, Callable[[Context], Method]] = {
    "benchmark_app": baselines.BenchmarkApp,
    "bare": baselines.Bare,
    "sql": methods.Sql,
    "batch": methods.Batch,
    "ctas": methods.Ctas,
    "job": methods.Job,
    "client": baselines.Client,
    "naive": baselines.NaiveUdf,
    "naive_parallel": baselines.NaiveParallelUdf,
    "keras": baselines.KerasUdf,
    "keras_naive": baselines.KerasNaiveUdf,
    "spark": baselines.Spark,
}


@dataclass
class Rounds:
    """Samples of every method, round by round.

    Attributes:
        loads: the share of the machine that others used before each round.
        notes: sentences on methods that had to be given up.
    """

    samples: dict[str, list[Sample]]
    loads: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def measure_case(
    database: Database, workers: Workers, case: Case, options: BenchOptions, progress: OnProgress
) -> tuple[list[Result], list[str]]:
    """Return the results of a case, and sentences on what could not be measured, or not well."""
    progress(Progress(f"{case.title}: network and images"))
    context = ready(database, workers, case, options)
    made, skipped = _methods(context, options.methods_of(case))
    taken = measure_rounds(made, options.rounds, progress, case.title)
    progress(Progress(f"{case.title}: steps, first row, memory"))
    notes = [f"{case.title}: {note}" for note in environment.load_note(taken.loads)]
    more = {**_more(context, taken.samples), "other_load": max(taken.loads, default=0.0)}
    measured = with_profile(results(case, context.rows, taken.samples), more)
    return measured, skipped + taken.notes + notes


def _more(context: Context, taken: Mapping[str, list[Sample]]) -> Row:
    more: Row = profile(context) if "sql" in taken else {}
    if context.case.images == "4000x3000" and "sql" in taken:
        more.update(full_decode(context, taken["sql"][-1].images_per_s))
    if "naive" in taken:
        more.update(baselines.naive_steps(context))
    return more


def ready(database: Database, workers: Workers, case: Case, options: BenchOptions) -> Context:
    """Return the context of a case: model deployed, tables filled, workers loaded."""
    files = networks.model_files(case.network, case.precision)
    images = tuple(image_files(case))
    database.deploy(case, files)
    rate = _rate(workers, Job(files, case.function, images))
    wanted = options.rows or max(MIN_ROWS, round(rate * options.measured_seconds))
    database.images(images)
    database.fill("first", 8, len(images))
    small = database.fill("small", max(16, wanted // SMALL_SHARE), len(images))
    # Larger than the small table: the rate is a difference divided by a difference
    rows = database.fill("big", max(wanted, small + 1), len(images))
    return Context(
        database, case, files, workers, images, rows, small, options.measured_seconds, options.tensorflow
    )


def image_files(case: Case) -> list[bytes]:
    """Return the files of a case: held-out digits, in turns, as PNG for 28x28, else photographs as JPEG."""
    count = DISTINCT.get(case.images, DISTINCT_STANDARD)
    if case.images != DIGITS:
        return builtin.photograph_files(case.size, count)
    files = [data for data, _label in builtin.digit_files("heldout")]
    return list(itertools.islice(itertools.cycle(files), count))


def _rate(workers: Workers, job: Job) -> float:
    """Return images per second of the bare loop, roughly."""
    workers.load(job)
    count = workers.processes
    # Networks differ a thousandfold in speed: the count grows until a loop takes long enough to be timed
    while True:
        seconds = workers.loop(count)
        if seconds > PROBE_SECONDS:
            return count / seconds
        count *= 4


def _methods(context: Context, names: list[str]) -> tuple[dict[str, Method], list[str]]:
    made, skipped = {}, []
    for name in names:
        try:
            made[name] = METHODS[name](context)
        except Skip as err:
            skipped.append(err.message)
    return made, skipped


def measure_rounds(methods: Mapping[str, Method], count: int, progress: OnProgress, title: str) -> Rounds:
    """Return the samples of each method; a method that raises Skip is given up.

    Methods are measured in turns, so that what disturbs the machine disturbs all of them. Every round waits for a
    quiet machine, and starts with another method, so that none always follows the same one.
    """
    taken = Rounds({name: [] for name in methods})
    for turn in range(count):
        names = list(taken.samples)
        if not names:
            break
        taken.loads.append(environment.other_load())
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            progress(Progress(f"{title}: {name}, round {turn + 1} of {count}"))
            try:
                taken.samples[name].append(methods[name].measure())
            except Skip as err:
                taken.notes.append(err.message)
                del taken.samples[name]
    return taken
