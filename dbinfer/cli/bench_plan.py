"""`dbinfer bench plan`: measures what plans are made of, and how far they are off."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dbinfer.cli._bench import (
    JsonFile,
    MarkdownFile,
    PlotFile,
    console,
    print_rows,
    put,
    status,
    write_json,
)
from dbinfer.cli._options import Dsn

HELP = """Measure what `dbinfer plan` goes by, and how far its predictions are off.

On PostgreSQL the coefficients are fitted first, to the steps of a row and to statements of one process. Then statements
are measured that were not used for that: other networks and image sizes, and as many processes as cores. On Greenplum
the coefficients are taken as they are, and the statements run on all segments. This takes about 6 minutes.

Examples:

    $ dbinfer bench plan --json plan.json

    $ dbinfer bench plan --coefficients plan.json --dsn "host=gp dbname=images"
"""


def register(app: typer.Typer) -> None:
    """Add the command `plan` to the group `bench`."""
    app.command("plan", help=HELP)(_plan)


def _plan(
    coefficients: Annotated[
        Path | None, typer.Option(help="File of coefficients to check, instead of fitting them.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each is measured, in turns; the least counts.")
    ] = 6,
    dsn: Dsn = None,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
    markdown_file: MarkdownFile = None,
) -> None:
    from dbinfer.bench.plan_tables import plan_markdown, plan_table, plot_plan
    from dbinfer.bench.planning import run_planning
    from dbinfer.bench.tables import environment_lines
    from dbinfer.cost.coefficients import read

    given = read(coefficients) if coefficients else None
    with status() as progress:
        report: dict[str, Any] = run_planning(dsn, given, progress, rounds).to_dict()
    write_json(json_file, report)
    for line in environment_lines(report["environment"]):
        console().print(line)
    print_rows("Predicted and measured", *plan_table(report["points"]))
    if plot_file:
        plot_plan(report["points"], plot_file)
    if markdown_file:
        put(markdown_file, "plan", plan_markdown(report))
