"""The ways to score images that the harness compares, by name."""

from __future__ import annotations

from collections.abc import Callable

from dbinfer.bench.ways.app import BenchmarkApp
from dbinfer.bench.ways.client import Client
from dbinfer.bench.ways.context import Context, Sample, Skip, Way
from dbinfer.bench.ways.local import Bare
from dbinfer.bench.ways.other import KerasNaiveUdf, KerasUdf, NaiveParallelUdf, NaiveUdf, naive_steps
from dbinfer.bench.ways.spark import Spark
from dbinfer.bench.ways.statement import Batch, Ctas, Sql

MAKERS: dict[str, Callable[[Context], Way]] = {
    "benchmark_app": BenchmarkApp,
    "bare": Bare,
    "sql": Sql,
    "batch": Batch,
    "ctas": Ctas,
    "client": Client,
    "naive": NaiveUdf,
    "naive_parallel": NaiveParallelUdf,
    "keras": KerasUdf,
    "keras_naive": KerasNaiveUdf,
    "spark": Spark,
}

__all__ = ["MAKERS", "Context", "Sample", "Skip", "Way", "naive_steps"]
