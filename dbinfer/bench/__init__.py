"""Measures images per second: the database against the hardware's limit and against what people would use instead."""

from __future__ import annotations

from dbinfer.base.progress import OnProgress, silent
from dbinfer.bench.report import METHODS, BenchOptions, BenchReport, IsolationReport, Result

__all__ = [
    "METHODS",
    "BenchOptions",
    "BenchReport",
    "IsolationReport",
    "Result",
    "bench",
    "bench_isolation",
]


def bench(
    options: BenchOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> BenchReport:
    """Measure networks, precisions and methods, and return the report.

    Args:
        options: what to measure; the default is everything that this machine can run, in less than 30 minutes.
        dsn: the database, as for connect(); where none is named, the embedded server, started if need be.

    Raises:
        ServerError: no server, or dbinfer is not installed there.
    """
    from dbinfer.bench.measure import run_benchmark

    return run_benchmark(options or BenchOptions(), dsn, progress)


def bench_isolation(
    options: BenchOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> IsolationReport:
    """Measure the engine beside in-process scoring; of the options, `seconds`, `rounds` and `keep`.

    Raises:
        ServerError: no server, or dbinfer is not installed there.
    """
    from dbinfer.bench.engine import run_isolation

    return run_isolation(options or BenchOptions(), dsn, progress)
