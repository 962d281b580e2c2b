"""Measures images per second: the database against the hardware's limit and against what people would use instead."""

from __future__ import annotations

from dbinfer.bench.options import WAYS, BenchOptions
from dbinfer.bench.results import Report, Result
from dbinfer.bench.run import run

__all__ = ["WAYS", "BenchOptions", "Report", "Result", "run"]
