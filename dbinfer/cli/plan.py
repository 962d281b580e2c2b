"""plan: how many hosts are needed for so many images a day, or how long some hosts take."""

from __future__ import annotations

from typing import Annotated

import typer

from dbinfer.base.progress import silent
from dbinfer.cli.options import Dsn, Json
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import console, print_json, print_table
from dbinfer.plan import PlanOptions, PlanReport


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(plan)


def plan(
    *,
    model: Annotated[
        str | None, typer.Option(help="NAME, NAME@3 or NAME@alias. Default: the database's.")
    ] = None,
    options: PlanOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The speed is that of the last job of `dbinfer score` on the table with this version. Where there is none, some
    rows of the table are scored for a few seconds; without a table, the model's trial at `dbinfer deploy` counts.

    Examples:

        $ dbinfer plan --table shop.images --model flowers --hours 90m

        $ dbinfer plan --table shop.images --images 50M --host-count 4 --cores 32

        $ dbinfer plan --images 50M --model flowers --hours 6 --kilobytes 400
    """
    from dbinfer.plan import plan as run

    with progress_bar() as progress:
        report = run(model, options, dsn, silent if json else progress)
    if json:
        print_json(report.to_dict())
    else:
        _show(report)


def _show(report: PlanReport) -> None:
    least, most = report.hosts_between
    shortest, longest = map(time_text, report.hours_between)
    given = "" if least == most else f" ({least:,} to {most:,})"
    rate = f"{report.images_per_second:,.0f} ({report.images_per_second_host:,.1f} a host)"
    print_table(
        f"{count_text(report.images)} images with {report.model}",
        ["what", "needs"],
        [
            ["hosts", f"{report.hosts:,}{given}"],
            ["time", f"{time_text(report.hours)} ({shortest} to {longest})"],
            ["images/s", rate],
            ["a host", f"{report.cores} cores, {report.segments} segments; {report.workers} cores at work"],
        ],
    )
    for line in (f"measured: {report.measured}", *(f"assumed: {note}" for note in report.notes)):
        console.print(line, soft_wrap=True)
    console.print("Not in it: slower disks, other load, hyperthreads.", soft_wrap=True)


def count_text(number: float) -> str:
    """Return 50M, 1.5k or 999, as the options take it."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.4g}{letter}"
    return f"{number:.4g}"


def time_text(hours: float) -> str:
    """Return a time as people say it: 5.4 hours, 1 minute, 3.1 seconds, 2.5 days."""
    for size, name in ((24.0, "days"), (1.0, "hours"), (1 / 60, "minutes")):
        if hours >= size * (2 if name == "days" else 1):
            return _plural(f"{hours / size:.3g}", name)
    return _plural(f"{hours * 3600:.3g}", "seconds")


def _plural(number: str, name: str) -> str:
    return f"{number} {name[:-1] if number == '1' else name}"
