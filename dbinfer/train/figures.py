"""Curves of a run as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbinfer.train.history import Epoch

TRAIN, VALIDATION = "#1f77b4", "#d95f02"


def write_curves(path: Path, history: Sequence[Epoch], metric: str, title: str) -> None:
    """Draw loss, metric and seconds per epoch side by side, each over the epochs; needs matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _curve(left, history, "loss")
    _curve(middle, history, metric)
    numbers = [entry.epoch for entry in history]
    right.bar(numbers, [entry.seconds for entry in history], color=TRAIN, label="training")
    below = [entry.seconds for entry in history]
    right.bar(
        numbers, [entry.val_seconds for entry in history], bottom=below, color=VALIDATION, label="validation"
    )
    _dress(right, "seconds per epoch")
    right.set_ylim(bottom=0)
    figure.suptitle(title)
    temporary = path.with_name(f".{path.name}")
    FigureCanvasAgg(figure).print_png(temporary)
    temporary.replace(path)


def _curve(axes: Any, history: Sequence[Epoch], name: str) -> None:
    for key, label, color in ((name, "training", TRAIN), (f"val_{name}", "validation", VALIDATION)):
        points = [(entry.epoch, entry.values[key]) for entry in history if key in entry.values]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, color=color, label=label)
    _dress(axes, name.replace("_", " "))


def _dress(axes: Any, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, fontsize=10)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
