"""What people would use instead of dbinfer: a client that pulls the rows, and functions as first written."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import sql

from dbinfer.bench.methods import Context, Skip
from dbinfer.bench.networks import ModelFiles
from dbinfer.bench.report import Case, Sample
from dbinfer.database.connection import connect

FIRST_ROWS, MIN_ROWS, PULL_ROWS = 4, 8, 32
SQL = Path(__file__).parent
PULL = "SELECT img FROM {table} WHERE id %% %(shares)s = %(share)s"


def pull(work: tuple[ModelFiles, str, str | None, str, int, int]) -> int:
    """Score one client's share of the rows through a server-side cursor; return how many there were."""
    files, function, dsn, query, share, shares = work
    score, done = scorer(files, function), 0
    with closing(connect(dsn)) as conn, conn, conn.cursor("dbinfer_bench") as cur:
        cur.itersize = PULL_ROWS
        cur.execute(query, {"share": share, "shares": shares})
        for (img,) in cur:
            score(bytes(img))
            done += 1
    return done


def scorer(files: ModelFiles, function: str, _kept: dict[Any, Any] = {}) -> Any:  # noqa: B006 - a process keeps its model
    """Return what scores an image; compiled once in a process."""
    key = (files.entry.path("xml"), function)
    if key not in _kept:
        _kept[key] = files.scorer(function)
    return _kept[key]


class Client:
    """As many client processes as cores, each with a server-side cursor over its share; results are not sent back."""

    def __init__(self, context: Context) -> None:
        self.context, database = context, context.database
        query = database.format(PULL, table=database.table("big")).as_string(database.conn)
        shares = context.workers.processes
        self.work = [
            (context.files, context.case.function, database.dsn, query, share, shares)
            for share in range(shares)
        ]
        # setsid as in dbinfer.bench.workers: Linux shares the cores between sessions
        self.pool = ProcessPoolExecutor(shares, multiprocessing.get_context("spawn"), os.setsid)
        # before the clock each process loads its model
        self.measure()

    def measure(self) -> Sample:
        """Score the whole big table."""
        started = time.perf_counter()
        done = sum(self.pool.map(pull, self.work))
        assert done == self.context.rows, f"the clients scored {done} rows of {self.context.rows}"
        return Sample(done / (time.perf_counter() - started))


class Naive:
    """Imports, reads, compiles and infers in every call; nothing said of parallel plans, as in a first attempt."""

    name, file, parallel = "naive", "naive.sql", "UNSAFE"

    def __init__(self, context: Context) -> None:
        self.context = context
        with self._or_skip():
            context.database.run((SQL / self.file).read_text(encoding="utf-8"), **self.names())
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
        manifest, database = self.context.files.manifest, self.context.database
        venv = str(database.one("SELECT value FROM dbinfer_private.setting WHERE name = 'venv'"))
        return {
            "name": sql.Identifier(self.name),
            "width": _text(manifest.width),
            "height": _text(manifest.height),
            "mean": _text(list(manifest.mean) or 0),
            "site": _text(_site(venv)),
            "model": _text(str(self.context.files.source)),
            "parallel": sql.SQL(self.parallel),
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


class NaiveParallel(Naive):
    """The same, declared PARALLEL SAFE."""

    name, parallel = "naive_parallel", "SAFE"


class Keras(Naive):
    """model.predict on every row, the model kept between calls; TensorFlow's own threads, nothing said of plans."""

    name, file, each = "keras", "keras.sql", False

    def names(self) -> dict[str, sql.Composable]:
        """Return also where the server finds TensorFlow (DBINFER_BENCH_TENSORFLOW, else here) and the Keras file."""
        venv = os.environ.get("DBINFER_BENCH_TENSORFLOW", sys.prefix)
        return {
            **super().names(),
            "site": _text(_site(venv)),
            "model": _text(str(self.context.files.keras)),
            "each": _text(self.each),
        }


class KerasNaive(Keras):
    """Loads the Keras model in every call."""

    name, each = "keras_naive", True


def _text(value: Any) -> sql.SQL:
    """Return a value as Python writes it, for the body of a function."""
    return sql.SQL(repr(value))


def _site(venv: str) -> str:
    """Return the venv's folder of packages; the server's Python is the one that the venv was made for."""
    found = sorted(Path(venv, "lib").glob("python3*/site-packages"))
    if not found:
        raise Skip(f"there are no Python packages in {venv}.")
    return str(found[0])


def others(case: Case) -> dict[str, Any]:
    """Return the methods that are measured beside dbinfer's own in a case."""
    found = {"client": Client} if "job" in case.methods else {}
    if case.network == "resnet50" and found:
        found |= {one.name: one for one in (Naive, NaiveParallel, Keras, KerasNaive)}
    return found
