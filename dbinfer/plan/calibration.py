"""Measures what a plan is made of, fits coefficients to it, and tells how far predictions are off on statements
held out.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.pool import Pool
from statistics import mean, median
from typing import Any

from dbinfer.base.apart import cores
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.base.report import Report
from dbinfer.bench import networks
from dbinfer.bench.database import Database, database
from dbinfer.bench.environment import environment
from dbinfer.bench.networks import ModelFiles
from dbinfer.bench.runs import server_dsn
from dbinfer.bench.sessions import fresh
from dbinfer.images import builtin
from dbinfer.models.ir import import_openvino
from dbinfer.plan.cost import (
    FINISH,
    GROUPS,
    Coefficients,
    Network,
    Picture,
    Sample,
    fit,
    row_seconds,
    row_terms,
    shipped,
    terms,
)
from dbinfer.plan.points import FITTED, HELD, SEGMENTS, STARTS, STEPS, Case, Point, Points, Trials
from dbinfer_udf.model.model import Model
from dbinfer_udf.model.tasks import TASKS

SIDE, CHANNELS, LAYERS = 56, 64, 6
SECONDS = 0.5
SIZE = (500, 375)


def probe() -> dict[str, float]:
    """Return the seconds of decoding a photograph and of the network, with one thread, when nothing disturbs them."""
    from dbinfer_udf.image.decode import decode

    (photograph,) = builtin.photograph_files(SIZE, 1)
    return {"decode": _least(lambda: decode(photograph)), "infer": _least(_network().infer)}


def _least(run: Callable[[], Any]) -> float:
    """Return the least of many calls: other programs make some slower and none faster."""
    run()
    taken: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until or not taken:
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)


def _network() -> Any:
    """Return a request of a few convolutions, the work of most networks for images."""
    import numpy as np

    ov = import_openvino()
    from openvino import opset13 as ops

    random = np.random.default_rng(0)
    image = ops.parameter([1, CHANNELS, SIDE, SIDE], np.float32)
    last = image
    for _ in range(LAYERS):
        weights = random.normal(0, 0.05, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        last = ops.relu(ops.convolution(last, ops.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1]))
    hints = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    graph = ov.Model([ops.result(last)], [image], "probe")
    return ov.Core().compile_model(graph, "CPU", hints).create_infer_request()


NAMES = {"decode": "decode", "preprocess": "fit", "infer": "infer", "postprocess": "finish"}
LEAST_ROWS = 4
Steps = dict[str, float]
# by file: compiling a network takes longer than timing it
kept: dict[str, Model] = {}


@dataclass(frozen=True)
class Job:
    """A network, image files, and for how many seconds to time them."""

    files: ModelFiles
    images: tuple[bytes, ...]
    seconds: float


def timed(job: Job) -> Steps:
    """Return the mean seconds of each step of a row."""
    model = _model(job.files)
    taken: list[dict[str, float]] = []
    profile, until = TASKS["profile"], time.monotonic() + job.seconds
    while time.monotonic() < until or len(taken) < LEAST_ROWS:
        image = job.images[len(taken) % len(job.images)]
        taken.append(json.loads(profile(model, image, None))["microseconds"])
    return {group: mean(row[name] for row in taken) / 1e6 for name, group in NAMES.items()}


def _model(files: ModelFiles) -> Model:
    key = files.entry.path("xml")
    if key not in kept:
        kept[key] = files.compile()
    return kept[key]


class Crew:
    """Processes that time; see `crew`."""

    def __init__(self, pool: Pool, processes: int) -> None:
        self.pool, self.processes = pool, processes

    def steps(self, job: Job) -> tuple[Steps, Steps]:
        """Return the seconds of each step in a process alone, and in one of as many as cores."""
        alone = self.pool.apply(timed, (job,))
        # one job each, because none ends before the others have begun
        together = self.pool.map(timed, [job] * self.processes, chunksize=1)
        return alone, {group: median(one[group] for one in together) for group in alone}


def best(taken: Sequence[tuple[Steps, Steps]]) -> tuple[Steps, Steps]:
    """Return the least of some rounds, alone and together: as of statements, and of the whole row.

    The least of each step would be a row that no round had.
    """
    alone, together = zip(*taken, strict=True)
    return _least_steps(alone), _least_steps(together)


def _least_steps(taken: Sequence[Steps]) -> Steps:
    return min(taken, key=lambda one: sum(one.values()))


@contextmanager
def crew(processes: int) -> Iterator[Crew]:
    """Yield that many processes, and end them."""
    # setsid as in bench.workers: Linux shares the cores between sessions
    with multiprocessing.get_context("spawn").Pool(processes, os.setsid) as pool:
        yield Crew(pool, processes)


STEP_SECONDS = 0.4


@dataclass(frozen=True)
class Timed:
    """The steps of one network on one kind of image.

    Attributes:
        alone, together: seconds of each step, in one process and in as many as cores.
    """

    network: str
    picture: Picture
    alone: Steps
    together: Steps


class StepRounds:
    """Times the steps of all networks and images of STEPS, round by round."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._files = [kind.files() for _, kind in STEPS]
        self._jobs = [
            Job(networks.model_files(name, "f32"), images, STEP_SECONDS)
            for (name, _), images in zip(STEPS, self._files, strict=True)
        ]
        self._taken: list[list[tuple[Steps, Steps]]] = []

    def round(self) -> None:
        """Time each of them once."""
        self._taken.append([self._crew.steps(job) for job in self._jobs])

    def best(self) -> list[Timed]:
        """Return the best round of each."""
        return [
            Timed(name, kind.picture(images), *best(taken))
            for (name, kind), images, taken in zip(
                STEPS, self._files, zip(*self._taken, strict=True), strict=True
            )
        ]


def coefficients(
    timed: Sequence[Timed], known: Mapping[str, Network], fitted: Sequence[Point], start: dict[str, float]
) -> Coefficients:
    """Return what fits the steps, and then the statements of one process.

    Args:
        known: the networks of `timed`.
    """
    seconds: dict[str, float] = {}
    crowded: dict[str, float] = {}
    for group in GROUPS[:-1]:
        # a result costs what it costs in the shortest row, where it counts most
        wholes = [sum(one.alone.values()) for one in timed] if group == FINISH else []
        samples = [(terms(one.picture, known[one.network])[group], one.alone[group]) for one in timed]
        seconds |= fit(samples, wholes)
        # at least one: where others work nothing gets faster
        crowded[group] = max(1.0, round(median(one.together[group] / one.alone[group] for one in timed), 3))
    without = Coefficients({}, seconds, crowded, start, {})
    seconds |= fit(*_rows(without, fitted))
    return replace(without, seconds=seconds, models=dict(known))


def _rows(without: Coefficients, fitted: Sequence[Point]) -> tuple[list[Sample], list[float]]:
    """Return what a row takes beyond its steps, and the whole that its error counts against."""
    samples: list[Sample] = []
    wholes = []
    for point in fitted:
        whole = point.seconds / sum(point.rows)
        rest = whole - row_seconds(without, (point.picture,), point.network)
        samples.append((row_terms(point.picture, point.network), rest))
        wholes.append(whole)
    return samples, wholes


MACHINE = ("cpu", "flags", "cores", "memory_mb", "system", "versions", "server", "date")
ROUNDS = 6
# twice what a running engine serves of a fresh session: dbinfer_udf.engine.isolation.FIRST_ROWS
START_ROWS = 2000


@dataclass(frozen=True)
class PlanningReport(Report):
    """What was measured.

    Attributes:
        environment: on what; coefficients: as their file has them; points: statements, with `predicted` and `error`.
    """

    environment: dict[str, Any]
    coefficients: dict[str, Any]
    points: list[dict[str, Any]]


def run_planning(
    dsn: str | None, given: Coefficients | None, progress: OnProgress, rounds: int = ROUNDS
) -> PlanningReport:
    """Fit coefficients, unless they are given, and measure the statements that they shall predict.

    Args:
        given: coefficients to check; on Greenplum those that are shipped, where none are given.
        rounds: in which trials, steps and statements take turns; the best of each counts.
    """
    with database(server_dsn(dsn, progress)) as opened:
        mpp = opened.platform.mpp
        if given is None and mpp:
            given = shipped()
        cases = SEGMENTS if mpp else HELD if given else (*FITTED, *HELD)
        run = _Run(opened, given, cases, progress)
        with ExitStack() as stack:
            run.rounds(rounds, None if given else StepRounds(stack.enter_context(crew(cores()))))
        points, found = run.points, given or run.fitted(rounds)
        models = {f"{one.name} {one.precision}": one for one in run.known.values()}
        error = errors(found, [point for point in points if point.held])
        found = replace(found, models={**found.models, **models}, error=error)
        about = environment(opened.platform, [])
    return PlanningReport(about, found.to_dict(), [row(point, found) for point in points])


class _Run:
    """What measures on one database.

    Trials, steps and statements take turns, all of them in each round: a minute in which the machine is slow, or fast,
    would otherwise decide on one kind alone, and the others would not follow from it.
    """

    def __init__(
        self, opened: Database, given: Coefficients | None, cases: Sequence[Case], progress: OnProgress
    ) -> None:
        self.opened, self.progress = opened, progress
        progress(Progress("networks and tables"))
        self.trials = Trials([(case.network, case.precision) for case in cases])
        self.trials.round()
        self.statements = Points(opened, given or shipped(), self.trials.best(), cases)

    def rounds(self, rounds: int, steps: StepRounds | None) -> None:
        """Measure all in so many rounds; without steps where nothing is to be fitted."""
        for number in range(rounds):
            self.progress(Progress("trials, steps and statements, in turns", number, rounds))
            self.trials.round()
            if steps:
                steps.round()
            self.statements.round()
        self.known = self.trials.best()
        self.points = self.statements.best(self.known)
        self.timed = steps.best() if steps else []

    def fitted(self, rounds: int) -> Coefficients:
        """Return coefficients with what they were measured on."""
        known = {name: self.known[name, "f32"] for name, _ in STEPS}
        found = coefficients(self.timed, known, [one for one in self.points if not one.held], {})
        about = environment(self.opened.platform, [])
        machine = {**{name: about[name] for name in MACHINE}, "probe": probe()}
        start = {place: self.start(case, found, rounds) for place, case in STARTS.items()}
        return replace(found, machine=machine, start=start)

    def start(self, case: Case, found: Coefficients, rounds: int) -> float:
        """Return the seconds of a fresh session beyond those of its rows, and beyond compiling."""
        network = self.known[case.network, case.precision]
        # one that scores itself may leave its first rows to a running engine, and loads the libraries after them
        rows = 1 if network.in_engine else START_ROWS
        text = self.statements.first(case, rows)

        def first() -> float:
            with fresh(self.opened) as conn, conn.cursor() as cur:
                cur.execute("SET max_parallel_workers_per_gather = 0")
                started = time.perf_counter()
                cur.execute(text)
                cur.fetchall()
                return time.perf_counter() - started

        compiling = 0.0 if network.in_engine else network.compile_milliseconds / 1e3
        one = row_seconds(found, (case.kind.picture(case.kind.files()[:1]),), network)
        return round(max(0.0, min(first() for _ in range(rounds)) - rows * one - compiling), 4)


def errors(found: Coefficients, points: Sequence[Point]) -> dict[str, float]:
    """Return the largest and the median relative error."""
    taken = [abs(point.predicted(found) / point.seconds - 1) for point in points]
    return {"largest": round(max(taken), 3), "median": round(median(taken), 3), "points": len(taken)}


def row(point: Point, found: Coefficients) -> dict[str, Any]:
    """Return a point with what is predicted for it."""
    predicted = point.predicted(found)
    more: Mapping[str, float] = {
        "predicted": round(predicted, 4),
        "error": round(predicted / point.seconds - 1, 3),
    }
    return {**point.to_dict(), **more}
