"""Options and output that all commands share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="Connection string or URL; default $DBINFER_DSN, libpq's variables, the embedded server.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print facts as JSON.")]

console = Console(highlight=False)
err_console = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print one JSON value; dates as text."""
    typer.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def print_table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Print a table; None as an empty cell."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("model", "task", "input", "size"))
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console.print(table)


def bytes_text(size: float | None) -> str:
    """Return a size in bytes as people write it: 1.2 MB."""
    if size is None:
        return ""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
