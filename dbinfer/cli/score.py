"""score: results of a whole table of images."""

from __future__ import annotations

import json as json_module
import time
from typing import TYPE_CHECKING, Annotated

import typer

from dbinfer.cli._options import Dsn, Json, console, print_json, say
from dbinfer.cli._progress import progress_bar
from dbinfer.cli.data import FunctionName, Model
from dbinfer.errors import UsageError

if TYPE_CHECKING:
    from dbinfer.progress import Progress
    from dbinfer.score import ScoreReport


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(score)


def score(
    table: Annotated[str, typer.Option(help="The table of images.")] = "images",
    into: Annotated[str, typer.Option(help="The table of results, created by this command.")] = "predictions",
    function: FunctionName = None,
    model: Model = None,
    column: Annotated[str, typer.Option(help="Column with the images.")] = "img",
    key: Annotated[
        str, typer.Option(help="Column (or columns: a,b) that identifies a row; copied into the results.")
    ] = "id",
    where: Annotated[
        str, typer.Option(metavar="SQL", help="Score only rows that meet this condition.")
    ] = "true",
    on_error: Annotated[
        str | None,
        typer.Option(
            metavar="record|null|error",
            help="For a damaged image: note it in the table of errors (default), store NULL, or stop.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes classify_top returns.")] = 5,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing table, in one transaction.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add the rows that an existing table lacks.")
    ] = False,
    atomic: Annotated[
        bool,
        typer.Option("--atomic", help="One transaction: all rows or none. The table has key and result."),
    ] = False,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Try the damaged images of earlier runs again.")
    ] = False,
    max_errors: Annotated[
        int | None, typer.Option(min=0, help="Stop when more images than this are damaged.")
    ] = None,
    connections: Annotated[
        int | None, typer.Option(min=1, help="How many connections score at once. Default: by the server.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Rows per transaction. Default: about two seconds' worth.")
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.1, help="Do not end: look for new rows this often, or at a NOTIFY."
        ),
    ] = None,
    channel: Annotated[str, typer.Option(help="The channel of that NOTIFY.")] = "dbinfer",
    dsn: Dsn = None,
    json: Json = False,
    json_lines: Annotated[
        bool,
        typer.Option("--json-lines", help="Print each step as a line of JSON, the report as the last one."),
    ] = False,
) -> None:
    """Only rows that this version of the model has not scored are scored. Each batch of rows is a transaction: whatever
    happens, run the same command again and it goes on. Damaged images do not stop it: they are in the table
    predictions_errors with their reasons. --atomic and --replace score all rows in one transaction instead; --replace
    drops the grants and indexes of the old table, and readers see that table until the new one is complete.

    Examples:

        $ dbinfer score --table images --into predictions
        public.predictions: 359 rows with classify (0.3 s, 1127.9 images/s)

        $ dbinfer score --model digits@2 --where "label IS NULL" --max-errors 100

        $ dbinfer score --table shop.images --into shop.masks --function segment --key shop,number --json

        $ dbinfer score --watch 60
    """
    from dbinfer.score import ScoreOptions
    from dbinfer.score import score as run

    if replace and append:
        raise UsageError("--replace and --append cannot be used together")
    existing = "replace" if replace else "append" if append else "refuse"
    options = ScoreOptions(
        function,
        model,
        column,
        key,
        where,
        on_error,
        top,
        existing,
        atomic,
        retry_errors,
        max_errors,
        connections,
        batch,
        watch,
        channel,
    )
    with progress_bar() as bar:
        report = run(table, into, options, dsn, _Lines() if json_lines else bar)
    if json_lines:
        say(json_module.dumps(report.to_dict()))
    elif json:
        print_json(report.to_dict())
    else:
        _show(report)
    if report.state != "done":
        raise typer.Exit(1)


class _Lines:
    """Prints each step as a line of JSON."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Print where the job is: rows, rows a second, percent, seconds left, errors."""
        rate = progress.done / max(time.monotonic() - self._begin, 1e-3)
        left = None if progress.total is None else progress.total - progress.done
        line = {
            "step": progress.step,
            "done": progress.done,
            "total": progress.total,
            "errors": progress.errors,
            "rate": round(rate, 1),
            "percent": round(100 * progress.done / progress.total, 1) if progress.total else None,
            "seconds_left": round(left / rate, 1) if left is not None and rate else None,
        }
        say(json_module.dumps(line))


def _show(report: ScoreReport) -> None:
    speed = f"{report.seconds:.1f} s, {report.images_per_second:.1f} images/s"
    console.print(f"{report.into}: {report.rows} rows with {report.function} ({speed})")
    said = (
        (report.nulls, "have no result (bad or missing images)."),
        (report.errors, f"are bad; their reasons are in the table {report.into}_errors."),
        (report.gone, "were deleted after they were scored; their results are still there."),
        (report.changed, "were changed after they were scored. Delete their results to score them again."),
    )
    for count, words in said:
        if count:
            console.print(f"{count} rows {words}")
    if report.state != "done":
        console.print(f"The job was {report.state}. Run the same command again to go on.")
