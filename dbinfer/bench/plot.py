"""The report as a picture: images per second of every method, one panel for each case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbinfer.bench.report import Row, case_name
from dbinfer.bench.tables import number
from dbinfer.errors import DataError
from dbinfer.pins import install

COLORS = {
    "sql": "#1f6f8b",
    "batch": "#144a5c",
    "ctas": "#5aa9c4",
    "job": "#3d8fae",
    "bare": "#8a8a8a",
    "benchmark_app": "#c9c9c9",
    "client": "#e0a458",
    "naive": "#b5484b",
    "naive_parallel": "#d17f81",
    "keras": "#c98b8d",
    "keras_naive": "#8f2f33",
    "spark": "#8d6a9f",
}
COLUMNS = 3


def pyplot() -> Any:
    """Return matplotlib.pyplot, drawing into files."""
    try:
        import matplotlib
    except ImportError as err:
        raise DataError("plotting needs matplotlib, which is not installed", install("bench")) from err
    # A host that measures may have no display
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _panels(count: int) -> tuple[Any, list[Any]]:
    plt = pyplot()
    columns = min(COLUMNS, count)
    lines = -(-count // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(5 * columns, 2.8 * lines), squeeze=False)
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.axis("off")
    return figure, flat


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write the picture of a report's results (.png, .svg, .pdf)."""
    cases = list(dict.fromkeys(case_name(row) for row in rows))
    if not cases:
        raise DataError("there are no results to plot")
    figure, axes = _panels(len(cases))
    for axis, case in zip(axes, cases, strict=False):
        mine = [row for row in rows if case_name(row) == case]
        _bars(axis, case, mine)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _bars(axis: Any, title: str, rows: Sequence[Row]) -> None:
    names, rates = [row["method"] for row in rows], [row["images_per_s"] for row in rows]
    bars = axis.barh(names, rates, color=[COLORS.get(name, "#777777") for name in names])
    axis.bar_label(bars, [number(rate) for rate in rates], padding=3, fontsize=8)
    axis.set_title(title, fontsize=9)
    axis.set_xlim(0, max(rates) * 1.2)
    axis.invert_yaxis()
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def plot_scaling(scaling: dict[str, Sequence[Row]], path: Path) -> None:
    """Write the picture of how cost grows: one panel for each series, the first column across, images/s up."""
    figure, axes = _panels(len(scaling))
    for axis, (title, rows) in zip(axes, scaling.items(), strict=False):
        across = next(iter(rows[0]))
        axis.plot([row[across] for row in rows], [row["images/s"] for row in rows], "o-", color=COLORS["sql"])
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(across, fontsize=8)
        axis.set_ylabel("images/s", fontsize=8)
        if len(rows) > 1 and rows[-1][across] > 50 * max(rows[0][across], 1e-9):
            axis.set_xscale("log")
        rates = [row["images/s"] for row in rows]
        if max(rates) > 50 * min(rates):
            axis.set_yscale("log")
        else:
            axis.set_ylim(0, max(rates) * 1.1)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
