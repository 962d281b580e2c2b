"""install, upgrade, uninstall, doctor: dbinfer inside a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dbinfer.cli._options import Dsn, Json, console, print_json
from dbinfer.cli._progress import progress_bar

if TYPE_CHECKING:
    from dbinfer.backends import Check
    from dbinfer.install import InstallReport

Venv = Annotated[
    str | None,
    typer.Option(
        "--venv", help="Folder of the Python venv with openvino, numpy, opencv and orjson, on every host."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command(rich_help_panel="Database")(install)
    app.command(rich_help_panel="Database")(upgrade)
    app.command(rich_help_panel="Database")(uninstall)
    app.command(rich_help_panel="Database")(doctor)


def install(
    dsn: Dsn = None,
    venv: Venv = None,
    cache_dir: Annotated[
        str | None,
        typer.Option(help="Folder on every host for model files; default inside the data directory."),
    ] = None,
    threads: Annotated[str | None, typer.Option(help="Threads per backend: auto or a number.")] = None,
    max_models: Annotated[
        int | None, typer.Option(min=1, help="Models that one backend keeps loaded (4).")
    ] = None,
    max_image_bytes: Annotated[int | None, typer.Option(min=1, help="Largest image in bytes.")] = None,
    max_image_pixels: Annotated[int | None, typer.Option(min=1, help="Largest image in pixels.")] = None,
    json: Json = False,
) -> None:
    """Install dbinfer into a database, in one transaction.

    Run again it changes nothing but the settings that are named. Afterwards it asks the backends whether they can
    score; the exit status is 1 when one cannot, for example because the venv is missing.

    Examples:

        dbinfer install --dsn "host=coordinator dbname=shop user=gpadmin" --venv /opt/dbinfer/venv

        dbinfer install --threads 2
    """
    from dbinfer.install import InstallOptions
    from dbinfer.install import install as run

    options = InstallOptions(venv, cache_dir, threads, max_models, max_image_bytes, max_image_pixels)
    with progress_bar() as progress:
        report = run(options, dsn, progress)
    _say(report, json)
    if not report.ok:
        raise typer.Exit(1)


def upgrade(dsn: Dsn = None, json: Json = False) -> None:
    """Bring dbinfer in a database to this client's version, in one transaction.

    Examples:

        dbinfer upgrade --dsn "host=coordinator dbname=shop user=gpadmin"
    """
    from dbinfer.install import upgrade as run

    with progress_bar() as progress:
        _say(run(dsn, progress), json)


def uninstall(
    dsn: Dsn = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove dbinfer and its deployed models from a database, in one transaction.

    Examples:

        dbinfer uninstall --yes
    """
    from dbinfer.install import uninstall as run

    if not yes:
        typer.confirm("Remove dbinfer and all deployed models from this database?", abort=True)
    with progress_bar() as progress:
        _say(run(dsn, progress), json)


def doctor(dsn: Dsn = None, json: Json = False) -> None:
    """Check every place where functions run; exit 1 when something is wrong.

    Examples:

        dbinfer doctor

        dbinfer doctor --dsn "host=coordinator dbname=shop" --json
    """
    from dbinfer.doctor import doctor as run

    report = run(dsn)
    if json:
        print_json(report.to_dict())
    else:
        _show_checks(report.checks)
        console.print("[green]All is well.[/]" if report.ok else "[red]Something is wrong.[/]")
    raise typer.Exit(0 if report.ok else 1)


def _say(report: InstallReport, json: bool) -> None:
    if json:
        print_json(report.to_dict())
        return
    console.print(report.message, markup=False)
    if not report.ok:
        console.print("These backends cannot score yet:")
        _show_checks(report.problems)


def _show_checks(checks: Sequence[Check]) -> None:
    """Print a line a check and no table: a cure is a command to copy, which no line break may cut."""
    for check in checks:
        state = Text("ok  ", "green") if check.ok else Text("FAIL", "red")
        console.print(state, Text(f" {check.name}: {check.detail}"), sep="", soft_wrap=True)
        if check.hint:
            console.print(Text(f"      {check.hint}"), soft_wrap=True)
