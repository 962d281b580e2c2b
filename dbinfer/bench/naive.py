"""What people write first: a UDF that loads the model in every call, and Keras inside a UDF."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psycopg2
from psycopg2 import sql

from dbinfer.bench.methods import Context, Skip
from dbinfer.bench.report import Sample
from dbinfer.ir import import_openvino
from dbinfer.sqlfiles import read

FIRST_ROWS, MIN_ROWS, NAIVE_CALLS = 4, 8, 7


class _Udf:
    """A PL/Python function of its own on a table of a few rows; as many as take `seconds`."""

    name = ""
    file = ""

    def __init__(self, context: Context) -> None:
        self.context = context
        with self._or_skip():
            context.database.run(read(f"bench/{self.file}.sql"), **self.names())
            self.table = f"rows_{self.name}"
            seconds = self.seconds(context.database.fill(self.table, FIRST_ROWS, len(context.images)))
            wanted = int(FIRST_ROWS / seconds * context.seconds)
            self.rows = context.database.fill(self.table, max(MIN_ROWS, wanted), len(context.images))

    @contextmanager
    def _or_skip(self) -> Iterator[None]:
        try:
            yield
        except (psycopg2.Error, OSError) as err:
            # foreign code in a backend may take the whole server with it, but not the other methods' figures
            self.context.database.again()
            raise Skip(f"{self.name}: {str(err).strip().splitlines()[0]}") from err

    def names(self) -> dict[str, sql.Composable]:
        """Return what the function's text leaves open."""
        manifest = self.context.files.manifest
        return {
            "width": _text(manifest.width),
            "height": _text(manifest.height),
            "mean": _text(list(manifest.mean) or 0),
        }

    def seconds(self, rows: int) -> float:
        """Return how long the statement takes."""
        database = self.context.database
        call = sql.SQL("{}(img)").format(sql.Identifier(database.schema, self.name))
        text = database.format(
            "SELECT count({call}) FROM {table}", call=call, table=database.table(self.table)
        )
        started = time.perf_counter()
        database.one(text)
        return time.perf_counter() - started

    def measure(self) -> Sample:
        """Measure the whole statement."""
        with self._or_skip():
            return Sample(self.rows / self.seconds(self.rows))


def _text(value: Any) -> sql.SQL:
    """Return a value as Python writes it, for the body of a function."""
    return sql.SQL(repr(value))


class NaiveUdf(_Udf):
    """Imports, reads, compiles and infers in every call; nothing said of parallel plans, as in a first attempt."""

    name = "naive"
    file = "naive"
    parallel = "UNSAFE"

    def names(self) -> dict[str, sql.Composable]:
        """Return also where the server finds openvino and the IR."""
        database = self.context.database
        venv = database.one("SELECT value FROM dbinfer_private.setting WHERE name = 'venv'")
        return {
            **super().names(),
            "name": sql.Identifier(self.name),
            "parallel": sql.SQL(self.parallel),
            "site": _text(_site(str(venv))),
            "model": _text(str(self.context.files.source)),
        }


def naive_steps(context: Context) -> dict[str, float]:
    """Return the median milliseconds of what the naive function does in each call, in this process."""
    openvino, manifest, taken = import_openvino(), context.files.manifest, []
    blank = np.zeros((1, manifest.height, manifest.width, manifest.channels), np.float32)
    for _ in range(NAIVE_CALLS):
        times = [time.perf_counter()]
        # A new one each time, as the naive function makes it
        core = openvino.Core()
        graph = core.read_model(str(context.files.source))
        times.append(time.perf_counter())
        compiled = core.compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        times.append(time.perf_counter())
        compiled(blank)
        times.append(time.perf_counter())
        taken.append([(b - a) * 1000 for a, b in itertools.pairwise(times)])
    names = ("naive_read_ms", "naive_compile_ms", "naive_infer_ms")
    return {
        name: round(median(column), 1) for name, column in zip(names, zip(*taken, strict=True), strict=True)
    }


class NaiveParallelUdf(NaiveUdf):
    """The same, declared PARALLEL SAFE."""

    name = "naive_parallel"
    parallel = "SAFE"

    def __init__(self, context: Context) -> None:
        if context.database.platform.mpp:
            raise Skip("naive_parallel: the segments of this cluster are parallel anyway.")
        super().__init__(context)


class KerasUdf(_Udf):
    """model.predict on every row, the model kept between calls; TensorFlow's own threads, nothing said of plans."""

    name = "keras"
    file = "keras"
    each = False

    def names(self) -> dict[str, sql.Composable]:
        """Return also where the server finds TensorFlow and the Keras file."""
        venv = self.context.tensorflow or sys.prefix
        return {
            **super().names(),
            "site": _text(_site(venv)),
            "model": _text(str(self.context.files.keras)),
            "name": sql.Identifier(self.name),
            "each": _text(self.each),
        }


class KerasNaiveUdf(KerasUdf):
    """Loads the Keras model in every call."""

    name = "keras_naive"
    each = True


def _site(venv: str) -> str:
    """Return the venv's folder of packages; the server's Python is the one that the venv was made for."""
    found = sorted(Path(venv, "lib").glob("python3*/site-packages"))
    if not found:
        raise Skip(f"there are no Python packages in {venv}.")
    return str(found[0])
