"""What commands print: lines, tables and JSON; a stranger's text is made harmless here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dbinfer.base.errors import HARMFUL, harmless, one_line
from dbinfer.base.report import Report

Made = TypeVar("Made", bound=Report)
Rows = Sequence[Sequence[Any]]
# Beside the cells of a table: a border and two spaces a column, and the last border
BORDER = 3
SHORT = 12


class Screen(Console):
    """A console for texts of anybody: labels, names of files and models, the server's words.

    What would control a terminal is shown, not sent, and brackets are no markup: that can hold a link, or end a line
    with an error of Rich.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, **settings})

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print texts and renderables; a text whole, because Rich drops some signs silently."""
        super().print(*(harmless(one) if isinstance(one, str) else one for one in objects), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the pieces that are printed; colours and the like are no part of their text."""
        for piece in super().render(renderable, options):
            harmful = not piece.control and HARMFUL.search(piece.text)
            yield Segment(harmless(piece.text), piece.style) if harmful else piece


console = Screen()
err_console = Screen(stderr=True)


def say(text: str, err: bool = False) -> None:
    """Print one line as it is, whatever the terminal's width."""
    typer.echo(one_line(text), err=err)


def print_json(value: Any) -> None:
    """Print one JSON value; dates as text."""
    text = json.dumps(value, indent=2, default=str, ensure_ascii=False)
    typer.echo(HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_report(report: Made, as_json: bool, show: Callable[[Made], None]) -> None:
    """Print a verb's report: as JSON, or by the function that shows it to people."""
    if as_json:
        print_json(report.to_dict())
    else:
        show(report)


def print_table(title: str, columns: Sequence[str], rows: Rows, drop: Sequence[str] = ()) -> None:
    """Print a table without breaking a word; None as an empty cell.

    What is no terminal gets all columns in full width. On a terminal that is too narrow the columns of `drop` are left
    out, the first ones first; where that is not enough each row is printed as lines of its own.
    """
    title = harmless(title)
    cells = [["" if cell is None else harmless(str(cell)) for cell in row] for row in rows]
    kept, left = list(columns), list(drop)
    while (widths := _widths(kept, _select(columns, kept, cells))) is None and left:
        kept.remove(left.pop(0))
    if widths is None:
        _print_records(title, columns, cells)
        return
    shown = Table(title=Text(title), title_justify="left", header_style="bold")
    for column, width in zip(kept, widths, strict=True):
        shown.add_column(Text(column), width=width)
    for row in _select(columns, kept, cells):
        shown.add_row(*map(Text, row))  # as Text: brackets in a name are no markup
    room = max(sum(widths) + BORDER * len(widths) + 1, cell_len(title))
    # Rich takes a pipe for a terminal of 80 columns
    out = console if console.is_terminal else Screen(file=console.file, width=room)
    out.print(shown)
    gone = [column for column in columns if column not in kept]
    if gone:
        out.print(f"left out for want of room: {', '.join(gone)}; --json has all", style="dim")


def _select(columns: Sequence[str], kept: Sequence[str], cells: list[list[str]]) -> list[list[str]]:
    return [[cell for column, cell in zip(columns, row, strict=True) if column in kept] for row in cells]


def _widths(columns: Sequence[str], cells: list[list[str]]) -> list[int] | None:
    """Return the width of each column; None where the longest words do not fit side by side."""
    texts = list(zip(columns, *cells, strict=True))
    full = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in texts]
    least = [max(map(_least, column)) for column in texts]
    room = console.width - BORDER * len(columns) - 1 if console.is_terminal else sum(full)
    if sum(least) > room:
        return None
    widths, spare = list(least), room - sum(least)
    while spare > 0 and widths != full:
        # one more for the column that lacks least: short columns become whole before long ones get lines
        index = min((i for i in range(len(full)) if widths[i] < full[i]), key=lambda i: full[i] - widths[i])
        widths[index], spare = widths[index] + 1, spare - 1
    return widths


def _least(cell: str) -> int:
    """Return the width that a cell needs: its longest word; a short one stays whole, or 1.9 MB would take two lines."""
    lines = cell.split("\n")
    return max(
        len(line) if len(line) <= SHORT else max(map(cell_len, line.split()), default=0) for line in lines
    )


def _print_records(title: str, columns: Sequence[str], cells: list[list[str]]) -> None:
    console.print(Text(title, style="bold", overflow="ignore"))
    for row in cells:
        console.print()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                console.print(Text(f"{column}: {cell}", overflow="ignore"))


def bytes_text(size: float | None) -> str:
    """Return a size in bytes as people write it: 1.2 MB."""
    if size is None:
        return ""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
