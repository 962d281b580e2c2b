"""jobs: what dbinfer score is doing, has done, and shall no longer do."""

from __future__ import annotations

from typing import Annotated

import typer

from dbinfer.cli._options import Dsn, Json, console, print_json, print_table

JOBS_HELP = """You see your own jobs; administrators see all. A job is lost if its client is gone without a word; run
the same command again to go on.

Examples:

    $ dbinfer jobs

    $ dbinfer jobs --limit 3 --json

    $ dbinfer jobs cancel 12
"""
jobs = typer.Typer(help=JOBS_HELP, invoke_without_command=True, rich_markup_mode="markdown")


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.add_typer(jobs, name="jobs")


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
