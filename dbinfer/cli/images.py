"""load, predict, sample, store, score, export, jobs, report: images into tables, their results, a report on
these, what to label next, and a page to label it.
"""

from __future__ import annotations

import json as json_module
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import dbinfer
from dbinfer.cli.options import Dsn, Json, Only
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
        say(f"{report.changed} files have changed since they were loaded; --update brings them up to date.")


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
    for command in (load, predict, sample, score, export, follow, worker, report, next, proxy, label):
        app.command()(command)
    app.add_typer(jobs, name="jobs")
    app.add_typer(store, name="store")


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

        $ dbinfer load --reference photos/2024 --table scans

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

        $ dbinfer score --follow

        $ dbinfer score --table uploads --predictions upload_labels --reuse
        public.upload_labels: 1000 rows with classify (2.1 s, 476.2 images/s)
        300 rows show a picture that has an answer already, and got that.
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


def follow(
    *,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table of images.")] = "images",
    predictions: Annotated[
        str, typer.Option("--predictions", "--into", help="The table of results; made where it is missing.")
    ] = "predictions",
    options: dbinfer.FollowOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """A trigger adds the key of each row that is inserted, updated or deleted to the table predictions_queue. Only the
    owner of the table of images, or a superuser, can do this; PostgreSQL only. After changes that no trigger sees, as
    TRUNCATE and ATTACH PARTITION are, the next job looks at all rows once.

    Examples:

        $ dbinfer follow scans --predictions answers --model digits
        public.answers_queue: keys of changed rows of public.scans

        $ dbinfer score --table scans --predictions answers --model digits --follow --watch 1

        $ dbinfer follow scans --predictions answers --drop
    """
    report = dbinfer.follow(table, predictions, options, dsn)
    if json:
        print_json(report.to_dict())
        return
    what = "removed, with its trigger" if report.dropped else f"keys of changed rows of {report.table}"
    console.print(f"{report.queue}: {what}")


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
        (report.reused, "show a picture that has an answer already, and got that."),
        (report.errors, f"are bad; their reasons are in the table {report.into}_errors."),
        (report.gone, "were deleted after they were scored; --follow removes their results."),
        (report.changed, "were changed after they were scored; --follow scores them again."),
        (report.outdated, "had results of an earlier image, which are replaced."),
        (report.removed, "are gone, and so are their results."),
    )
    for count, words in said:
        if count:
            console.print(f"{count} rows {words}")
    if report.state != "done":
        console.print(f"The job was {report.state}. Run the same command again to continue.")


OF_WORKERS = (
    "function", "model", "column", "key", "where", "on_error", "top", "retry_errors", "max_errors", "batch", "watch"
)  # fmt: skip


def worker(
    *,
    table: Annotated[
        str | None, typer.Option(help="Begin or join the job that scores this table, and end with it.")
    ] = None,
    predictions: Annotated[
        str, typer.Option("--predictions", "--into", help="The table of results, created by this command.")
    ] = "predictions",
    options: dbinfer.WorkerOptions,
    scoring: Annotated[dbinfer.ScoreOptions, Only(OF_WORKERS)],
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Without --table and --job it works until it is told to stop: on all jobs of its role, and on requests
    (`SELECT dbinfer.request(img)`). Start as many as you like, on as many hosts as you like. Each row is scored once,
    also when a worker is killed, loses its network or is suspended: others take over what it held.

    Examples:

        $ dbinfer worker --dsn "host=db dbname=shop user=scorer"

        $ dbinfer worker --table scans --predictions answers --model digits

        $ dbinfer worker --concurrency 2 --cache-dir /var/cache/dbinfer
    """
    with progress_bar() as progress:
        report = dbinfer.worker(table, predictions, scoring, options, dsn=dsn, progress=progress)
    if json:
        print_json(report.to_dict())
    else:
        speed = f"{report.seconds:.1f} s, {report.images_per_second:.1f} images/s"
        what = (
            f"job {report.job} is {report.state}"
            if report.job is not None
            else f"{report.answers} requests answered"
        )
        console.print(f"{what}; this worker scored {report.rows} rows, {report.errors} are bad ({speed})")
    if report.state not in (None, "done"):
        raise typer.Exit(1)


def export(
    *,
    query: Annotated[str, typer.Argument(help="SELECT name, result FROM ...")],
    to: Annotated[
        str, typer.Option(metavar="FOLDER|URL", help="A folder, or s3://bucket/prefix, gs://... or az://...")
    ],
    options: dbinfer.ExportOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The first column is the file's name, which may have folders; the second is what goes into the file: bytea (a mask
    is a PNG) as it is, text as UTF-8, anything else as JSON. A row whose result is NULL makes no file. Files that are
    there are left out before they are scored: whatever happens, run the same command again and it continues. For other
    results of the same rows choose another folder. Keys of a bucket come from its provider's own variables, such as
    AWS_ACCESS_KEY_ID.

    Examples:

        $ dbinfer export "SELECT path || '.png', dbinfer.segment(img, 'strokes') FROM photos" --to masks
        masks: 96 files (39.5 kB) in 1.2 s

        $ dbinfer export "SELECT id || '.json', dbinfer.detect(img) FROM images" --to s3://results/2024

        $ dbinfer export "SELECT path, img FROM scans" --to s3://scans --endpoint http://minio:9000 --json
    """
    with progress_bar() as progress:
        report = dbinfer.export(query, to, options, dsn, progress)
    if json:
        print_json(report.to_dict())
        return
    said = f"{report.to}: {report.written} files ({bytes_text(report.bytes)}) in {report.seconds:.1f} s"
    said += f", {report.skipped} there already" if report.skipped else ""
    say(said + (f", {report.empty} rows without a result" if report.empty else ""))


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


store = typer.Typer(invoke_without_command=True, rich_markup_mode="markdown")


@store.callback()
def _stores(ctx: typer.Context, dsn: Dsn = None, json: Json = False) -> None:
    """A store is a bucket of S3, Google or Azure, a web server or a folder of the database hosts, below which images
    lie; dbinfer.image('NAME/path') reads them. Superusers declare stores and grant them; you see those that you may
    read.

    Examples:

        $ dbinfer store

        $ dbinfer store add photos s3://bucket/photos --region eu-central-1 --secret /etc/dbinfer/photos.json

        $ dbinfer store grant photos analysts
    """
    if ctx.invoked_subcommand is not None:
        return
    found = dbinfer.store(dsn).stores
    if json:
        print_json(list(found))
        return
    columns = ["name", "kind", "url", "endpoint", "region", "secret", "private", "seconds", "granted_to"]
    rows = [
        [", ".join(one[name] or ()) if name == "granted_to" else one[name] for name in columns]
        for one in found
    ]
    heads = ["store", *columns[1:-1], "granted to"]
    print_table("stores", heads, rows, drop=("region", "seconds", "endpoint", "secret"))
    if not found:
        console.print("There is no store that you may read. A superuser adds one: dbinfer store add --help")


STORE = typer.Argument(metavar="STORE", help="Its name.")
ROLE = typer.Argument(metavar="ROLE", help="Name of a role; public is everybody.")


@store.command()
def add(
    *,
    name: Annotated[str, typer.Argument(metavar="STORE", help="Its name, with which references begin.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the folder below which images lie.")],
    options: dbinfer.StoreOptions,
    dsn: Dsn = None,
) -> None:
    """Declare a store, or change it; superusers only.

    At first only superusers may read there. What the secret holds: docs/how-to/images-elsewhere.md.

    Examples:

        $ dbinfer store add photos s3://bucket/photos --region eu-central-1 --secret /etc/dbinfer/photos.json

        $ dbinfer store add scans s3://scans --endpoint http://minio:9000 --private --secret /etc/dbinfer/scans.json

        $ dbinfer store add disk file:///srv/photos
    """
    dbinfer.add_store(name, url, options, dsn)
    console.print(f"Store {name} is declared. Try it: dbinfer store check {name}")


@store.command("grant")
def grant_store(name: Annotated[str, STORE], role: Annotated[str, ROLE], dsn: Dsn = None) -> None:
    """Let a role read a store.

    Examples:

        $ dbinfer store grant photos analysts
    """
    dbinfer.grant_store(name, role, dsn)
    console.print(f"{role} may read the store {name}.")


@store.command("revoke")
def revoke_store(name: Annotated[str, STORE], role: Annotated[str, ROLE], dsn: Dsn = None) -> None:
    """Take the right to read a store from a role.

    Examples:

        $ dbinfer store revoke photos public
    """
    dbinfer.revoke_store(name, role, dsn)
    console.print(f"{role} may no longer read the store {name}.")


@store.command("drop")
def drop_store(name: Annotated[str, STORE], dsn: Dsn = None) -> None:
    """Forget a store and who may read it; its images stay where they are.

    Examples:

        $ dbinfer store drop photos
    """
    dbinfer.drop_store(name, dsn)
    console.print(f"Store {name} is forgotten; its images are where they were.")


@store.command("check")
def check_store(
    name: Annotated[str, STORE],
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="An image in it.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Fetch an image from a store, on a cluster on every segment.

    Without PATH, ask for one that is not there, which shows whether the store can be read.

    Examples:

        $ dbinfer store check photos 2024/1.jpg
        photos/2024/1.jpg: 52.1 kB on 3 segments, in 0.4 s
    """
    done = dbinfer.check_store(name, path, dsn)
    if json:
        print_json(done.to_dict())
        return
    found = "can be read, and has no such image" if done.bytes is None else bytes_text(done.bytes)
    places = f" on {done.places} segments" if done.places > 1 else ""
    console.print(f"{done.reference}: {found}{places}, in {done.seconds:.1f} s", soft_wrap=True)


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

        $ dbinfer report --query "SELECT * FROM dbinfer.estimate('scans', 'label IS NULL', within => 0.02)"
        report.html: 981 of 35900 rows, 0.108 (0.09 to 0.129) (9.1 kB)
    """
    with progress_bar() as progress:
        done = dbinfer.report(table, predictions, options, dsn, progress)
    if json:
        print_json(done.to_dict())
        return
    rows = f"{done.rows} rows" if done.sampled == done.rows else f"{done.sampled} of {done.rows} rows"
    figures = [rows if options.query is not None else f"{done.model or done.predictions} on {rows}"]
    figures += (
        [f"{done.estimate:.4g} ({done.low:.4g} to {done.high:.4g})"] if done.estimate is not None else []
    )
    figures += [
        f"{name} {value:.1%}".replace("%", " %")
        for name, value in (("accuracy", done.accuracy), ("agreement", done.agreement))
        if value is not None
    ]
    figures += [f"dice {done.dice:.4f}"] if done.dice is not None else []
    console.print(f"{done.out}: {', '.join(figures)} ({bytes_text(done.bytes)})", soft_wrap=True)


def next(
    *,
    table: Annotated[str, typer.Option(help="The table of images, with their labels.")] = "images",
    predictions: Annotated[
        str, typer.Option(help="The table of classes, as dbinfer score made it.")
    ] = "predictions",
    options: dbinfer.NextOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The rows without a label of which the model is least sure, of all classes that it sees. With --embeddings they
    also differ from each other, and from the rows that have a label. They go into a table, the best first, with the
    class that the model sees. Label them, train again, score again, and ask again.

    Examples:

        $ dbinfer next --table scans --predictions answers --count 50
        public.scans_next: 50 of 500 candidates (digits@1)

        $ dbinfer next --table scans --predictions answers --embeddings vectors --into todo
    """
    report = dbinfer.next(table, predictions, options, dsn)
    if json:
        print_json(report.to_dict())
        return
    said = f" ({report.model})" if report.model else ""
    console.print(f"{report.into}: {report.rows} of {report.candidates} candidates{said}", soft_wrap=True)


def proxy(
    *,
    answers: Annotated[
        str, typer.Argument(metavar="ANSWERS", help="The table in which estimate or find has kept answers.")
    ] = "kept_answers",
    options: dbinfer.ProxyOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """A logistic regression on embeddings that are there, as those that you search by, learns from the answers that a
    large network has given. It writes how likely the question is true of each row, and prints what to write for
    `proxy` in dbinfer.find and dbinfer.estimate. They need fewer answers then, and however bad the proxy is, what they
    promise holds. Run it again when there are more answers.

    Examples:

        $ dbinfer proxy kept_answers --embeddings vectors
        public.kept_answers_proxy: 35900 rows, from 1106 answers, 112 of them true, to: label = '8'
        of unseen rows, a true one has a higher proxy than a false one in 99.21% of pairs; by fifths:

        $ dbinfer proxy kept_answers --embeddings vectors --question "label = '8'" --into eights
    """
    report = dbinfer.proxy(answers, options, dsn)
    if json:
        print_json(report.to_dict())
        return
    say(
        f"{report.into}: {report.rows} rows, from {report.answers} answers, {report.true} of them true, to: "
        f"{report.question.split(': ', 1)[-1].strip()}"
    )
    say(
        f"of unseen rows, a true one has a higher proxy than a false one in {report.auc:.2%} of pairs; by fifths:"
    )
    bands = [(f"{band.said:.3f}", f"{band.true:.3f}") for band in report.bands]
    print_table("calibration", ["mean proxy", "true"], bands)
    say(f"proxy => $$ {report.proxy} $$")


def label(
    *,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table of images.")] = "images",
    options: dbinfer.LabelOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Open the address that is printed in a browser: it shows one image after the other, with the class that the model
    sees. Enter accepts it, a key gives another one, Backspace takes the last answer back, `?` shows all keys. Each
    answer is a row with who and when, committed at once. Rows that have one are not asked for again, so stop when you
    like, with Ctrl-C. The address holds a token, and other machines do not reach it.

    Examples:

        $ dbinfer label scans
        50 rows of public.scans_next to label: http://127.0.0.1:38211/?token=Xw3...
        public.scans_labels: 50 labelled, 6 of them corrected; 0 left

        $ dbinfer label scans --todo answers --into checked --classes cat,dog --who anna

        $ dbinfer label shots --boxes --todo found

        $ dbinfer label scans --listen 127.0.0.1:8080 --json
    """
    # JSON stands alone
    report = dbinfer.label(table, replace(options, on_page=lambda told: say(told, err=json)), dsn)
    if json:
        print_json(report.to_dict())
        return
    say(
        f"{report.into}: {report.labelled} labelled, {report.corrected} of them corrected; {report.left} left"
    )
