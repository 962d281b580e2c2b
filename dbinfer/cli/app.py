"""The application: the table of its commands, its errors and its exit codes (0 done, 1 failed, 2 wrong usage)."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from dbinfer.base.errors import DbinferError, harmless
from dbinfer.base.version import __version__

# as Rich, which prints the rest: no-color.org
COLOR = False if os.environ.get("NO_COLOR") else None


class Command(NamedTuple):
    """What `dbinfer --help` says of a command, and the module that is imported when it is called."""

    panel: str
    module: str
    line: str


# The line opens the command's own help, too, and stands nowhere else
COMMANDS = {
    name: Command(panel, module, line)
    for panel, commands in {
        "Start here": {
            "demo": (
                "server",
                "Train, convert, deploy, load and score real images: a few minutes the first time, then seconds.",
            ),
        },
        "Embedded server": {
            "up": (
                "server",
                "Set up and start the embedded PostgreSQL server, with dbinfer installed in it.",
            ),
            "down": ("server", "Stop the embedded server."),
            "status": (
                "server",
                "Show whether the embedded server is running, where its files are, and how to connect.",
            ),
            "psql": ("server", "Open psql on the database that dbinfer uses."),
        },
        "Database": {
            "host-venv": (
                "server",
                "Make or check the virtual environment that a host's backends import from.",
            ),
            "install": ("database", "Install dbinfer into a database, in one transaction."),
            "upgrade": (
                "database",
                "Upgrade dbinfer in a database to this client's version, in one transaction.",
            ),
            "uninstall": (
                "database",
                "Remove dbinfer and all deployed models from a database, in one transaction.",
            ),
            "doctor": (
                "database",
                "Check the database, its runtime and every process that scores, and say how to repair any fault.",
            ),
            "cache": (
                "database",
                "Show each host's cache of model files, and remove what no version uses.",
            ),
            "metrics": (
                "database",
                "Serve what was scored, jobs, engines, segments and caches as metrics for Prometheus.",
            ),
            "engine": ("database", "Show, stop or run the engine, which scores for all sessions of a host."),
        },
        "Models": {
            "convert": (
                "convert",
                "Convert a trained model to OpenVINO IR, and check that both give the same results.",
            ),
            "deploy": (
                "models",
                "Store a model in the database, so that every session on every host can score with it.",
            ),
            "models": ("models", "List the deployed models."),
            "activate": ("models", "Choose the version that a model's plain name means."),
            "alias": ("models", "Give a version a second name."),
            "default": ("models", "Choose the default model."),
            "drop": ("models", "Remove one version of a model, or the whole model."),
            "grant": ("models", "Let a role run a model."),
            "revoke": ("models", "Take the right to run a model from a role."),
            "usage": (
                "models",
                "List who scored how many rows with which version, in how many seconds, and when last.",
            ),
            "quantize": (
                "convert",
                "Quantize a model to INT8 with NNCF, calibrated on images from the database, and check the result.",
            ),
            "judge": (
                "models",
                "Measure how well a model finds objects, against true boxes: COCO's mean average precision.",
            ),
            "train": ("train", "Train a network of the zoo, on one core or on many ranks."),
            "tune": (
                "train",
                "Search for the options that train the best model, with Optuna; every trial is a row of the database.",
            ),
        },
        "Images": {
            "load": (
                "images",
                "Load image files into a table. Files that the table already has are skipped.",
            ),
            "predict": (
                "images",
                "Score image files from this machine in the database and print the results. Nothing is stored.",
            ),
            "sample": ("images", "Load sample images into a table, with a column that says what they show."),
            "report": (
                "images",
                "Write an HTML report on a table of results: what came out, how good it is, what to check.",
            ),
            "next": (
                "images",
                "Choose the rows of a table whose labels would teach a classifier most.",
            ),
            "proxy": (
                "images",
                "Learn from kept answers how likely a question is true of each row, so that find costs less.",
            ),
            "label": (
                "images",
                "Label rows with the keyboard, on a page for this machine alone: accept or correct what a model sees.",
            ),
            "score": (
                "images",
                "Score a table of images into a table of results, inside the database and on all its cores.",
            ),
            "export": (
                "images",
                "Write each row of a query as a file, into a folder or a bucket: masks, drawings, labels.",
            ),
            "worker": (
                "images",
                "Score outside of the database, on any host: for servers without PL/Python, and for requests.",
            ),
            "follow": (
                "images",
                "Queue the rows of a table that change, so that `dbinfer score --follow` need not look for them.",
            ),
            "store": (
                "images",
                "List the stores of images outside the database, and say who may read there.",
            ),
            "jobs": ("images", "List the jobs of `dbinfer score`, running and past."),
            "plan": (
                "plan",
                "Tell how many hosts you need for so many images a day, or how long the hosts you have will take.",
            ),
            "bench": (
                "bench",
                "Measure images per second: SQL compared with a bare Python loop, benchmark_app and other methods, "
                "in one run.",
            ),
        },
    }.items()
    for name, (module, line) in commands.items()
}


class _Loaded(Mapping[str, Any]):
    """The commands by name; looking one up imports its module, which takes longer than anything else."""

    def __getitem__(self, name: str) -> Any:
        known = COMMANDS[name]
        group = typer.Typer(rich_markup_mode="markdown")
        import_module(f"dbinfer.cli.{known.module}").register(group)
        import_module("dbinfer.cli.options").spread_all(group, name)
        command = typer.main.get_group(group).commands[name]
        command.help = f"{known.line}\n\n{command.help}"
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


# Old spellings, which work until the next release: by command, old -> new
RENAMED = {
    "convert": {"--size": "--input-size"},
    "deploy": {"--size": "--input-size", "--images": "--check"},
    "score": {"--into": "--predictions"},
    "train": {"--workers": "--decode-threads"},
    "plan": {"--hosts": "--host-count"},
    "bench": {"--ways": "--methods"},
}


def renamed(words: list[str]) -> Iterator[str]:
    """Yield the words of a command line in today's spelling; a hint on stderr names each that has changed."""
    command = next((word for word in words if not word.startswith("-")), "")
    for word in words:
        old, equals, value = word.partition("=")
        if new := RENAMED.get(command, {}).get(old):
            typer.secho("hint:", fg="cyan", nl=False, err=True, color=COLOR)
            typer.echo(f" {old} is now {new}; the old spelling ends with the next release", err=True)
        yield f"{new or old}{equals}{value}"


class _Root(TyperGroup):
    """`dbinfer` itself: lists its commands from the table as plain text, which does not need Rich."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Loaded()})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words, those of an older release too."""
        return list(super().parse_args(ctx, list(renamed(args))))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names in the order of the table, without importing any command."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel, with its names in one column."""
        width = max(map(len, COMMANDS))
        for panel in dict.fromkeys(known.panel for known in COMMANDS.values()):
            with formatter.section(typer.style(panel, bold=True)):
                formatter.write_dl(
                    [
                        (typer.style(name.ljust(width), fg="cyan"), known.line)
                        for name, known in COMMANDS.items()
                        if known.panel == panel
                    ]
                )


app = typer.Typer(
    name="dbinfer",
    cls=_Root,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "color": COLOR},
    help="Run image models inside PostgreSQL and Greenplum, with plain SQL.",
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"dbinfer {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def _terminate(*_: object) -> None:
    """End as after a Ctrl-C: whatever cleans up then does so now, too."""
    _ended_by.append(signal.SIGTERM)
    raise KeyboardInterrupt


_ended_by: list[signal.Signals] = []


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake ends in one sentence, never in a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app(arguments)
    except DbinferError as err:
        _say(err, sys.argv[1:] if arguments is None else arguments)
        sys.exit(err.exit_code)
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells say it
        sys.exit(130)
    except BrokenPipeError:
        # `dbinfer models | head`: Python would flush at its exit and print an error of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    finally:
        # Typer, too, says 130 for any KeyboardInterrupt
        if _ended_by:
            sys.exit(128 + _ended_by[0])


def _say(err: DbinferError, said: list[str]) -> None:
    # whole lines, whatever the terminal's width: hints are to be copied
    typer.secho("dbinfer:", bold=True, fg="red", nl=False, err=True, color=COLOR)
    typer.echo(f" {err.message}", err=True)
    if err.hint:
        typer.secho("hint:", fg="cyan", nl=False, err=True, color=COLOR)
        typer.echo(f" {err.hint}", err=True)
    if err.words:
        typer.secho("for example:", fg="cyan", nl=False, err=True, color=COLOR)
        typer.echo(harmless(f" {shlex.join(['dbinfer', *said, *err.words])}"), err=True)
