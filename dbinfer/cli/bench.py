"""Commands of the group 'bench'."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dbinfer.base.errors import UsageError
from dbinfer.bench.report import (
    BenchOptions,
    environment_lines,
    isolation_table,
    profile_table,
    speed_table,
    target_table,
)
from dbinfer.cli.options import Dsn, Json, Only, spread
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import console, print_json, print_table, say

# What the command measured before, and the scripts of a clone that do now
MOVED = {
    "scaling": "make bench, or python tests/bench/publish.py scaling",
    "growth": "make bench, or python tests/bench/publish.py scaling",
    "train": "python tests/bench/training.py",
    "plan": "python tests/bench/forecasts.py",
}
HELP = """Without --dsn this measures the embedded server and starts it if necessary. The networks are built once, which
needs TensorFlow, and kept in the state folder. Images and models get database objects of their own, which are
dropped at the end. A full run takes less than 30 minutes on 2 cores, --quick about 3.

Examples:

    $ dbinfer bench --quick

    $ dbinfer bench --network resnet50 --precision f32,int8 --methods sql,bare --dsn "host=gp dbname=images"

    $ dbinfer bench --json > bench.json

    $ dbinfer bench engine
"""
ENGINE_HELP = """Measure the engine beside in-process scoring, by turns in one run.

Speed of whole statements, what a statement pays before its first row, the first row of a fresh session, memory of
one session and of 32, a single row beside a long scan, and how long a cancel takes. It sets the isolation of models
of its own only. This takes about 4 minutes.

Examples:

    $ dbinfer bench engine

    $ dbinfer bench engine --rounds 5 --json > engine.json
"""


def _today(args: list[str], commands: Sequence[str] = ()) -> list[str]:
    """Return arguments in which `--json FILE` of 0.1.0 is told from `--json`, which takes no file."""
    found: list[str] = []
    for word in args:
        if word.startswith("--json="):
            found += ["--json-file", word.removeprefix("--json=")]
        elif found and found[-1] == "--json" and not word.startswith("-") and word not in commands:
            found[-1:] = ["--json-file", word]
        else:
            found.append(word)
    return found


class _Command(TyperCommand):
    """A command that takes `--json FILE`, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was said, as it is said today."""
        return super().parse_args(ctx, _today(args))


class _Group(TyperGroup):
    """The group; see `_Command`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was said, as it is said today."""
        return super().parse_args(ctx, _today(args, list(self.commands)))


JsonFile = Annotated[
    Path | None, typer.Option("--json-file", hidden=True, help="FILE of --json FILE, as in 0.1.0.")
]
Moved = Annotated[Path | None, typer.Option(hidden=True, help="Of 0.1.0; make bench has it now.")]
bench = typer.Typer(cls=_Group, help=HELP, invoke_without_command=True, rich_markup_mode="markdown")


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.add_typer(bench, name="bench")


@bench.callback()
@spread
def _bench(
    ctx: typer.Context,
    *,
    options: BenchOptions,
    dsn: Dsn = None,
    as_json: Json = False,
    json_file: JsonFile = None,
    plot: Moved = None,
    markdown: Moved = None,
    tensorflow: Moved = None,
) -> None:
    # `dbinfer bench engine` comes through here, too
    if ctx.invoked_subcommand is not None:
        return
    for name, given in (("plot", plot), ("markdown", markdown), ("tensorflow", tensorflow)):
        if given:
            raise UsageError(
                f"--{name} has moved out of the package", "In a clone: make bench writes page and pictures."
            )
    from dbinfer.bench import bench as measure

    with progress_bar(steps=True) as progress:
        report = measure(options, dsn, progress).to_dict()
    _tell(report, as_json, json_file, _show)


@bench.command("engine", cls=_Command, help=ENGINE_HELP)
def _engine(
    options: Annotated[BenchOptions, Only(["seconds", "rounds", "keep"])],
    dsn: Dsn = None,
    as_json: Json = False,
    json_file: JsonFile = None,
) -> None:
    from dbinfer.bench import bench_isolation

    with progress_bar(steps=True) as progress:
        report = bench_isolation(options, dsn, progress).to_dict()
    _tell(report, as_json, json_file, _show_engine)


def _moved(ctx: typer.Context) -> None:
    name = str(ctx.info_name)
    raise UsageError(f"bench {name} has moved out of the package", f"In a clone: {MOVED[name]}")


for _name in MOVED:
    bench.command(
        _name, hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
    )(_moved)


def _tell(
    report: dict[str, Any], as_json: bool, file: Path | None, show: Callable[[dict[str, Any]], None]
) -> None:
    if file:
        say("hint: --json takes no file now: --json > FILE", err=True)
        file.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        print_json(report)
    else:
        show(report)


def _show(report: dict[str, Any]) -> None:
    rows = report["results"]
    for title, table in (("Images per second", speed_table), ("One row in a backend", profile_table)):
        print_table(title, *table(rows))
    _print_environment(report)
    print_table("Must hold", *target_table(rows))


def _show_engine(report: dict[str, Any]) -> None:
    _print_environment(report)
    print_table("Engine and in-process", *isolation_table(report["isolation"]))


def _print_environment(report: dict[str, Any]) -> None:
    for line in environment_lines(report["environment"]):
        console.print(line, soft_wrap=True)
