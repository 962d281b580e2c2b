"""usage: who used which model, how much and when last."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dbinfer.cli._options import Dsn, Json, console, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(usage)


def usage(
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """You see your own use; administrators see all, and which versions nobody has used. Rows are counted while the
    setting `usage` is on: `dbinfer install --usage on`.

    Examples:

        $ dbinfer usage

        $ dbinfer usage --model digits --json
    """
    from dbinfer.registry import usage as run

    report = run(model, dsn)
    if json:
        print_json(report.to_dict())
        return
    since = "while it was counted" if report.since is None else f"since {_minute(report.since)}"
    rows = [_cells(found, since) for found in report.usage]
    columns = ["version", "role", "rows", "seconds", "last used"]
    print_table("usage", columns, rows, drop=("seconds", "rows"))
    if report.since is None:
        console.print("Usage is not counted in this database. To count it: dbinfer install --usage on")


def _cells(found: dict[str, Any], since: str) -> list[Any]:
    name = f"{found['model']}@{found['version']}"
    if found["last_used"] is None:
        return [name, "", 0, "", f"never {since}"]
    return [name, found["role"], found["rows"], f"{found['seconds']:.1f}", _minute(found["last_used"])]


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
