"""install, upgrade, uninstall, doctor: dbinfer inside a database."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from dbinfer.cli._options import Dsn, Json, console, print_json, print_table

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

    Run again it says so and changes nothing but the settings that are named.

    Examples:

        dbinfer install --dsn "host=coordinator dbname=shop user=gpadmin" --venv /opt/dbinfer/venv

        dbinfer install --threads 2
    """
    from dbinfer.install import install as run

    named = {
        "venv": venv,
        "cache_dir": cache_dir,
        "threads": threads,
        "max_models": max_models,
        "max_image_bytes": max_image_bytes,
        "max_image_pixels": max_image_pixels,
    }
    if threads is not None and threads != "auto" and not (threads.isdigit() and int(threads) > 0):
        from dbinfer.errors import UsageError

        raise UsageError(f"--threads is {threads!r}, but must be 'auto' or a positive number.")
    _say(run(dsn, {key: str(value) for key, value in named.items() if value is not None}), json)


def upgrade(dsn: Dsn = None, json: Json = False) -> None:
    """Bring dbinfer in a database to this client's version, in one transaction.

    Examples:

        dbinfer upgrade --dsn "host=coordinator dbname=shop user=gpadmin"
    """
    from dbinfer.install import upgrade as run

    _say(run(dsn), json)


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
    _say(run(dsn), json)


def doctor(dsn: Dsn = None, json: Json = False) -> None:
    """Check every place where functions run; exit 1 when something is wrong.

    Examples:

        dbinfer doctor

        dbinfer doctor --dsn "host=coordinator dbname=shop" --json
    """
    from dbinfer.doctor import examine

    checks = examine(dsn)
    ok = all(check.ok for check in checks)
    if json:
        print_json({"ok": ok, "checks": [asdict(check) for check in checks]})
    else:
        rows = [["[green]ok[/]" if c.ok else "[red]FAIL[/]", c.name, c.detail, c.hint] for c in checks]
        print_table("dbinfer doctor", ["", "check", "found", "what to do"], rows)
        console.print("[green]All is well.[/]" if ok else "[red]Something is wrong.[/]")
    raise typer.Exit(0 if ok else 1)


def _say(outcome: object, json: bool) -> None:
    if json:
        print_json(asdict(outcome))  # type: ignore[call-overload]
    else:
        console.print(outcome.message)  # type: ignore[attr-defined]
