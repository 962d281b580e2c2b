"""The engine beside in-process scoring, in one run: speed, first row, memory, cancel, and a row beside a long scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from dbinfer.bench import sessions
from dbinfer.bench.benchmark import server_dsn
from dbinfer.bench.database import Database, database
from dbinfer.bench.environment import environment, load_note, other_load
from dbinfer.bench.measure import ready
from dbinfer.bench.methods import Context, Sql
from dbinfer.bench.options import BenchOptions, Case
from dbinfer.bench.report import IsolationReport, Row, Sample
from dbinfer.bench.workers import Workers, workers
from dbinfer.machine import cores
from dbinfer.progress import OnProgress, Progress

RESNET = Case("resnet50", "f32", "500x375", "predict")
# (case, isolation of the engine's side, least quotient of the rates of whole statements)
SPEED = (
    (RESNET, "always", 0.97),
    (Case("unet", "f32", "500x375", "segment"), "always", 0.97),
    (Case("mobilenet_v2", "f32", "500x375", "classify"), "always", 0.95),
    (Case("digits", "f32", "28x28", "classify"), "auto", 0.97),
)
START_SHARE, FIRST_ROW_MS, FURTHER_MB, TIMES_LESS, CANCEL_S, BESIDE_SCAN = 0.25, 60.0, 10.0, 8.0, 0.1, 3.0


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: how the model's rows are scored."""

    name: str
    isolation: str


def run_isolation(options: BenchOptions, dsn: str | None, progress: OnProgress) -> IsolationReport:
    """Measure all lines; see dbinfer.bench.bench_isolation."""
    with database(server_dsn(dsn, progress), options.keep) as opened, workers(cores()) as processes:
        comparison = _Comparison(opened, processes, options, progress)
        rows = comparison.speed() + comparison.sessions()
        return IsolationReport(environment(opened.platform, load_note(comparison.loads)), rows)


class _Comparison:
    """All lines, on one database."""

    def __init__(
        self, database: Database, workers: Workers, options: BenchOptions, progress: OnProgress
    ) -> None:
        self.database, self.workers, self.options, self.progress = database, workers, options, progress
        self.loads: list[float] = []

    def _ready(self, case: Case) -> Context:
        self.progress(Progress(f"{case.title}: network and images"))
        context = ready(self.database, self.workers, case, self.options)
        self.loads.append(other_load())
        return context

    def isolate(self, context: Context, isolation: str) -> None:
        """Say for the model of a case where its rows are scored from now on."""
        self.database.rows("SELECT dbinfer.set_isolation(%s, %s)", (context.case.model, isolation))

    def speed(self) -> list[Row]:
        """Return a line for the whole statements of each network, and one for what comes before their first row."""
        lines = []
        for case, isolation, limit in SPEED:
            context = self._ready(case)
            sides = [Side("engine", isolation), Side("in-process", "never")]
            taken = self._rounds(context, sides)
            whole = [_quotient(a.whole, b.whole) for a, b in zip(*taken.values(), strict=True)]
            title = f"{case.network} {case.function}, {isolation}: images/s of whole statements"
            lines.append(
                line(title, _wholes(taken["engine"]), _wholes(taken["in-process"]), median(whole), limit)
            )
            # in-process, the same code starts on both sides
            if isolation == "always":
                lines.append(_start_line(case, taken))
        return lines

    def _rounds(self, context: Context, sides: list[Side]) -> dict[str, list[Sample]]:
        taken: dict[str, list[Sample]] = {side.name: [] for side in sides}
        for turn in range(self.options.rounds):
            # by turns, so that neither side always follows the other
            for side in sides if turn % 2 == 0 else sides[::-1]:
                self.progress(Progress(f"{context.case.title}: {side.name}, round {turn + 1}"))
                self.isolate(context, side.isolation)
                taken[side.name].append(Sql(context).measure())
        return taken

    def sessions(self) -> list[Row]:
        """Return the lines on single rows and on sessions, all with ResNet-50, and the one on cancels."""
        context = self._ready(RESNET)
        # what the networks before have left there is no part of these lines
        sessions.stop_engine(self.database)
        steps: tuple[tuple[str, Callable[[Context], float], bool, float], ...] = (
            ("first row of a fresh session (ms)", sessions.first_row_ms, False, FIRST_ROW_MS),
            ("private memory of a further session (MB)", sessions.further_mb, False, FURTHER_MB),
            (f"{sessions.MANY} sessions, all memory of processes (MB)", sessions.many_mb, True, TIMES_LESS),
            ("a row beside a long scan: p95 / idle p95", sessions.beside_a_scan, False, BESIDE_SCAN),
        )
        lines = []
        for title, measure, times_less, limit in steps:
            values = {}
            for isolation in ("always", "never"):
                self.progress(Progress(f"{title}, {isolation}"))
                self.isolate(context, isolation)
                values[isolation] = measure(context)
            value = values["never"] / max(values["always"], 1e-9) if times_less else values["always"]
            name = f"{title}: times less" if times_less else title
            lines.append(line(name, values["always"], values["never"], value, limit, at_most=not times_less))
        return [*lines, self._cancel()]

    def _cancel(self) -> Row:
        self.progress(Progress("cancel while a network runs"))
        name, seconds = sessions.cancel_seconds(self.database)
        self.database.models.discard(name)
        return line("cancel while a network runs (s)", seconds, None, seconds, CANCEL_S, at_most=True)


def line(
    what: str, engine: float | None, inside: float | None, value: float, limit: float, at_most: bool = False
) -> Row:
    """Return one line of the table: both sides, the value that counts, its limit and the verdict."""
    met = value <= limit if at_most else value >= limit
    verdict = "ok" if met else "above" if at_most else "below"
    row: Row = {"measure": what, "engine": engine, "in-process": inside}
    return {**row, "value": round(value, 3), "limit": limit, "verdict": verdict}


def _start_line(case: Case, taken: dict[str, list[Sample]]) -> Row:
    engine, inside = (median((s.start or 0.0) * 1000 for s in taken[name]) for name in taken)
    what = f"{case.network}, before the first row (start ms): share of in-process"
    return line(
        what, round(engine, 1), round(inside, 1), _quotient(engine, inside), START_SHARE, at_most=True
    )


def _wholes(samples: list[Sample]) -> float:
    return float(f"{median(sample.whole or 0.0 for sample in samples):.4g}")


def _quotient(a: Any, b: Any) -> float:
    return float(a or 0.0) / max(float(b or 0.0), 1e-9)
