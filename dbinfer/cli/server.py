"""Commands of the group 'server': up, down, status and psql of the embedded server."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from dbinfer.server import Server

Json = Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")]
PSQL_CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}


def up(
    venv: Annotated[
        str | None,
        typer.Option(
            help="A virtual environment for the backends; it is remembered. 'own': the state folder's."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Set up and start the embedded PostgreSQL server, with dbinfer installed in it.

    The state folder is $DBINFER_HOME, else /var/lib/dbinfer (root), else the user's data folder.

    **Examples**

        dbinfer up

        dbinfer up --venv /opt/backends

        DBINFER_HOME=/srv/dbinfer dbinfer up --json
    """
    from dbinfer import server

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    own = venv == "own"
    with console.status("starting the embedded server"):
        started = server.up(
            venv=Path(venv) if venv and not own else None,
            own_venv=own,
            say=lambda text: console.print(text, markup=False),
        )
    _show(started, as_json)


def down(as_json: Json = False) -> None:
    """Stop the embedded server; its data stays.

    **Examples**

        dbinfer down
    """
    from dbinfer import server

    stopped = server.down(say=lambda text: typer.echo(text, err=True))
    if as_json:
        typer.echo(json.dumps({"stopped": stopped, "running": False}))
    else:
        typer.echo("stopped; the data stays." if stopped else "the embedded server was not running.")


def status(as_json: Json = False) -> None:
    """Show whether the embedded server runs, where it is, and how to connect with psql.

    **Examples**

        dbinfer status

        dbinfer status --json
    """
    from dbinfer import server

    _show(server.status(), as_json)


def psql(context: typer.Context) -> None:
    """Open psql on the server that dbinfer uses; all arguments go to psql.

    **Examples**

        dbinfer psql

        dbinfer psql -c "SELECT * FROM dbinfer.models"
    """
    import shutil

    from dbinfer import server
    from dbinfer.dsn import resolve
    from dbinfer.errors import ServerError

    dsn = resolve()
    own = server.status().bindir
    program = shutil.which("psql", path=own) or shutil.which("psql")
    if program is None:
        raise ServerError("psql is not installed.", "Install it: apt-get install postgresql-client")
    os.execv(program, [program, *([f"--dbname={dsn}"] if dsn else []), *context.args])


def _show(facts: Server, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(facts), default=str, indent=1))
        return
    if not facts.running:
        typer.echo(
            f"the embedded server is not running (state folder {facts.home}). Start it with 'dbinfer up'."
        )
        return
    for name in ("version", "pid", "port", "socket_dir", "data_dir", "venv", "log", "cores", "processes"):
        typer.echo(f"{name:<12}{getattr(facts, name)}")
    typer.echo(f'psql "{facts.dsn}"')


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.command(context_settings=PSQL_CONTEXT)(psql)
