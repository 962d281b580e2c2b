"""A run of the harness: all cells against one database."""

from __future__ import annotations

from collections.abc import Callable

import psycopg2

from dbinfer.bench.cell import measure_cell
from dbinfer.bench.loading import load_speed
from dbinfer.bench.machine import busy, can_bf16, machine
from dbinfer.bench.options import BenchOptions
from dbinfer.bench.pool import pool
from dbinfer.bench.results import Report, Result, with_facts
from dbinfer.bench.tables import Bench, bench
from dbinfer.dsn import LIBPQ_VARIABLES
from dbinfer.errors import DbinferError
from dbinfer.machine import cores

Say = Callable[[str], None]


def quiet(step: str) -> None:
    """Say nothing."""


def server_dsn(dsn: str | None, say: Say) -> str | None:
    """Return the dsn; where none is named, that of the embedded server, started if need be."""
    import os

    if dsn or os.environ.get("DBINFER_DSN") or any(os.environ.get(name) for name in LIBPQ_VARIABLES):
        return dsn
    from dbinfer.server import up

    return up(say=say).dsn


def run(options: BenchOptions, say: Say = quiet) -> Report:
    """Measure and return the report.

    Args:
        say: is told what is being done.

    Raises:
        ServerError: no server, or dbinfer is not installed there.
        UsageError: nothing is left to measure.
    """
    dsn = server_dsn(options.dsn, say)
    made_results: list[Result] = []
    skipped = [] if can_bf16() else ["bf16: this processor does not compute in it."]
    skipped += [found] if (found := busy()) else []
    with bench(dsn, options.keep) as made, pool(cores()) as processes:
        load, notes = _load_facts(made, options, say)
        skipped += notes
        for cell in options.cells(can_bf16()):
            try:
                taken, notes = measure_cell(made, processes, cell, options, say)
            except (DbinferError, psycopg2.Error) as err:
                taken, notes = [], [f"{cell.title}: {str(err).strip().splitlines()[0]}"]
            made_results += taken
            skipped += notes
        return Report(machine(made.platform, list(dict.fromkeys(skipped))), _with_load(made_results, load))


def _load_facts(made: Bench, options: BenchOptions, say: Say) -> tuple[dict[str, float], list[str]]:
    """Return the speed of `dbinfer load`, and a sentence where it could not be measured; nothing where not asked."""
    if options.ways:
        return {}, []
    say("dbinfer load against COPY")
    try:
        return load_speed(made, options), []
    except (DbinferError, psycopg2.Error) as err:
        return {}, [f"load: {str(err).strip().splitlines()[0]}"]


def _with_load(taken: list[Result], facts: dict[str, float]) -> list[Result]:
    """Return the results with the speed of load at the first SQL result on photographs."""
    index = next((i for i, r in enumerate(taken) if r.way == "sql" and r.images == "500x375"), None)
    if index is None:
        return taken
    return [*taken[:index], *with_facts([taken[index]], facts), *taken[index + 1 :]]
