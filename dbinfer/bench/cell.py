"""Measures one cell: a network at a precision, on images of one size, through one function."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from dbinfer.bench.facts import STEPS, facts
from dbinfer.bench.images import make_images
from dbinfer.bench.local import local_model
from dbinfer.bench.networks import model_files
from dbinfer.bench.options import BenchOptions, Cell
from dbinfer.bench.pool import Job, Pool
from dbinfer.bench.results import Result, results, with_facts
from dbinfer.bench.rounds import Say, rounds
from dbinfer.bench.tables import Bench
from dbinfer.bench.ways import MAKERS, Context, Skip, Way, naive_steps
from dbinfer_udf.tasks import TASKS

DISTINCT = {"28x28": 256, "4000x3000": 6}
DISTINCT_STANDARD = 32
PROBE_SECONDS = 0.5
MIN_ROWS = 64
SMALL_SHARE = 8


def measure_cell(
    made: Bench, pool: Pool, cell: Cell, options: BenchOptions, say: Say
) -> tuple[list[Result], list[str]]:
    """Return the results of a cell, and sentences on ways that could not be measured."""
    say(f"{cell.title}: the network and its images")
    context = ready(made, pool, cell, options)
    ways, skipped = _ways(context, options.ways_of(cell))
    samples, given_up = rounds(ways, options.rounds, say, cell.title)
    say(f"{cell.title}: steps, first row, memory")
    known: dict[str, Any] = facts(context) if "sql" in samples else {}
    if cell.images == "4000x3000" and "sql" in samples:
        known.update(_full_decode(context, samples["sql"][-1].images_per_s))
    if "naive" in samples:
        known.update(naive_steps(context))
    return with_facts(results(cell, context.rows, samples), known), skipped + given_up


def ready(made: Bench, pool: Pool, cell: Cell, options: BenchOptions) -> Context:
    """Return the context of a cell: model deployed, tables filled, pool loaded."""
    files = model_files(cell.network, cell.precision)
    images = tuple(make_images(cell.images, DISTINCT.get(cell.images, DISTINCT_STANDARD)))
    made.deploy(cell, files)
    rate = _rate(pool, Job(files, cell.function, images))
    wanted = options.rows or max(MIN_ROWS, round(rate * options.measured_seconds))
    made.images(images)
    made.fill("first", 8, len(images))
    small = made.fill("small", max(16, wanted // SMALL_SHARE), len(images))
    rows = made.fill("big", max(wanted, small + 1), len(images))
    return Context(made, cell, files, pool, images, rows, small, options.measured_seconds, options.tensorflow)


def _rate(pool: Pool, job: Job) -> float:
    """Return images per second of the bare loop, roughly."""
    pool.load(job)
    count = pool.processes
    while True:
        seconds = pool.loop(count)
        if seconds > PROBE_SECONDS:
            return count / seconds
        count *= 4


def _ways(context: Context, names: list[str]) -> tuple[dict[str, Way], list[str]]:
    ways, skipped = {}, []
    for name in names:
        try:
            ways[name] = MAKERS[name](context)
        except Skip as err:
            skipped.append(err.message)
    return ways, skipped


def _full_decode(context: Context, sql_rate: float) -> dict[str, float]:
    """Return rate and steps of the bare loop with full decode and resize, and ours in SQL against it."""
    job = Job(context.files, context.cell.function, context.images, exact=True)
    context.pool.load(job)
    count = max(context.pool.processes * 4, context.rows // 8)
    rate = count / context.pool.loop(count)
    model = local_model(context.files, exact=True)
    taken = [json.loads(TASKS["profile"](model, img, None))["microseconds"] for img in context.images]
    steps = {f"full_{step}_us": round(median(t[step] for t in taken), 1) for step in STEPS}
    return {
        "full_decode_images_per_s": round(rate, 2),
        "ratio_full_decode": round(sql_rate / rate, 3),
        **steps,
    }
