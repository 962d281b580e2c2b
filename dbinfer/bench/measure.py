"""Measures one case: every method in turns, round after round, then what belongs to SQL alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dbinfer import samples
from dbinfer.bench import baselines, environment, jobs, methods, naive, networks
from dbinfer.bench.database import Database
from dbinfer.bench.methods import Context, Method, Skip
from dbinfer.bench.options import BenchOptions, Case
from dbinfer.bench.profile import full_decode, profile
from dbinfer.bench.report import Result, Row, Sample, results, with_profile
from dbinfer.bench.workers import Job, Workers
from dbinfer.progress import OnProgress, Progress

DIGITS = f"{samples.DIGIT_SIZE}x{samples.DIGIT_SIZE}"
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
    "job": jobs.Job,
    "client": baselines.Client,
    "naive": naive.NaiveUdf,
    "naive_parallel": naive.NaiveParallelUdf,
    "keras": naive.KerasUdf,
    "keras_naive": naive.KerasNaiveUdf,
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
        more.update(naive.naive_steps(context))
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
        return samples.photograph_files(case.size, count)
    files = [data for data, _label in samples.digit_files("heldout")]
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
