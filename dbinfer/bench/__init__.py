"""Measures images per second: the database against the hardware's limit and against what people would use instead."""

from __future__ import annotations

from dbinfer.base.progress import OnProgress, silent
from dbinfer.bench.report import METHODS, BenchOptions, BenchReport, IsolationReport, Result, ScalingReport

__all__ = [
    "METHODS",
    "BenchOptions",
    "BenchReport",
    "IsolationReport",
    "Result",
    "ScalingReport",
    "bench",
    "bench_isolation",
    "bench_scaling",
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
    from dbinfer.bench.runs import run_benchmark

    return run_benchmark(options or BenchOptions(), dsn, progress)


def bench_scaling(
    options: BenchOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> ScalingReport:
    """Measure how cost grows with rows, processes, model size and image size; of the options, `seconds` and `keep`.

    Raises:
        ServerError: no server, or dbinfer is not installed there.
    """
    from dbinfer.bench.runs import run_scaling

    return run_scaling(options or BenchOptions(), dsn, progress)


def bench_isolation(
    options: BenchOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> IsolationReport:
    """Measure the engine beside in-process scoring; of the options, `seconds`, `rounds` and `keep`.

    Raises:
        ServerError: no server, or dbinfer is not installed there.
    """
    from dbinfer.bench.runs import run_isolation

    return run_isolation(options or BenchOptions(), dsn, progress)
