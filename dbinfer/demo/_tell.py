"""How the demo speaks: a title for each step, the command that does the same, tables of what SQL answered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console(highlight=False, soft_wrap=True)


@contextmanager
def step(title: str, command: str = "") -> Iterator[None]:
    """Print what is about to happen, the command for it, and afterwards how long it took."""
    console.print(f"\n[bold cyan]==> {title}[/]")
    if command:
        console.print(f"    [dim]$ {command}[/]", markup=True)
    begin = time.monotonic()
    yield
    console.print(f"    [dim]{time.monotonic() - begin:.1f} s[/]")


def say(text: str) -> None:
    """Print one line of a step."""
    console.print(f"    {text}")


def show(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    """Print rows as psql would, in a table."""
    table = Table(*columns, header_style="bold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)
