"""What people write first: a UDF that loads the model in every call, and Keras inside a UDF."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import sql

from dbinfer.bench.ways.context import Context, Sample, Skip
from dbinfer.sqlfiles import read

FIRST_ROWS, MIN_ROWS = 4, 8


class _Udf:
    """A PL/Python function of its own on a table of a few rows; as many as take `seconds`."""

    name = ""
    file = ""

    def __init__(self, context: Context) -> None:
        self.context = context
        try:
            context.bench.run(read(f"bench/{self.file or self.name}.sql"), **self.names())
            self.table = f"rows_{self.name}"
            seconds = self.seconds(context.bench.fill(self.table, FIRST_ROWS, len(context.images)))
            wanted = int(FIRST_ROWS / seconds * context.seconds)
            self.rows = context.bench.fill(self.table, max(MIN_ROWS, wanted), len(context.images))
        except (psycopg2.Error, OSError) as err:
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
        made = self.context.bench
        call = sql.SQL("{}(img)").format(sql.Identifier(made.schema, self.name))
        text = made.format("SELECT count({call}) FROM {table}", call=call, table=made.table(self.table))
        started = time.perf_counter()
        made.one(text)
        return time.perf_counter() - started

    def measure(self) -> Sample:
        """Measure the whole statement."""
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
        made = self.context.bench
        venv = made.one("SELECT value FROM dbinfer_private.setting WHERE name = 'venv'")
        return {
            **super().names(),
            "name": sql.Identifier(self.name),
            "parallel": sql.SQL(self.parallel),
            "site": _text(_site(str(venv))),
            "model": _text(str(self.context.files.source)),
        }


class NaiveParallelUdf(NaiveUdf):
    """The same, declared PARALLEL SAFE."""

    name = "naive_parallel"
    parallel = "SAFE"

    def __init__(self, context: Context) -> None:
        if context.bench.platform.mpp:
            raise Skip("naive_parallel: the segments of this cluster are parallel anyway.")
        super().__init__(context)


class KerasUdf(_Udf):
    """model.predict on every row, the model kept between calls; TensorFlow's own threads, nothing said of plans."""

    name = "keras"

    def names(self) -> dict[str, sql.Composable]:
        """Return also where the server finds TensorFlow and the Keras file."""
        venv = self.context.tensorflow or sys.prefix
        return {
            **super().names(),
            "site": _text(_site(venv)),
            "model": _text(str(self.context.files.keras)),
        }


def _site(venv: str) -> str:
    """Return the venv's folder of packages; the server's Python is the one that the venv was made for."""
    found = sorted(Path(venv, "lib").glob("python3*/site-packages"))
    if not found:
        raise Skip(f"there are no Python packages in {venv}.")
    return str(found[0])
