"""engine: the processes that score for all sessions of a host."""

from __future__ import annotations

from typing import Annotated

import typer

from dbinfer.cli._options import Dsn, Json, bytes_text, console, print_json, print_table

HELP = """A backend that needs the engine starts it, so there is nothing to do. Run it as a service to give it a
user's limits, or to keep it between sessions.

Examples:

    $ dbinfer engine status

    $ dbinfer engine run --venv /opt/dbinfer/venv
"""


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    group = typer.Typer(help=HELP, no_args_is_help=True)
    group.command()(status)
    group.command()(stop)
    group.command()(run)
    app.add_typer(group, name="engine")


def status(dsn: Dsn = None, json: Json = False) -> None:
    """Show the engines of the database's hosts, with their models and memory.

    Examples:

        $ dbinfer engine status

        $ dbinfer engine status --json
    """
    from dbinfer.engine import engine

    report = engine(None, dsn)
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
        console.print("No engine runs; the first row that needs one starts it.")


def stop(dsn: Dsn = None, json: Json = False) -> None:
    """Tell the engines of the database's hosts to finish what runs and go.

    The next row that needs an engine starts another. A service is started again by whoever watches it.

    Examples:

        $ dbinfer engine stop
    """
    from dbinfer.engine import EngineOptions, engine

    report = engine(EngineOptions(stop=True), dsn)
    if json:
        print_json(report.to_dict())
        return
    console.print("The engines finish what runs and go.")


def run(
    venv: Annotated[
        str, typer.Option(help="Virtual environment of the backends, whose Python runs the engine.")
    ] = "/opt/dbinfer/venv",
    folder: Annotated[
        str | None,
        typer.Option("--dir", help="Folder of its sockets. Default: /run/dbinfer-engine, else below /tmp."),
    ] = None,
    memory_mb: Annotated[
        int | None, typer.Option(min=1, help="Memory of all its models. Default: half of the host's.")
    ] = None,
) -> None:
    """Be the engine of this host, as a service: until it is told to stop.

    Run it as the operating-system user of the database server, with the client's version that the database has.

    Examples:

        $ dbinfer engine run --venv /opt/dbinfer/venv --dir /run/dbinfer-engine
    """
    from dbinfer.engine import ServiceOptions, serve

    raise typer.Exit(serve(ServiceOptions(venv, folder, memory_mb)))
