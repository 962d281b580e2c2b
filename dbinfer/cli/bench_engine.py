"""`dbinfer bench engine`: what the engine costs and saves beside scoring in the backends."""

from __future__ import annotations

from typing import Annotated

import typer

from dbinfer.cli._bench import (
    JsonFile,
    Keep,
    MarkdownFile,
    Seconds,
    console,
    print_rows,
    put,
    status,
    write_json,
)
from dbinfer.cli._options import Dsn

HELP = """Measure the engine beside in-process scoring, by turns in one run.

Speed of whole statements, what a statement pays before its first row, the first row of a fresh session, memory of
one session and of 32, a single row beside a long scan, and how long a cancel takes. It sets the isolation of models
of its own only. This takes about 4 minutes.

Examples:

    $ dbinfer bench engine

    $ dbinfer bench engine --rounds 5 --json engine.json --markdown docs/performance.md
"""


def register(app: typer.Typer) -> None:
    """Add the command `engine` to the group `bench`."""
    app.command("engine", help=HELP)(_engine)


def _engine(
    seconds: Seconds = 3.0,
    rounds: Annotated[int, typer.Option(help="How many times to measure each side; the median counts.")] = 3,
    dsn: Dsn = None,
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    keep: Keep = False,
) -> None:
    from dbinfer.bench import BenchOptions, bench_isolation
    from dbinfer.bench.tables import environment_lines, isolation_markdown, isolation_table

    with status() as progress:
        options = BenchOptions(seconds=seconds, rounds=rounds, keep=keep)
        report = bench_isolation(options, dsn, progress).to_dict()
    write_json(json_file, report)
    for line in environment_lines(report["environment"]):
        console().print(line)
    print_rows("Engine and in-process", *isolation_table(report["isolation"]))
    if markdown_file:
        put(markdown_file, "isolation", isolation_markdown(report))
