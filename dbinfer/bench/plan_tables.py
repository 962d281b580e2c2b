"""Points of a plan for people: a table, the same as Markdown, and a picture of what was predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dbinfer.bench.plot import COLORS, pyplot
from dbinfer.bench.report import Row
from dbinfer.bench.tables import environment_lines, markdown_table, number

COLUMNS = [
    "network",
    "images",
    "server",
    "processes",
    "rows",
    "measured s",
    "predicted s",
    "error",
    "used for",
]


def plan_table(points: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: one line for each statement."""
    return COLUMNS, [_cells(point) for point in points]


def _cells(point: Row) -> list[str]:
    network = point["network"]
    return [
        f"{network['name']} {network['precision']}",
        point["kind"],
        point["server"],
        processes(point),
        number(round(sum(point["rows"]))),
        number(point["seconds"]),
        number(point["predicted"]),
        f"{point['error']:+.1%}",
        "check" if point["held"] else "fit",
    ]


def processes(point: Row) -> str:
    """Return `2`, or `3 (90% on one)` where one has far more rows than the others."""
    rows, cores = point["rows"], point["cores"]
    share = max(rows) / sum(rows)
    skewed = f", {share:.0%} of the rows in one" if share > 1.2 / len(rows) else ""
    return f"{len(rows)} on {cores} cores{skewed}"


def plan_markdown(report: Row) -> str:
    """Return the points as Markdown."""
    facts = "\n".join(f"- {line}" for line in environment_lines(report["environment"]))
    return f"{facts}\n\n{markdown_table(*plan_table(report['points']))}\n"


def plot_plan(points: Sequence[Row], path: Path) -> None:
    """Write the picture: milliseconds a row, predicted across and measured up."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 5))
    for held, label, color in ((False, "used for the fit", "#c9c9c9"), (True, "held out", COLORS["sql"])):
        mine = [point for point in points if point["held"] == held]
        axis.plot(*_milliseconds(mine), "o", color=color, label=label)
    all_of_them = [value for taken in _milliseconds(points) for value in taken]
    ends = [min(all_of_them), max(all_of_them)]
    axis.plot(ends, ends, "-", color="#8a8a8a", linewidth=1)
    axis.fill_between(ends, [e * 0.85 for e in ends], [e * 1.15 for e in ends], color="#8a8a8a", alpha=0.15)
    axis.set(xscale="log", yscale="log", xlabel="predicted ms a row", ylabel="measured ms a row")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _milliseconds(points: Sequence[Row]) -> list[list[float]]:
    return [[1e3 * point[name] / sum(point["rows"]) for point in points] for name in ("predicted", "seconds")]
