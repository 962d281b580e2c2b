"""What several ranks bring: the same network trained with the data distributed, with all data on each rank, and alone.

The machine's cores are shared alike: a rank and a process alone have the same number of threads, cores / ranks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbinfer.errors import UsageError
from dbinfer.train.config import TrainConfig
from dbinfer.train.history import Epoch
from dbinfer.train.launch import launch
from dbinfer.train.plan import make_plan
from dbinfer.train.result import read_result


@dataclass(frozen=True)
class Way:
    """One way to train, and how it went.

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
        distributed, everything, alone: the three ways.
        independent: images per second of `ranks` processes that run at once and know nothing of each other.
        figure: the PNG.
    """

    metric: str
    ranks: int
    cores: int
    distributed: Way
    everything: Way
    alone: Way
    independent: float
    figure: Path

    @property
    def ways(self) -> tuple[Way, Way, Way]:
        """The three ways in the order of the table."""
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
        ways = [{"way": way.title, "epochs": [entry.to_dict() for entry in way.history]} for way in self.ways]
        numbers = {"speed_up": self.speed_up, "efficiency": self.efficiency, "epoch_ratio": self.epoch_ratio}
        facts = {"metric": self.metric, "ranks": self.ranks, "cores": self.cores, "figure": str(self.figure)}
        return {**facts, **numbers, "independent_images_per_second": self.independent, "ways": ways}


def compare(config: TrainConfig, say: Callable[[str], None] = lambda text: None) -> Comparison:
    """Train in the three ways, one after the other, and measure independent processes.

    Args:
        config: of the distributed run; `out` gets a folder per way and comparison.png.
        say: is told what runs now.

    Raises:
        DbinferError: as dbinfer.train.run.
    """
    if config.ranks < 2:
        raise UsageError(f"ranks is {config.ranks}, but a comparison needs at least 2.")
    network = make_plan(config).network
    cores = len(os.sched_getaffinity(0))
    config = replace(config, threads=max(1, cores // config.ranks), keep=0, final="last")
    single = replace(config, ranks=1, hosts="")
    distributed = _run(config, "distributed", f"{config.ranks} ranks, data distributed", say)
    everything = _run(
        replace(config, sharding="all"), "everything", f"{config.ranks} ranks, each all data", say
    )
    alone = _run(single, "alone", "one process", say)
    independent = _independent(single, config.ranks, say)
    figure = config.folder / "comparison.png"
    result = Comparison(
        network.metrics[0], config.ranks, cores, distributed, everything, alone, independent, figure
    )
    write_figure(result)
    return result


def _run(config: TrainConfig, name: str, title: str, say: Callable[[str], None]) -> Way:
    say(title)
    config = replace(config, out=str(config.folder / name))
    config.folder.mkdir(parents=True, exist_ok=True)
    launch(config)
    return Way(title, read_result(config).history)


def _independent(config: TrainConfig, count: int, say: Callable[[str], None]) -> float:
    """Return the images per second of `count` single processes at once: the sum of each one's fastest epoch."""
    config = replace(config, epochs=min(config.epochs, 3), val="none")
    names = [f"independent-{number}" for number in range(count)]
    say(f"{count} independent processes at once")
    with ThreadPoolExecutor(count) as pool:
        ways = list(pool.map(lambda name: _run(config, name, name, lambda text: None), names))
    return sum(way.images_per_second for way in ways)


def _fastest(way: Way) -> float:
    return min(entry.seconds for entry in way.history)


def table(result: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the columns and one row per epoch: seconds, metric in training and in validation of each way."""
    columns = ["epoch", *(f"{way.title}\nseconds  train   val" for way in result.ways)]
    rows = []
    for entries in zip(*(way.history for way in result.ways), strict=True):
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
    for way in result.ways:
        seconds = [entry.seconds for entry in way.history]
        left.plot([entry.epoch for entry in way.history], seconds, marker="o", markersize=3, label=way.title)
        elapsed = [sum(seconds[: place + 1]) for place in range(len(seconds))]
        values = [entry.values.get(f"val_{result.metric}", float("nan")) for entry in way.history]
        right.plot(elapsed, values, marker="o", markersize=3, label=way.title)
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
