"""demo, up, down, status, psql, host-venv: the tour on real images, the embedded server, and what hosts import."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

import dbinfer
from dbinfer.base.errors import ServerError
from dbinfer.cli.options import Json
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import Screen, print_json, say


def demo(
    *,
    dsn: Annotated[
        str | None, typer.Option("--dsn", help="Use this database instead of the embedded server.")
    ] = None,
    options: dbinfer.DemoOptions,
) -> None:
    """Models, images and pictures go to out/demo. Without --dsn, the demo starts the embedded server.

    Examples:

        $ dbinfer demo
        ...
        ==> Accuracy, computed in SQL on images that training never saw
            0.9916 of 359 images
        ...

        $ dbinfer demo --dsn "host=coordinator dbname=test user=gpadmin"

        $ dbinfer demo --picture first-look.png
    """
    with progress_bar(console=Screen(soft_wrap=True)) as progress:
        dbinfer.demo(options, dsn, progress)


def host_venv(
    folder: Annotated[
        str, typer.Argument(help="Where the environment is, or shall be; the same on all hosts.")
    ],
    json: Json = False,
    *,
    options: dbinfer.HostVenvOptions,
) -> None:
    """pip takes the versions that this release names, and no file whose digest it does not know. An environment that is
    there already is checked: the Python of PL/Python, the packages, who may write it, whether the server can read it.

    Examples:

        $ dbinfer host-venv /opt/dbinfer/venv
        /opt/dbinfer/venv: Python 3.11, made, tried as postgres
          numpy 2.4.6, obstore 0.12.1, opencv-python-headless 5.0.0.93, openvino 2026.4.1, ...
        next: dbinfer install --venv /opt/dbinfer/venv

        $ dbinfer host-venv packages --download

        $ dbinfer host-venv /opt/dbinfer/venv --offline packages

        $ dbinfer host-venv packages --download --python-version 3.9
    """
    with progress_bar() as progress:
        report = dbinfer.host_venv(folder, options, progress)
    if json:
        print_json(report.to_dict())
        return
    if report.user:
        how = f"{'made' if report.new else 'as it should be'}, tried as {report.user}"
        then = f"dbinfer install --venv {report.folder}"
    else:
        how = "packages"
        then = f"on each host: dbinfer host-venv /opt/dbinfer/venv --offline {report.folder.name}"
    say(f"{report.folder}: Python {report.python}, {how}")
    say(f"  {', '.join(f'{name} {version}' for name, version in report.packages.items())}")
    say(f"next: {then}")


# All options are psql's: the command line must not refuse those that it does not know
PSQL_CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}


def up(
    venv: Annotated[
        str | None,
        typer.Option(
            help="Virtual environment for the backends, kept for later starts; 'own': the one in the state folder."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Everything it needs is in one folder, $DBINFER_HOME: by default /var/lib/dbinfer for root, and a folder in the
    user's data directory for others.

    Examples:

        $ dbinfer up

        $ dbinfer up --venv /opt/backends

        $ DBINFER_HOME=/srv/dbinfer dbinfer up --json
    """
    own = venv == "own"
    with progress_bar() as progress:
        options = dbinfer.UpOptions(Path(venv) if venv and not own else None, own)
        report = dbinfer.up(options=options, progress=progress)
    _show(report, json)


def down(json: Json = False) -> None:
    """The data stays. Start the server again with `dbinfer up`.

    Examples:

        $ dbinfer down
        stopped; the data stays.
    """
    with progress_bar() as progress:
        report = dbinfer.down(progress=progress)
    if json:
        print_json(report.to_dict())
    else:
        say("stopped; the data stays." if report.changed else "the embedded server was not running.")


def status(json: Json = False) -> None:
    """It neither starts nor changes anything.

    Examples:

        $ dbinfer status

        $ dbinfer status --json
    """
    _show(dbinfer.status(), json)


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
    from dbinfer.database.connection import resolve

    dsn = resolve()
    own = dbinfer.status().bindir
    # That of the server's own version first: \d of another major version may fail
    program = shutil.which("psql", path=own) or shutil.which("psql")
    if program is None:
        raise ServerError("psql is not installed", "Install it: apt-get install postgresql-client")
    # In place of this process: terminal and Ctrl-C are psql's alone
    os.execv(program, [program, *([f"--dbname={dsn}"] if dsn else []), *context.args])


def _show(report: dbinfer.ServerReport, json: bool) -> None:
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
    for command in (demo, host_venv, up, down, status):
        app.command()(command)
    app.command(context_settings=PSQL_CONTEXT)(psql)
