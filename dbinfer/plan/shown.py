"""A plan's points for people (tables, Markdown, a picture), and what is shipped of reports of `dbinfer bench plan`.

python -m dbinfer.plan.shown POSTGRESQL.json [GREENPLUM.json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbinfer.bench.report import Row
from dbinfer.bench.tables import COLORS, environment_lines, markdown_table, number, put_between, pyplot
from dbinfer.plan.calibration import errors, row
from dbinfer.plan.cost import POINTS, SHIPPED, Coefficients, from_dict, lacking, write
from dbinfer.plan.points import Point, point_of

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


DOCS = Path("docs")


def ship(reports: Sequence[dict[str, Any]], docs: Path = DOCS) -> None:
    """Write the files; the first report is the one that was fitted."""
    points = measured(reports)
    found = from_dict(reports[0]["coefficients"], "the report")
    found = replace(found, error=errors(found, [point for point in points if point.held]))
    rows = [row(point, found) for point in points]
    write(SHIPPED, found)
    POINTS.write_text("[\n" + ",\n".join(json.dumps(each) for each in rows) + "\n]\n", encoding="utf-8")
    page = docs / "planning.md"
    table = plan_markdown({"environment": reports[0]["environment"], "points": rows})
    text = put_between(page.read_text(encoding="utf-8"), "plan", table)
    page.write_text(put_between(text, "lacking", lacking_text(found)), encoding="utf-8")
    plot_plan(rows, docs / "planning.png")


def measured(reports: Sequence[dict[str, Any]]) -> list[Point]:
    """Return the points of all reports, of one machine, with the networks as they were tried beside the fit.

    What a network takes is the machine's; tried again at another moment it would differ by what slows the machine then.
    """
    points = [point_of(each) for report in reports for each in report["points"]]
    first = {(point.network.name, point.network.precision): point.network for point in reversed(points)}
    return [replace(point, network=first[point.network.name, point.network.precision]) for point in points]


def lacking_text(found: Coefficients) -> str:
    """Return the paragraph of the steps for which there is no coefficient."""
    return f"{', '.join(lacking(found)) or 'none'}.\n"


if __name__ == "__main__":
    ship([json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]])
