"""The Typer application, its error handling and its exit codes (0 done, 1 failed, 2 wrong usage)."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer
from rich.console import Console

from dbinfer._version import __version__
from dbinfer.errors import DbinferError

GROUPS = (
    "demo",
    "server",
    "install",
    "convert",
    "deploy",
    "registry",
    "usage",
    "cache",
    "engine",
    "quantize",
    "data",
    "sample",
    "report",
    "score",
    "judge",
    "jobs",
    "plan",
    "bench",
    "train",
    "tune",
)

app = typer.Typer(
    name="dbinfer",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


# Heavy modules are imported inside the commands, so that --help does not wait for them
for _group in GROUPS:
    import_module(f"dbinfer.cli.{_group}").register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake ends in one sentence, never in a traceback."""
    try:
        app(arguments)
    except DbinferError as err:
        # soft_wrap: a cure is there to be copied, and Rich would break its lines
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[bold red]dbinfer:[/] {_escape(err.message)}")
        if err.cure:
            console.print(f"[cyan]hint:[/] {_escape(err.cure)}")
        sys.exit(err.exit_code)
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells say it
        sys.exit(130)
    except BrokenPipeError:
        # `dbinfer models | head`: Python would flush at its exit and print an error of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


def _escape(text: str) -> str:
    # To Rich brackets are markup
    return text.replace("[", r"\[")
