"""report: one page on what a table of results holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbinfer.cli._options import Dsn, Json, bytes_text, console, print_json
from dbinfer.cli._progress import progress_bar


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(report)


def report(
    table: Annotated[str, typer.Option(help="The table of images.")] = "images",
    predictions: Annotated[
        str, typer.Option(help="The table of results that dbinfer score has made.")
    ] = "predictions",
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    column: Annotated[str, typer.Option(help="Column with the images.")] = "img",
    key: Annotated[
        str | None,
        typer.Option(
            help="Column that identifies a row; several with commas. Default: as the results have it, else id."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column with the true class. Default: label, where there is one; '': no labels."),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(help="Column with true masks (image files). Default: truth, where there is one."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Show results of name@3. Default: the version that scored last.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Compare with results of name@2. Default: the version before; '': none."),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Show so many rows of a larger table.")] = 20_000,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The page is one file that loads nothing from elsewhere. It shows classes, scores, the least certain images, bad
    rows, speed and provenance; with labels also accuracy, the confusion matrix and calibration; with true masks the
    worst masks first; with two versions in the table what changed between them.

    Examples:

        $ dbinfer report
        report.html: digits@2 on 359 rows, accuracy 99.2 % (174.8 kB)

        $ dbinfer report --table shop.images --predictions shop.masks --truth mask --out masks.html

        $ dbinfer report --model digits@3 --against digits@1 --json
    """
    from dbinfer.page import ReportOptions
    from dbinfer.page import report as run

    options = ReportOptions(out, column, key, label, truth, model, against, sample)
    with progress_bar() as progress:
        done = run(table, predictions, options, dsn, progress)
    if json:
        print_json(done.to_dict())
        return
    rows = f"{done.rows} rows" if done.sampled == done.rows else f"{done.sampled} of {done.rows} rows"
    figures = [f"{done.model or done.predictions} on {rows}"]
    figures += [
        f"{name} {value:.1%}".replace("%", " %")
        for name, value in (("accuracy", done.accuracy), ("agreement", done.agreement))
        if value is not None
    ]
    figures += [f"dice {done.dice:.4f}"] if done.dice is not None else []
    console.print(f"{done.out}: {', '.join(figures)} ({bytes_text(done.bytes)})", soft_wrap=True)
