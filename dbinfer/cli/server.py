"""demo, up, down, status, psql: the whole way on real images, and the embedded server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbinfer.cli.options import Json, print_json, say
from dbinfer.cli.progress import progress_bar

if TYPE_CHECKING:
    from dbinfer.server import ServerReport


def demo(
    dsn: Annotated[
        str | None, typer.Option("--dsn", help="Use this database instead of the embedded server.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for models, images and pictures.")] = Path("out/demo"),
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the statements and their results (.png).")
    ] = None,
) -> None:
    """Models, images and pictures go to out/demo. Without --dsn the demo starts the embedded server.

    Examples:

        $ dbinfer demo
        ...
        ==> Accuracy, computed in SQL on images that training never saw
            0.9916 of 359 images
        ...

        $ dbinfer demo --dsn "host=coordinator dbname=test user=gpadmin"

        $ dbinfer demo --picture first-look.png
    """

    from dbinfer.cli.options import Screen
    from dbinfer.demo import DemoOptions
    from dbinfer.demo import demo as play

    with progress_bar(console=Screen(soft_wrap=True)) as progress:
        play(DemoOptions(out, picture), dsn, progress)


# All options are psql's: the command line must not refuse those that it does not know
PSQL_CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}


def up(
    venv: Annotated[
        str | None,
        typer.Option(
            help="Virtual environment for the backends, also for later starts; 'own': the one in the state folder."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Everything it needs is kept in one folder: $DBINFER_HOME, by default /var/lib/dbinfer for root and the user's
    data folder for others.

    Examples:

        $ dbinfer up

        $ dbinfer up --venv /opt/backends

        $ DBINFER_HOME=/srv/dbinfer dbinfer up --json
    """
    from dbinfer.server import UpOptions
    from dbinfer.server import up as run

    own = venv == "own"
    with progress_bar() as progress:
        report = run(options=UpOptions(Path(venv) if venv and not own else None, own), progress=progress)
    _show(report, json)


def down(json: Json = False) -> None:
    """Its data stays. Start it again with `dbinfer up`.

    Examples:

        $ dbinfer down
        stopped; the data stays.
    """
    from dbinfer.server import down as run

    with progress_bar() as progress:
        report = run(progress=progress)
    if json:
        print_json(report.to_dict())
    else:
        say("stopped; the data stays." if report.changed else "the embedded server was not running.")


def status(json: Json = False) -> None:
    """This starts and changes nothing.

    Examples:

        $ dbinfer status

        $ dbinfer status --json
    """
    from dbinfer.server import status as run

    _show(run(), json)


def psql(context: typer.Context) -> None:
    """All arguments are passed on to psql.

    Examples:

        $ dbinfer psql

        $ dbinfer psql -c "SELECT name, version, task FROM dbinfer.models"
         name   | version |      task
        --------+---------+----------------
         digits |       1 | classification
        (1 row)
    """
    import shutil

    from dbinfer.base.errors import ServerError
    from dbinfer.database.connection import resolve
    from dbinfer.server import status as run

    dsn = resolve()
    own = run().bindir
    # That of the server's own version first: \d of another major version may fail
    program = shutil.which("psql", path=own) or shutil.which("psql")
    if program is None:
        raise ServerError("psql is not installed", "Install it: apt-get install postgresql-client")
    # In place of this process: terminal and Ctrl-C are psql's alone
    os.execv(program, [program, *([f"--dbname={dsn}"] if dsn else []), *context.args])


def _show(report: ServerReport, json: bool) -> None:
    if json:
        print_json(report.to_dict())
        return
    if not report.running:
        say(f"the embedded server is not running (state folder {report.home}). Start it with 'dbinfer up'.")
        return
    for name in ("version", "pid", "port", "socket_dir", "data_dir", "venv", "log", "cores", "processes"):
        say(f"{name:<12}{getattr(report, name)}")
    say(f'psql "{report.dsn}"')


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (demo, up, down, status):
        app.command()(command)
    app.command(context_settings=PSQL_CONTEXT)(psql)
