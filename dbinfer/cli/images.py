"""load, predict, sample, score, jobs, report: images into tables, results of them, and a page on those."""

from __future__ import annotations

import json as json_module
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbinfer.base.errors import UsageError
from dbinfer.base.progress import silent
from dbinfer.cli.options import Dsn, Json, bytes_text, console, print_json, print_table, say
from dbinfer.cli.progress import progress_bar

if TYPE_CHECKING:
    from dbinfer.base.progress import Progress
    from dbinfer.images.load import LoadReport
    from dbinfer.score import PredictReport, ScoreReport


SHOWN = 20


def show_load(report: LoadReport) -> None:
    """Print what was refused, then the counts."""
    rows = [[item.file, item.reason] for item in report.refused]
    if rows:
        more = f", the first {SHOWN}; all with --json" if len(rows) > SHOWN else ""
        print_table(f"{len(rows)} refused{more}", ["file", "reason"], rows[:SHOWN])
    state = (
        "made" if report.created else "was there" if report.loaded + report.known else "nothing was changed"
    )
    counts = {"loaded": report.loaded, "skipped": report.skipped, "changed": report.changed}
    counts.update(updated=report.updated, refused=len(report.refused))
    # what there is none of in most loads is not shown
    shown = {key: n for key, n in counts.items() if n or key not in ("changed", "updated")}
    facts = {**shown, "size": bytes_text(report.bytes), "seconds": f"{report.seconds:.1f}"}
    print_table(f"{report.table} ({state})", list(facts), [list(facts.values())])
    if report.changed:
        say(f"{report.changed} files have changed since they were loaded; --update replaces their images.")


def show_answers(report: PredictReport) -> None:
    """Print one row a file."""
    rows = [
        [answer.file, answer.error or _short(answer.value), f"{answer.milliseconds:.1f}"]
        for answer in report.answers
    ]
    print_table(f"dbinfer.{report.function}", ["file", "result", "ms"], rows)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, list):
        # Classes and objects have fields of their own: a line each
        between = "\n" if value and isinstance(value[0], dict) else ", "
        more = [f"... ({len(value)} values)"] if len(value) > 8 else []
        return between.join([_short(part) for part in value[:8]] + more)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


Model = Annotated[str | None, typer.Option(help="name, name@3 or name@alias. Default: the default model.")]
FunctionName = Annotated[
    str | None,
    typer.Option(
        help="classify, classify_top, predict, segment, embed, ... Default: the one for the model's task."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (load, predict, sample, score, report):
        app.command()(command)
    app.add_typer(jobs, name="jobs")


def load(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER|FILES...", help="Folders, image files, zip and tar archives."),
    ] = None,
    table: Annotated[
        str, typer.Option(help="TABLE or SCHEMA.TABLE; created if it does not exist.")
    ] = "images",
    label_from: Annotated[
        str | None,
        typer.Option(metavar="folder", help="'folder': store the name of each file's folder as its label."),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(help="Store paths relative to this folder. Default: the parent of the folder you load."),
    ] = None,
    column: Annotated[str, typer.Option(help="Column with the images.")] = "img",
    path_column: Annotated[str, typer.Option(help="Column with the paths.")] = "path",
    label_column: Annotated[str, typer.Option(help="Column with the labels.")] = "label",
    recursive: Annotated[bool, typer.Option(help="Include subfolders.")] = True,
    update: Annotated[
        bool, typer.Option("--update", help="Replace images whose files have changed since they were loaded.")
    ] = False,
    from_list: Annotated[
        Path | None,
        typer.Option(metavar="FILE|-", help="Load the files named in this file, one a line; - reads stdin."),
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """All files are loaded in one transaction, or none. The stored path begins with the folder's name, for example
    photos/cat/1.jpg; images in an archive keep their path there. A file whose size or content has changed is
    counted, and replaced with --update; its row keeps its id. Files that are not images are listed and left out.
    The exit status is 1 when there was nothing to load.

    Examples:

        $ dbinfer load photos

        $ dbinfer load flowers/train --table flowers --label-from folder

        $ dbinfer load /data/a /data/b --base /data --table shop.images --json

        $ dbinfer load photos --update

        $ dbinfer load photos.tar.gz more.zip

        $ find /data -name '*.jpg' -newer last -print0 | dbinfer load --from-list -
    """
    from dbinfer.images.load import LoadOptions
    from dbinfer.images.load import load as run

    names = (column, path_column, label_column)
    options = LoadOptions(table, label_from, base, *names, recursive, update=update, from_list=from_list)
    with progress_bar() as progress:
        report = run(sources or [], options, dsn, progress)
    if json:
        print_json(report.to_dict())
    else:
        show_load(report)
    if not report.loaded + report.known:
        raise typer.Exit(1)


def predict(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Image files on this machine.")],
    model: Model = None,
    function: FunctionName = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes classify_top returns.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for masks (segment) and tensors.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The exit status is 1 when a file has no result.

    Examples:

        $ dbinfer predict cat.jpg dog.png

        $ dbinfer predict cat.jpg --function classify_top --top 3 --json

        $ dbinfer predict street.jpg --model roads --function segment --out masks
    """
    from dbinfer.score import PredictOptions
    from dbinfer.score import predict as run

    with progress_bar() as progress:
        report = run(files, PredictOptions(function, model, top, out, files_only=True), dsn, progress)
    if json:
        print_json(report.to_dict())
    else:
        show_answers(report)
    if not report.ok:
        raise typer.Exit(1)


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
    from dbinfer.images.sample import SampleOptions
    from dbinfer.images.sample import sample as run

    with progress_bar() as progress:
        report = run(name, SampleOptions(table, part, count), dsn, silent if json else progress)
    if json:
        print_json(report.to_dict())
    else:
        say(f"{report.table}: {report.loaded} loaded, {report.skipped} there already; {report.truth}")


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


JOBS_HELP = """You see your own jobs; administrators see all. A job is lost if its client is gone without a word; run
the same command again to go on.

Examples:

    $ dbinfer jobs

    $ dbinfer jobs --limit 3 --json

    $ dbinfer jobs cancel 12
"""
jobs = typer.Typer(help=JOBS_HELP, invoke_without_command=True, rich_markup_mode="markdown")


@jobs.callback()
def _jobs(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many jobs, the last ones first.")] = 20,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    if ctx.invoked_subcommand is not None:
        return
    from dbinfer.score import jobs as run

    found = run(limit, dsn).jobs
    if json:
        print_json(list(found))
        return
    rows = [
        [
            job["id"],
            job["state"],
            f"{job['source']} > {job['target']}",
            f"{job['model']}@{job['version']}",
            f"{job['done']}/{'?' if job['total'] is None else job['total']}",
            f"{job['rate']:.1f}",
            job["errors"],
            job["role"],
            job["last_error"],
        ]
        for job in found
    ]
    columns = ["job", "state", "what", "model", "rows", "rows/s", "errors", "who", "last error"]
    print_table("jobs", columns, rows, drop=("last error", "who", "model"))
    if not found:
        console.print("There are no jobs yet. Start one: dbinfer score")


@jobs.command()
def cancel(job: Annotated[int, typer.Argument(metavar="ID")], dsn: Dsn = None) -> None:
    """End a job after its current batch.

    What is scored stays; run the same `dbinfer score` again to go on.

    Examples:

        $ dbinfer jobs cancel 12
        Job 12 ends after its current batch.
    """
    from dbinfer.score import cancel_job as run

    run(job, dsn)
    console.print(f"Job {job} ends after its current batch.")


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
    from dbinfer.report import ReportOptions
    from dbinfer.report import report as run

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
