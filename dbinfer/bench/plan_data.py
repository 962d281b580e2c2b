"""Makes what is shipped of reports of `dbinfer bench plan`: coefficients, points, table and picture of the docs.

python -m dbinfer.bench.plan_data POSTGRESQL.json [GREENPLUM.json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbinfer.bench.plan_tables import plan_markdown, plot_plan
from dbinfer.bench.planning import errors, row
from dbinfer.bench.point import Point, point_of
from dbinfer.bench.tables import put_between
from dbinfer.cost import Coefficients
from dbinfer.cost.coefficients import POINTS, SHIPPED, from_dict, write
from dbinfer.cost.missing import lacking

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
