"""install, upgrade, uninstall, doctor, cache, metrics, engine: dbinfer inside a database and on its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import dbinfer
from dbinfer.cli.options import Dsn, Json
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import bytes_text, console, print_json, print_table, say

if TYPE_CHECKING:
    from dbinfer.database.backends import Check


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (install, upgrade, uninstall, doctor, cache, metrics):
        app.command()(command)
    engine = typer.Typer(help=ENGINE_HELP, no_args_is_help=True)
    for question in (status, stop, run):
        engine.command()(question)
    app.add_typer(engine, name="engine")


def install(*, options: dbinfer.InstallOptions, dsn: Dsn = None, json: Json = False) -> None:
    """If dbinfer is already installed, this changes only the settings that you name. At the end, every backend is asked
    whether it can score. The exit status is 1 when one cannot, for example because its virtual environment is missing.

    Examples:

        $ dbinfer install --dsn "host=coordinator dbname=shop user=gpadmin" --venv /opt/dbinfer/venv

        $ dbinfer install --threads 2

        $ dbinfer install --isolation always
    """
    with progress_bar() as progress:
        report = dbinfer.install(options, dsn, progress)
    _say(report, json)
    if not report.ok:
        raise typer.Exit(1)


def upgrade(*, options: dbinfer.UpgradeOptions, dsn: Dsn = None, json: Json = False) -> None:
    """Open sessions use the new version from their next statement on.

    Examples:

        $ dbinfer upgrade --dsn "host=coordinator dbname=shop user=gpadmin"
    """
    with progress_bar() as progress:
        _say(dbinfer.upgrade(options, dsn, progress), json)


def uninstall(
    dsn: Dsn = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Nothing is removed while other objects, such as views of yours, depend on dbinfer.

    Examples:

        $ dbinfer uninstall --yes
    """
    if not yes:
        typer.confirm("Remove dbinfer and all deployed models from this database?", abort=True)
    with progress_bar() as progress:
        _say(dbinfer.uninstall(dsn, progress), json)


def doctor(
    *,
    options: dbinfer.DoctorOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The exit status is 1 when something is wrong, or when the plan of --query moves images off their segments.

    Examples:

        $ dbinfer doctor
        ok   server: postgresql 15.20
        ok   version: database 0.9.0, client 0.8.0
        ...
        All is well.

        $ dbinfer doctor --dsn "host=coordinator dbname=shop" --json

        $ dbinfer doctor --query "SELECT json_agg(dbinfer.predict(img)) FROM images"
    """
    report = dbinfer.doctor(options, dsn)
    if json:
        print_json(report.to_dict())
    else:
        _show_checks(report.checks)
        console.print(
            "All is well." if report.ok else "Something is wrong.", style="green" if report.ok else "red"
        )
    raise typer.Exit(0 if report.ok else 1)


def _say(report: dbinfer.InstallReport, json: bool) -> None:
    if json:
        print_json(report.to_dict())
        return
    say(report.message)
    if not report.ok:
        console.print("These backends cannot score yet:")
        _show_checks(report.problems)


def _show_checks(checks: Sequence[Check]) -> None:
    """Print a line a check and no table: a hint is a command to copy, which no line break may cut."""
    for check in checks:
        good = Text("note", "yellow") if check.hint else Text("ok  ", "green")
        state = good if check.ok else Text("FAIL", "red")
        console.print(state, Text(f" {check.name}: {check.detail}"), sep="", soft_wrap=True)
        if check.hint:
            console.print(Text(f"      {check.hint}"), soft_wrap=True)


def cache(*, options: dbinfer.CacheOptions, dsn: Dsn = None, json: Json = False) -> None:
    """If several databases share a cache, it also holds the models of the others; --prune leaves those alone.

    Examples:

        $ dbinfer cache

        $ dbinfer cache --prune --json
    """
    with progress_bar() as progress:
        report = dbinfer.cache(options, dsn, progress)
    if json:
        print_json(report.to_dict())
        return
    rows = [
        [_where(c.content), c.host, c.folder, c.models, bytes_text(c.used_bytes), bytes_text(c.free_bytes)]
        for c in report.caches
    ]
    print_table("caches", ["segment", "host", "folder", "models", "size", "free"], rows, drop=("segment",))
    if options.prune:
        count, size = (sum(getattr(c, name) for c in report.caches) for name in ("removed", "removed_bytes"))
        console.print(f"{count} {'model' if count == 1 else 'models'} removed, {bytes_text(size)}.")


def metrics(*, options: dbinfer.MetricsOptions, dsn: Dsn = None) -> None:
    """Everything comes from views, as a role that sees them: a member of pg_monitor sees what all roles did.

    Examples:

        $ dbinfer metrics --dsn "host=coordinator dbname=shop user=monitor"
        serving http://127.0.0.1:9187/metrics

        $ dbinfer metrics --once
    """
    report = dbinfer.metrics(options, dsn, lambda event: say(event.step))
    for line in report.text.splitlines():
        say(line)


def _where(content: int | None) -> str:
    if content is None:
        return ""
    return "coordinator" if content == -1 else str(content)


ENGINE_HELP = """A backend that needs the engine starts it, so you need not. Run it as a service to give it the limits
of a user of its own, or to keep it running between sessions.

Examples:

    $ dbinfer engine status

    $ dbinfer engine run --venv /opt/dbinfer/venv
"""


def status(dsn: Dsn = None, json: Json = False) -> None:
    """Show the engines of the database's hosts, with their models and memory.

    Examples:

        $ dbinfer engine status

        $ dbinfer engine status --json
    """
    report = dbinfer.engine(None, dsn)
    if json:
        print_json(report.to_dict())
        return
    columns = [
        "host",
        "pid",
        "up",
        "models",
        "memory",
        "requests",
        "errors",
        "restarts",
        "waiting",
        "problem",
    ]
    rows = [
        [
            found.host,
            found.pid,
            None if found.uptime is None else f"{found.uptime:.0f} s",
            "\n".join(f"{m['model']}@{m['version']}" for m in found.models),
            bytes_text(found.bytes),
            found.requests,
            found.errors,
            found.restarts,
            found.queue,
            found.problem,
        ]
        for found in report.engines
    ]
    print_table("engines", columns, rows, drop=("restarts", "errors", "up"))
    if not rows:
        console.print("No engine is running; the first row that needs one starts it.")


def stop(dsn: Dsn = None, json: Json = False) -> None:
    """Tell the engines of the database's hosts to finish their running work and end.

    The next row that needs an engine starts another. An engine that runs as a service is restarted by its manager.

    Examples:

        $ dbinfer engine stop
    """
    report = dbinfer.engine(dbinfer.EngineOptions(stop=True), dsn)
    if json:
        print_json(report.to_dict())
        return
    console.print("The engines finish their running work and end.")


def run(*, options: dbinfer.ServiceOptions) -> None:
    """Run as the engine of this host, a service, until told to stop.

    Run it as the operating-system user of the database server. Client and database must have the same version.

    Examples:

        $ dbinfer engine run --venv /opt/dbinfer/venv --dir /run/dbinfer-engine
    """
    from dbinfer.install.hosts import serve

    raise typer.Exit(serve(options))
