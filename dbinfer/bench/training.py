"""What several ranks or devices bring to a training: measured with the data distributed, with all data on each,
and alone.

Ranks share the machine's cores alike: a rank and a process alone have the same number of threads, cores / ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from dbinfer.base.apart import cores
from dbinfer.base.errors import UsageError
from dbinfer.base.report import Report
from dbinfer.train.device import gpus, import_tensorflow
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import make_plan
from dbinfer.train.processes import launch
from dbinfer.train.report import Epoch, read_report


@dataclass(frozen=True)
class Variant:
    """One variant of a training, and how it went.

    Attributes:
        title: for tables and legends.
        history: of its epochs; `images` counts what all its processes saw.
    """

    title: str
    history: list[Epoch]

    @property
    def images_per_second(self) -> float:
        """Of the fastest epoch: the first one also builds graphs, and other programs disturb single epochs."""
        return max(entry.images_per_second for entry in self.history)


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare`.

    Attributes:
        metric: name of the network's metric.
        ranks: how many processes trained together.
        cores: of this machine.
        distributed, everything, alone: the three variants.
        independent: images per second of `ranks` processes that run at once and know nothing of each other.
        figure: the PNG.
    """

    metric: str
    ranks: int
    cores: int
    distributed: Variant
    everything: Variant
    alone: Variant
    independent: float
    figure: Path

    @property
    def variants(self) -> tuple[Variant, Variant, Variant]:
        """In the order of the table."""
        return self.distributed, self.everything, self.alone

    @property
    def speed_up(self) -> float:
        """Images per second with distributed data, against one process with a rank's share of the cores."""
        return self.distributed.images_per_second / self.alone.images_per_second

    @property
    def efficiency(self) -> float:
        """Images per second with distributed data, against as many independent processes run at once."""
        return self.distributed.images_per_second / self.independent

    @property
    def epoch_ratio(self) -> float:
        """How many times longer an epoch takes when each rank reads all data."""
        return _fastest(self.everything) / _fastest(self.distributed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        variants = [
            {"variant": one.title, "epochs": [e.to_dict() for e in one.history]} for one in self.variants
        ]
        numbers = {"speed_up": self.speed_up, "efficiency": self.efficiency, "epoch_ratio": self.epoch_ratio}
        measured = {
            "metric": self.metric,
            "ranks": self.ranks,
            "cores": self.cores,
            "figure": str(self.figure),
        }
        rate = {"independent_images_per_second": self.independent}
        return {**measured, **numbers, **rate, "variants": variants}


def compare(job: TrainJob, say: Callable[[str], None] = lambda text: None) -> Comparison:
    """Train in the three variants, one after the other, and measure independent processes.

    Args:
        job: of the distributed run; `out` gets a folder per variant and comparison.png.
        say: is told what runs now.

    Raises:
        DbinferError: as dbinfer.train.run.
    """
    if job.ranks < 2:
        raise UsageError(f"ranks is {job.ranks}, but a comparison needs at least 2")
    network = make_plan(job).network
    count = cores()
    job = replace(job, threads=max(1, count // job.ranks), keep=0, final="last")
    single = replace(job, ranks=1, hosts="")
    distributed = run_variant(job, "distributed", f"{job.ranks} ranks, data distributed", say)
    everything = run_variant(
        replace(job, sharding="all"), "everything", f"{job.ranks} ranks, each all data", say
    )
    alone = run_variant(single, "alone", "one process", say)
    independent = run_independent(single, job.ranks, say)
    figure = job.folder / "comparison.png"
    result = Comparison(
        network.metrics[0], job.ranks, count, distributed, everything, alone, independent, figure
    )
    write_comparison(result)
    return result


def run_variant(job: TrainJob, name: str, title: str, say: Callable[[str], None]) -> Variant:
    """Train one variant in a folder of its own."""
    say(title)
    job = replace(job, out=str(job.folder / name))
    job.folder.mkdir(parents=True, exist_ok=True)
    launch(job)
    return Variant(title, read_report(job).history)


def run_independent(job: TrainJob, count: int, say: Callable[[str], None]) -> float:
    """Return the images per second of `count` single processes at once: the sum of each one's fastest epoch."""
    # Only speed is asked here, and that of the fastest epoch: few of them tell it
    job = replace(job, epochs=min(job.epochs, 3), val="none")
    names = [f"independent-{number}" for number in range(count)]
    say(f"{count} independent processes at once")
    with ThreadPoolExecutor(count) as pool:
        variants = list(pool.map(lambda name: run_variant(job, name, name, lambda text: None), names))
    return sum(variant.images_per_second for variant in variants)


def _fastest(variant: Variant) -> float:
    return min(entry.seconds for entry in variant.history)


def table(result: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the columns and one row per epoch: seconds, metric in training and in validation of each variant."""
    columns = ["epoch", *(f"{variant.title}\nseconds  train   val" for variant in result.variants)]
    rows = []
    for entries in zip(*(variant.history for variant in result.variants), strict=True):
        cells = [
            f"{e.seconds:7.1f}  {_value(e, result.metric)}  {_value(e, f'val_{result.metric}')}"
            for e in entries
        ]
        rows.append([str(entries[0].epoch), *cells])
    return columns, rows


def _value(entry: Epoch, name: str) -> str:
    return f"{entry.values[name]:.4f}" if name in entry.values else "     -"


def write_comparison(result: Comparison) -> None:
    """Draw the seconds of each epoch, and the validation over the time that training took."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for variant in result.variants:
        seconds = [entry.seconds for entry in variant.history]
        left.plot(
            [entry.epoch for entry in variant.history], seconds, marker="o", markersize=3, label=variant.title
        )
        elapsed = [sum(seconds[: index + 1]) for index in range(len(seconds))]
        values = [entry.values.get(f"val_{result.metric}", float("nan")) for entry in variant.history]
        right.plot(elapsed, values, marker="o", markersize=3, label=variant.title)
    left.set(
        title="seconds per epoch",
        xlabel="epoch",
        ylim=(0, None),
        xticks=range(1, len(result.alone.history) + 1),
    )
    right.set(
        title=f"validation: {result.metric.replace('_', ' ')}", xlabel="seconds of training", ylim=(None, 1)
    )
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{result.ranks} ranks on {result.cores} cores: efficiency {result.efficiency:.2f}")
    FigureCanvasAgg(figure).print_png(result.figure)


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
    write_sweep(report)
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


def write_sweep(report: SweepReport) -> None:
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
    write_devices(report)
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


def write_devices(report: DeviceReport) -> None:
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
