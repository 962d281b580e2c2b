"""Measures what a plan is made of, and how far its predictions are off on statements that it was not fitted to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from dbinfer.bench.benchmark import server_dsn
from dbinfer.bench.database import Database, database
from dbinfer.bench.environment import environment
from dbinfer.bench.fitting import StepRounds, coefficients
from dbinfer.bench.plan_cases import FITTED, HELD, SEGMENTS, STARTS, STEPS
from dbinfer.bench.point import Case, Point
from dbinfer.bench.points import Points, Trials
from dbinfer.bench.probe import probe
from dbinfer.bench.sessions import fresh
from dbinfer.bench.steps import crew
from dbinfer.cost import Coefficients, row_seconds, shipped
from dbinfer.machine import cores
from dbinfer.progress import OnProgress, Progress
from dbinfer.report import Report

MACHINE = ("cpu", "flags", "cores", "memory_mb", "system", "versions", "server", "date")
ROUNDS = 6
# twice what a running engine serves of a fresh session: dbinfer_udf.isolation.FIRST_ROWS
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
