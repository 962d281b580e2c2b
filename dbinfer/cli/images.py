"""load, predict, sample, score, jobs, report: images into tables, their results, and a report on these."""

from __future__ import annotations

import json as json_module
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import dbinfer
from dbinfer.cli.options import Dsn, Json
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import bytes_text, console, print_json, print_report, print_table, say

SHOWN = 20


def show_load(report: dbinfer.LoadReport) -> None:
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


def show_answers(report: dbinfer.PredictReport) -> None:
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


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (load, predict, sample, score, report):
        app.command()(command)
    app.add_typer(jobs, name="jobs")


def load(
    *,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER|FILES...", help="Folders, image files, zip and tar archives."),
    ] = None,
    options: dbinfer.LoadOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """All files are loaded in one transaction, or none. Stored paths begin with the folder's name, for example
    photos/cat/1.jpg; images in an archive keep their path within it. Files that have changed since they were loaded are
    counted; --update replaces their images, and their rows keep their ids. Files that are not images are listed and
    skipped. The exit status is 1 when there was nothing to load.

    Examples:

        $ dbinfer load photos

        $ dbinfer load flowers/train --table flowers --label-from folder

        $ dbinfer load /data/a /data/b --base /data --table shop.images --json

        $ dbinfer load photos --update

        $ dbinfer load photos.tar.gz more.zip

        $ find /data -name '*.jpg' -newer last -print0 | dbinfer load --from-list -
    """
    with progress_bar() as progress:
        report = dbinfer.load(sources or [], options, dsn, progress)
    print_report(report, json, show_load)
    if not report.loaded + report.known:
        raise typer.Exit(1)


def predict(
    *,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Image files on this machine.")],
    options: dbinfer.PredictOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The exit status is 1 when a file has no result.

    Examples:

        $ dbinfer predict cat.jpg dog.png

        $ dbinfer predict cat.jpg --function classify_top --top 3 --json

        $ dbinfer predict street.jpg --model roads --function segment --out masks
    """
    with progress_bar() as progress:
        report = dbinfer.predict(files, replace(options, files_only=True), dsn, progress)
    print_report(report, json, show_answers)
    if not report.ok:
        raise typer.Exit(1)


def sample(
    *,
    name: Annotated[str, typer.Argument(help="digits, strokes or written.")],
    options: dbinfer.SampleOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """digits are scikit-learn's handwritten digits (column label), strokes are such digits drawn on its photographs
    (column mask), and written are photographs with several digits (column boxes: which digit, and where). Rows that are
    already there are skipped.

    Examples:

        $ dbinfer sample written

        $ dbinfer sample strokes --table shop.strokes --part train --count 100
    """
    with progress_bar() as progress:
        report = dbinfer.sample(name, options, dsn, dbinfer.silent if json else progress)
    if json:
        print_json(report.to_dict())
    else:
        say(f"{report.table}: {report.loaded} loaded, {report.skipped} there already; {report.truth}")


def score(
    *,
    table: Annotated[str, typer.Option(help="The table of images.")] = "images",
    predictions: Annotated[
        str, typer.Option(help="The table of results, created by this command.")
    ] = "predictions",
    options: dbinfer.ScoreOptions,
    dsn: Dsn = None,
    json: Json = False,
    json_lines: Annotated[
        bool,
        typer.Option("--json-lines", help="Print each step as a line of JSON, the report as the last one."),
    ] = False,
) -> None:
    """Rows that this version of the model has already scored are skipped. Each batch of rows is a transaction: whatever
    happens, run the same command again and it continues. Damaged images do not stop it; they go to the table
    predictions_errors, with the reasons. --atomic and --replace score all rows in one transaction instead. --replace
    loses the grants and indexes of the old table; readers see that table until the new one is complete.

    Examples:

        $ dbinfer score --table images --predictions predictions
        public.predictions: 359 rows with classify (0.3 s, 1127.9 images/s)

        $ dbinfer score --model digits@2 --where "label IS NULL" --max-errors 100

        $ dbinfer score --table shop.images --predictions shop.masks --function segment --key shop,number --json

        $ dbinfer score --watch 60
    """
    with progress_bar() as bar:
        report = dbinfer.score(table, predictions, options, dsn, _Lines() if json_lines else bar)
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

    def __call__(self, progress: dbinfer.Progress) -> None:
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


def _show(report: dbinfer.ScoreReport) -> None:
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
        console.print(f"The job was {report.state}. Run the same command again to continue.")


jobs = typer.Typer(invoke_without_command=True, rich_markup_mode="markdown")


@jobs.callback()
def _jobs(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many jobs, the latest first.")] = 20,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """You see your own jobs; administrators see all. A job whose client vanished is shown as lost; run the same
    command again to continue it.

    Examples:

        $ dbinfer jobs

        $ dbinfer jobs --limit 3 --json

        $ dbinfer jobs cancel 12
    """
    if ctx.invoked_subcommand is not None:
        return
    found = dbinfer.jobs(limit, dsn).jobs
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

    Rows that are scored stay so; run the same `dbinfer score` again to continue.

    Examples:

        $ dbinfer jobs cancel 12
        Job 12 ends after its current batch.
    """
    dbinfer.cancel_job(job, dsn)
    console.print(f"Job {job} ends after its current batch.")


def report(
    *,
    table: Annotated[str, typer.Option(help="The table of images.")] = "images",
    predictions: Annotated[
        str, typer.Option(help="The table of results, as dbinfer score made it.")
    ] = "predictions",
    options: dbinfer.ReportOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The report is one HTML file that loads nothing from elsewhere. It shows classes, scores, the least certain
    images, damaged rows, speed and provenance; with labels, also accuracy, the confusion matrix and calibration; with
    true masks, the worst masks first; with two versions in the table, what changed between them.

    Examples:

        $ dbinfer report
        report.html: digits@2 on 359 rows, accuracy 99.2 % (174.8 kB)

        $ dbinfer report --table shop.images --predictions shop.masks --truth mask --out masks.html

        $ dbinfer report --model digits@3 --against digits@1 --json
    """
    with progress_bar() as progress:
        done = dbinfer.report(table, predictions, options, dsn, progress)
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
