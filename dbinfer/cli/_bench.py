"""What the commands of the group 'bench' share: options, and how results reach terminal, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dbinfer.cli._options import Screen, err_console, say

if TYPE_CHECKING:
    from dbinfer.progress import OnProgress

FILE_WIDTH = 160
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the results to this file, as JSON.")]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Write a picture (.png, .svg, .pdf).")]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", help="Put the tables into this Markdown document.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep images and models in the database.")]
Seconds = Annotated[float, typer.Option(help="About how long one measurement takes.")]


def write_json(path: Path | None, report: dict[str, Any]) -> None:
    if path:
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def print_rows(title: str, headings: Sequence[str], cells: Sequence[Sequence[Any]]) -> None:
    """Print a table, wide enough for its lines also where the output is no terminal."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for line in cells:
        table.add_row(*("" if cell is None else str(cell) for cell in line))
    console().print(table)


def console() -> Screen:
    found = Screen()
    return found if found.is_terminal else Screen(width=FILE_WIDTH)


@contextmanager
def status() -> Iterator[OnProgress]:
    """Yield what says where a run is: a line that changes on a terminal, lines on stderr elsewhere."""
    if not err_console.is_terminal:
        yield lambda progress: say(progress.step, err=True)
        return
    with err_console.status("starting") as shown:
        yield lambda progress: shown.update(Text(progress.step))


def put(path: Path, name: str, content: str) -> None:
    from dbinfer.bench.tables import put_between

    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(put_between(before, name, content), encoding="utf-8")
