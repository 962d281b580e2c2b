"""install, upgrade, uninstall, doctor, cache, engine: dbinfer inside a database and on its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dbinfer.cli.options import (
    Dsn,
    EngineDir,
    EngineIdle,
    EngineMemory,
    Isolation,
    Json,
    Usage,
    bytes_text,
    console,
    print_json,
    print_table,
    say,
)
from dbinfer.cli.progress import progress_bar

if TYPE_CHECKING:
    from dbinfer.database.backends import Check
    from dbinfer.install import InstallReport


Venv = Annotated[
    str | None,
    typer.Option(
        "--venv",
        help="Virtual environment with openvino, numpy, opencv and orjson, at this path on every host.",
    ),
]

AdoptRole = Annotated[
    bool,
    typer.Option("--adopt-role", help="Use an existing role dbinfer_admin; its members may then deploy."),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (install, upgrade, uninstall, doctor, cache):
        app.command()(command)
    engine = typer.Typer(help=ENGINE_HELP, no_args_is_help=True)
    for question in (status, stop, run):
        engine.command()(question)
    app.add_typer(engine, name="engine")


def install(
    dsn: Dsn = None,
    venv: Venv = None,
    cache_dir: Annotated[
        str | None,
        typer.Option(help="Folder for model files on every host. Default: in the data directory."),
    ] = None,
    cache_limit_mb: Annotated[
        int | None,
        typer.Option(min=1, help="Size of that folder before models unused for longest go. Default: 10240."),
    ] = None,
    threads: Annotated[str | None, typer.Option(help="Threads per backend: 'auto' or a number.")] = None,
    max_models: Annotated[
        int | None, typer.Option(min=1, help="How many models a backend keeps loaded. Default: 4.")
    ] = None,
    max_image_bytes: Annotated[int | None, typer.Option(min=1, help="Largest image in bytes.")] = None,
    max_image_pixels: Annotated[int | None, typer.Option(min=1, help="Largest image in pixels.")] = None,
    max_compile_seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Refuse a model that takes longer to compile. Default: 120.")
    ] = None,
    max_inference_seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Refuse a model that takes longer to score one image. Default: 30."),
    ] = None,
    max_model_mb: Annotated[
        int | None, typer.Option(min=1, help="Refuse a model that takes more memory. Default: 4096.")
    ] = None,
    min_free_mb: Annotated[
        int | None,
        typer.Option(min=0, help="Memory of a host that must stay free when a model is loaded. Default: 64."),
    ] = None,
    isolation: Isolation = None,
    engine_dir: EngineDir = None,
    engine_idle_seconds: EngineIdle = None,
    engine_memory_mb: EngineMemory = None,
    usage: Usage = None,
    adopt_role: AdoptRole = False,
    json: Json = False,
) -> None:
    """If dbinfer is installed already, this changes only the settings that you name. At the end every backend is asked
    whether it can score. The exit status is 1 when one cannot, for example because the virtual environment is missing.

    Examples:

        $ dbinfer install --dsn "host=coordinator dbname=shop user=gpadmin" --venv /opt/dbinfer/venv

        $ dbinfer install --threads 2

        $ dbinfer install --isolation always
    """
    from dbinfer.install import InstallOptions
    from dbinfer.install import install as run

    options = InstallOptions(
        venv=venv,
        cache_dir=cache_dir,
        cache_limit_mb=cache_limit_mb,
        threads=threads,
        max_models=max_models,
        max_image_bytes=max_image_bytes,
        max_image_pixels=max_image_pixels,
        max_compile_seconds=max_compile_seconds,
        max_inference_seconds=max_inference_seconds,
        max_model_mb=max_model_mb,
        min_free_mb=min_free_mb,
        isolation=isolation,
        engine_dir=engine_dir,
        engine_idle_seconds=engine_idle_seconds,
        engine_memory_mb=engine_memory_mb,
        usage=usage,
        adopt_role=adopt_role,
    )
    with progress_bar() as progress:
        report = run(options, dsn, progress)
    _say(report, json)
    if not report.ok:
        raise typer.Exit(1)


def upgrade(dsn: Dsn = None, adopt_role: AdoptRole = False, json: Json = False) -> None:
    """Open sessions use the new version from their next statement on.

    Examples:

        $ dbinfer upgrade --dsn "host=coordinator dbname=shop user=gpadmin"
    """
    from dbinfer.install import UpgradeOptions
    from dbinfer.install import upgrade as run

    with progress_bar() as progress:
        _say(run(UpgradeOptions(adopt_role), dsn, progress), json)


def uninstall(
    dsn: Dsn = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """It refuses as long as other objects, such as views of yours, depend on dbinfer.

    Examples:

        $ dbinfer uninstall --yes
    """
    from dbinfer.install import uninstall as run

    if not yes:
        typer.confirm("Remove dbinfer and all deployed models from this database?", abort=True)
    with progress_bar() as progress:
        _say(run(dsn, progress), json)


def doctor(
    *,
    query: Annotated[
        str | None, typer.Option(help="A statement: say whether its plan moves images. It is not run.")
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The exit status is 1 when something is wrong; so it is where the plan of --query moves images off their segments.

    Examples:

        $ dbinfer doctor
        ok   server: postgresql 15.20
        ok   version: database 0.2.0, client 0.2.0
        ...
        All is well.

        $ dbinfer doctor --dsn "host=coordinator dbname=shop" --json

        $ dbinfer doctor --query "SELECT json_agg(dbinfer.predict(img)) FROM images"
    """
    from dbinfer.install.doctor import DoctorOptions
    from dbinfer.install.doctor import doctor as run

    report = run(DoctorOptions(query), dsn)
    if json:
        print_json(report.to_dict())
    else:
        _show_checks(report.checks)
        console.print(
            "All is well." if report.ok else "Something is wrong.", style="green" if report.ok else "red"
        )
    raise typer.Exit(0 if report.ok else 1)


def _say(report: InstallReport, json: bool) -> None:
    if json:
        print_json(report.to_dict())
        return
    say(report.message)
    if not report.ok:
        console.print("These backends cannot score yet:")
        _show_checks(report.problems)


def _show_checks(checks: Sequence[Check]) -> None:
    """Print a line a check and no table: a cure is a command to copy, which no line break may cut."""
    for check in checks:
        good = Text("note", "yellow") if check.hint else Text("ok  ", "green")
        state = good if check.ok else Text("FAIL", "red")
        console.print(state, Text(f" {check.name}: {check.detail}"), sep="", soft_wrap=True)
        if check.hint:
            console.print(Text(f"      {check.hint}"), soft_wrap=True)


def cache(
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove models that no version uses, idle for an hour.")
    ] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """A cache that several databases share holds models of the others too; --prune leaves those alone.

    Examples:

        $ dbinfer cache

        $ dbinfer cache --prune --json
    """
    from dbinfer.install.cache import CacheOptions
    from dbinfer.install.cache import cache as run

    with progress_bar() as progress:
        report = run(CacheOptions(prune), dsn, progress)
    if json:
        print_json(report.to_dict())
        return
    rows = [
        [_where(c.content), c.host, c.folder, c.models, bytes_text(c.used_bytes), bytes_text(c.free_bytes)]
        for c in report.caches
    ]
    print_table("caches", ["segment", "host", "folder", "models", "size", "free"], rows, drop=("segment",))
    if prune:
        count, size = (sum(getattr(c, name) for c in report.caches) for name in ("removed", "removed_bytes"))
        console.print(f"{count} {'model' if count == 1 else 'models'} removed, {bytes_text(size)}.")


def _where(content: int | None) -> str:
    if content is None:
        return ""
    return "coordinator" if content == -1 else str(content)


ENGINE_HELP = """A backend that needs the engine starts it, so there is nothing to do. Run it as a service to give it a
user's limits, or to keep it between sessions.

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
    from dbinfer.install.engine import engine

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
    from dbinfer.install.engine import EngineOptions, engine

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
    from dbinfer.install.engine import ServiceOptions, serve

    raise typer.Exit(serve(ServiceOptions(venv, folder, memory_mb)))
