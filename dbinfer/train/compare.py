"""What several ranks bring: the same network trained with the data distributed, with all data on each rank, and alone.

The machine's cores are shared alike: a rank and a process alone have the same number of threads, cores / ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbinfer.errors import UsageError
from dbinfer.machine import cores
from dbinfer.train.history import Epoch
from dbinfer.train.launch import launch
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import make_plan
from dbinfer.train.report import read_report


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
    write_figure(result)
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


def write_figure(result: Comparison) -> None:
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
