"""sample: images that are at hand, in a table."""

from __future__ import annotations

from typing import Annotated

import typer

from dbinfer.cli._options import Dsn, Json, print_json, say
from dbinfer.cli._progress import progress_bar
from dbinfer.progress import silent


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(sample)


def sample(
    name: Annotated[str, typer.Argument(help="digits, strokes or written.")],
    table: Annotated[str, typer.Option(help="TABLE or SCHEMA.TABLE. Default: the name of the data.")] = "",
    part: Annotated[str, typer.Option(help="heldout, or train.")] = "heldout",
    count: Annotated[int | None, typer.Option(help="How many, of strokes or written. Default: all.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """digits are scikit-learn's handwritten digits (column label); strokes are such digits on its photographs (mask);
    written are photographs with digits beside each other (boxes: which digit, where). Rows that are there already
    are skipped.

    Examples:

        $ dbinfer sample written

        $ dbinfer sample strokes --table shop.strokes --part train --count 100
    """
    from dbinfer.sample import SampleOptions
    from dbinfer.sample import sample as run

    with progress_bar() as progress:
        report = run(name, SampleOptions(table, part, count), dsn, silent if json else progress)
    if json:
        print_json(report.to_dict())
    else:
        say(f"{report.table}: {report.loaded} loaded, {report.skipped} there already; {report.truth}")
