"""How large a network, a batch or a group must be before training together pays: one table and one figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from dbinfer.errors import UsageError
from dbinfer.machine import cores
from dbinfer.report import Report
from dbinfer.train.compare import run_independent, run_variant
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import make_plan

SWEEPS = {"width": (2, 4, 8, 16, 32), "batch": (2, 4, 8, 16, 32), "ranks": ()}
GOOD = 0.9  # efficiency from which on training together pays
WIDTH = "base_width"  # the option of a network that makes all its layers wider


@dataclass(frozen=True)
class Point:
    """One size.

    Attributes:
        value: the width, the images per step and rank, or the ranks.
        ranks: how many trained together.
        together: their images per second.
        independent: images per second of as many processes that know nothing of each other, run at once.
    """

    value: int
    ranks: int
    together: float
    independent: float

    @property
    def efficiency(self) -> float:
        """The share of the independent processes' speed that is left."""
        return self.together / self.independent

    @property
    def exchange(self) -> float:
        """The share of a step that the exchange takes."""
        return max(0.0, 1 - self.efficiency)


@dataclass(frozen=True)
class SweepReport(Report):
    """The outcome of a sweep.

    Attributes:
        sweep: width, batch or ranks.
        points: by rising value.
        figure: the PNG.
    """

    sweep: str
    points: list[Point]
    figure: Path
    derived: ClassVar[tuple[str, ...]] = ("smallest",)

    @property
    def smallest(self) -> int | None:
        """The smallest value from which on every efficiency reaches 0.9; None where none does."""
        found = None
        for point in reversed(self.points):
            if point.efficiency < GOOD:
                break
            found = point.value
        return found

    def rows(self) -> list[list[str]]:
        """Return the table's rows: value, ranks, images per second together and apart, efficiency, exchange."""
        return [
            [
                str(one.value),
                str(one.ranks),
                f"{one.together:.1f}",
                f"{one.independent:.1f}",
                f"{one.efficiency:.2f}",
                f"{one.exchange:.2f}",
            ]
            for one in self.points
        ]


def sweep(
    job: TrainJob, kind: str, values: Sequence[int] = (), say: Callable[[str], None] = lambda text: None
) -> SweepReport:
    """Train at each value with ranks that exchange gradients, and with as many that do not.

    Args:
        job: what is trained; `out` gets a folder per value and sweep.png.
        kind: width, batch or ranks.
        values: what is tried; else a row of usual ones, for ranks all from 2 to the number of cores.
        say: is told what runs now.

    Raises:
        UsageError: there is no such sweep, or the network has no width.
    """
    if kind not in SWEEPS:
        raise UsageError(f"sweep is {kind!r}, but must be one of {', '.join(SWEEPS)}")
    chosen = sorted(values or SWEEPS[kind] or range(2, max(2, cores()) + 1))
    jobs = [_sized(job, kind, value) for value in chosen]
    for one in jobs:
        make_plan(one).close()  # what cannot be trained is said before anything runs
    points = [_measure(one, kind, value, say) for one, value in zip(jobs, chosen, strict=True)]
    report = SweepReport(kind, points, job.folder / "sweep.png")
    write_figure(report)
    return report


def _sized(job: TrainJob, kind: str, value: int) -> TrainJob:
    if kind == "ranks":
        job = replace(job, ranks=value)
    elif kind == "batch":
        job = replace(job, batch=value)
    else:
        job = replace(job, network_options={**job.network_options, WIDTH: value})
    if job.ranks < 2:
        raise UsageError(f"ranks is {job.ranks}, but a sweep compares at least 2 with as many apart")
    threads = max(1, cores() // job.ranks)
    return replace(
        job, out=str(job.folder / f"{kind}-{value}"), threads=threads, keep=0, final="last", val="none"
    )


def _measure(job: TrainJob, kind: str, value: int, say: Callable[[str], None]) -> Point:
    together = run_variant(job, "together", f"{kind} {value}: {job.ranks} ranks", say)
    independent = run_independent(replace(job, ranks=1, hosts=""), job.ranks, say)
    return Point(value, job.ranks, together.images_per_second, independent)


def write_figure(report: SweepReport) -> None:
    """Draw images per second together and apart, and the efficiency with the line of 0.9, over the values."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    values = [one.value for one in report.points]
    left.plot(values, [one.together for one in report.points], marker="o", label="together")
    left.plot(values, [one.independent for one in report.points], marker="o", label="apart, at once")
    left.set(title="images per second", xlabel=report.sweep, ylim=(0, None))
    left.legend(frameon=False, fontsize=8)
    right.plot(values, [one.efficiency for one in report.points], marker="o")
    right.axhline(GOOD, color="#bbbbbb")
    right.set(title="efficiency", xlabel=report.sweep, ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.set_xticks(values)
    FigureCanvasAgg(figure).print_png(report.figure)
