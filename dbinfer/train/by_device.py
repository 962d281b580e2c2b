"""One device against two, cores against GPUs: seconds of an epoch, of the test and of all, as a table and as bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from dbinfer.errors import UsageError
from dbinfer.machine import cores
from dbinfer.report import Report
from dbinfer.train.compare import run_independent, run_variant
from dbinfer.train.device import gpus
from dbinfer.train.history import Epoch
from dbinfer.train.libraries import import_tensorflow
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import make_plan

KINDS = ("cpu", "gpu")


@dataclass(frozen=True)
class Way:
    """One kind of device, so many of them.

    Attributes:
        device: cpu or gpu.
        ranks: processes, each with a device, or with its share of the cores.
        history: of its epochs.
        independent: images per second of as many processes that know nothing of each other; 0 with one.
    """

    device: str
    ranks: int
    history: list[Epoch]
    independent: float = 0.0

    @property
    def epoch_seconds(self) -> float:
        """The mean epoch, without the first one, which builds graphs."""
        counted = self.history[1:] or self.history
        return sum(entry.seconds for entry in counted) / len(counted)

    @property
    def test_seconds(self) -> float:
        """The mean test, again without the first one."""
        counted = self.history[1:] or self.history
        return sum(entry.val_seconds for entry in counted) / len(counted)

    @property
    def total_seconds(self) -> float:
        """All epochs and tests."""
        return sum(entry.seconds + entry.val_seconds for entry in self.history)

    @property
    def images_per_second(self) -> float:
        """Of the fastest epoch."""
        return max(entry.images_per_second for entry in self.history)

    @property
    def exchange(self) -> float | None:
        """The share of a step that the exchange takes; None with one process."""
        if not self.independent:
            return None
        return max(0.0, 1 - self.images_per_second / self.independent)

    @property
    def title(self) -> str:
        """For tables and legends."""
        return f"{self.ranks} x {self.device}"


@dataclass(frozen=True)
class DeviceReport(Report):
    """The outcome of a comparison of devices.

    Attributes:
        metric: name of the network's metric.
        ways: in the order of the table.
        figure: the PNG.
    """

    metric: str
    ways: list[Way]
    figure: Path
    derived: ClassVar[tuple[str, ...]] = ("exchanges",)

    @property
    def exchanges(self) -> dict[str, float | None]:
        """The share of a step that the exchange takes, by way."""
        return {way.title: way.exchange for way in self.ways}

    def rows(self) -> list[list[str]]:
        """Return the table's rows: way, mean epoch, test, total, images per second, exchange, best metric."""
        return [
            [
                way.title,
                *(f"{seconds:.2f}" for seconds in (way.epoch_seconds, way.test_seconds, way.total_seconds)),
                f"{way.images_per_second:.1f}",
                "-" if way.exchange is None else f"{way.exchange:.2f}",
                f"{max(entry.values.get(f'val_{self.metric}', 0.0) for entry in way.history):.4f}",
            ]
            for way in self.ways
        ]


def compare_devices(
    job: TrainJob, kinds: Sequence[str], say: Callable[[str], None] = lambda text: None
) -> DeviceReport:
    """Train on one device of each kind and on `job.ranks` of them, and on as many that do not exchange anything.

    Args:
        job: what is trained; `out` gets a folder per way and devices.png.
        kinds: cpu, gpu or both.
        say: is told what runs now.

    Raises:
        UsageError: there is no such kind, or only one process.
        TrainError: there is no GPU.
    """
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong or not kinds:
        raise UsageError(f"devices is {','.join(kinds)!r}, but must be some of {', '.join(KINDS)}")
    if job.ranks < 2:
        raise UsageError(f"ranks is {job.ranks}, but devices are compared one against at least 2")
    plan = make_plan(job)  # what cannot be trained is said before anything runs
    plan.close()
    import_tensorflow()
    for kind in kinds:
        gpus(kind)
    ways = [way for kind in kinds for way in _ways(replace(job, device=kind, keep=0, final="last"), say)]
    report = DeviceReport(plan.network.metrics[0], ways, job.folder / "devices.png")
    write_figure(report)
    return report


def _ways(job: TrainJob, say: Callable[[str], None]) -> list[Way]:
    # A rank has the same cores whether it trains alone or with others; a GPU has them to be fed
    job = replace(job, out=str(job.folder / job.device), threads=max(1, cores() // job.ranks))
    single = replace(job, ranks=1, hosts="")
    alone = run_variant(single, "one", f"1 x {job.device}", say)
    together = run_variant(job, "together", f"{job.ranks} x {job.device}", say)
    independent = run_independent(single, job.ranks, say)
    return [
        Way(job.device, 1, alone.history),
        Way(job.device, job.ranks, together.history, independent),
    ]


def write_figure(report: DeviceReport) -> None:
    """Draw mean epoch, test and total time of each way as bars."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    parts: list[tuple[str, Callable[[Way], float]]] = [
        ("mean epoch", lambda way: way.epoch_seconds),
        ("test", lambda way: way.test_seconds),
        ("total", lambda way: way.total_seconds),
    ]
    for axes, (title, seconds) in zip(figure.subplots(1, len(parts)), parts, strict=True):
        bars: Any = axes.bar([way.title for way in report.ways], [seconds(way) for way in report.ways])
        axes.bar_label(bars, fmt="%.2f", fontsize=8)
        axes.set(title=f"{title}, seconds")
    FigureCanvasAgg(figure).print_png(report.figure)
