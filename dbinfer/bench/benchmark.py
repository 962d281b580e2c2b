"""A run of the harness: all cases against one database."""

from __future__ import annotations

import psycopg2

from dbinfer.bench.database import Database, database
from dbinfer.bench.environment import can_bf16, environment
from dbinfer.bench.loading import load_speed
from dbinfer.bench.measure import measure_case
from dbinfer.bench.options import BenchOptions
from dbinfer.bench.report import BenchReport, Result, with_profile
from dbinfer.bench.workers import workers
from dbinfer.dsn import named
from dbinfer.errors import DbinferError
from dbinfer.machine import cores
from dbinfer.progress import OnProgress, Progress
from dbinfer.server import up


def server_dsn(dsn: str | None, progress: OnProgress) -> str | None:
    """Return the dsn; where none is named, that of the embedded server, started if need be."""
    if named(dsn) is not None:
        return dsn
    return up(progress=progress).dsn


def run_benchmark(options: BenchOptions, dsn: str | None, progress: OnProgress) -> BenchReport:
    """Measure all cases; see dbinfer.bench.bench."""
    notes = [] if can_bf16() else ["bf16: this processor does not compute in it."]
    measured: list[Result] = []
    with database(server_dsn(dsn, progress), options.keep) as opened, workers(cores()) as processes:
        load, more = _load_speed(opened, options, progress)
        notes += more
        for case in options.cases(can_bf16()):
            try:
                taken, more = measure_case(opened, processes, case, options, progress)
            except (DbinferError, psycopg2.Error) as err:
                # A note, because the other cases of a long run are still worth measuring
                taken, more = [], [f"{case.title}: {_first_line(err)}"]
            measured += taken
            notes += more
        about = environment(opened.platform, list(dict.fromkeys(notes)))
        return BenchReport(about, _with_load(measured, load))


def _load_speed(
    database: Database, options: BenchOptions, progress: OnProgress
) -> tuple[dict[str, float], list[str]]:
    """Return the speed of `dbinfer load`, and a sentence where it could not be measured; nothing where not asked."""
    if options.methods:
        return {}, []
    progress(Progress("dbinfer load against COPY"))
    try:
        return load_speed(database, options), []
    except (DbinferError, psycopg2.Error) as err:
        return {}, [f"load: {_first_line(err)}"]


def _first_line(err: Exception) -> str:
    return str(err).strip().splitlines()[0]


def _with_load(taken: list[Result], load: dict[str, float]) -> list[Result]:
    """Return the results with the speed of load at the first SQL result on photographs."""
    index = next((i for i, r in enumerate(taken) if r.method == "sql" and r.images == "500x375"), None)
    if index is None:
        return taken
    return [*taken[:index], *with_profile([taken[index]], load), *taken[index + 1 :]]
