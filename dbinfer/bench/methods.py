"""The methods that are measured: inference alone, the bare loop, and the product's ways to score a table: SELECT
count(f(img)), classify_table or a sister, CREATE TABLE AS, dbinfer score, dbinfer worker.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from psycopg2 import sql

from dbinfer.base.errors import DbinferError
from dbinfer.bench.database import Database
from dbinfer.bench.networks import ModelFiles
from dbinfer.bench.report import Case, Sample
from dbinfer.bench.workers import Job as Loop
from dbinfer.bench.workers import Workers
from dbinfer.database.sql import read
from dbinfer.score import ScoreOptions, score
from dbinfer.worker import worker

COUNT = "SELECT count({call}) FROM {table}"
BATCH = "SELECT count(*) FROM {function}({table}, {model})"
LEAST_SHARE = 1 / 3
DROP = "DROP TABLE IF EXISTS {result}"


class Skip(DbinferError):  # noqa: N818 - nothing went wrong
    """This method cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Context:
    """One case, ready to be measured.

    Attributes:
        images: the different image files; tables and the bare loop repeat them.
        rows, small: of the tables `big` and `small`.
        seconds: that one measurement takes, about.
    """

    database: Database
    case: Case
    files: ModelFiles
    workers: Workers
    images: tuple[bytes, ...]
    rows: int
    small: int
    seconds: float

    def call(self, img: str = "img") -> sql.Composed:
        """Return the call of the case's SQL function, the model as a constant."""
        function = sql.Identifier("dbinfer", self.case.function)
        return sql.SQL("{}({}, {})").format(function, sql.Identifier(img), sql.Literal(self.case.model))


class Method(Protocol):
    """One way to score; made once for a case (which may raise Skip), then measured in every round."""

    def measure(self) -> Sample:
        """Measure once."""
        ...


def slope(context: Context, small: float, big: float) -> Sample:
    """Return the rate after the start from the seconds that two statements took: on `small` rows and on `rows`.

    PostgreSQL's parallel workers are new processes in every statement; what their start costs is the same for both.
    Where the big statement takes hardly longer than the small one, the rate is that of the whole statement.
    """
    whole = context.rows / big
    if big - small < LEAST_SHARE * big:  # disturbed, or nothing but start
        return Sample(whole, whole)
    rate = (context.rows - context.small) / (big - small)
    return Sample(rate, whole, max(0.0, big - context.rows / rate))


class Sql:
    """SELECT count(f(img)) FROM a table."""

    def __init__(self, context: Context) -> None:
        self.context = context
        # The session's own process keeps the model; it loads it before the clock
        self.seconds("small")

    def statement(self, table: str) -> sql.Composed:
        """Return the statement on a table."""
        database = self.context.database
        return database.format(COUNT, call=self.context.call(), table=database.table(table))

    def seconds(self, table: str) -> float:
        """Return how long the statement takes on a table."""
        text = self.statement(table)
        started = time.perf_counter()
        self.context.database.one(text)
        return time.perf_counter() - started

    def measure(self) -> Sample:
        """Measure small and big table."""
        return slope(self.context, self.seconds("small"), self.seconds("big"))


class Batch(Sql):
    """SELECT count(*) FROM dbinfer.classify_table(a table), or the sister of the case's function."""

    def statement(self, table: str) -> sql.Composed:
        """Return the statement on a table."""
        database = self.context.database
        case = self.context.case
        return database.format(
            BATCH,
            function=sql.Identifier("dbinfer", f"{case.function}_table"),
            table=sql.Literal(f"{database.schema}.{table}"),
            model=sql.Literal(case.model),
        )


class Ctas(Sql):
    """CREATE TABLE AS SELECT id, f(img) FROM a table."""

    def seconds(self, table: str) -> float:
        """Return how long the statement takes on a table."""
        database, result = self.context.database, self.context.database.table("result")
        database.run(DROP, result=result)
        text, call = read("bench/create_result.sql"), self.context.call()
        started = time.perf_counter()
        database.run(text, result=result, call=call, table=database.table(table))
        return time.perf_counter() - started


INDEX = "CREATE UNIQUE INDEX ON {table} (id)"


class Job(Sql):
    """dbinfer.score into a new table."""

    def __init__(self, context: Context) -> None:
        # As a user's table has it
        for table in ("small", "big"):
            context.database.run(INDEX, table=context.database.table(table))
        super().__init__(context)

    def seconds(self, table: str) -> float:
        """Return how long the job takes on a table, all of it: connections, counting, batches, its last look."""
        database, case = self.context.database, self.context.case
        for name in ("job", "job_errors"):
            database.run(DROP, result=sql.Identifier(database.schema, name))
        options = ScoreOptions(function=case.function, model=case.model)
        started = time.perf_counter()
        self.run(f"{database.schema}.{table}", f"{database.schema}.job", options)
        return time.perf_counter() - started

    def run(self, table: str, into: str, options: ScoreOptions) -> None:
        """Score a table into another."""
        score(table, into, options, self.context.database.dsn)


class Worker(Job):
    """dbinfer worker, on this host, into a new table."""

    def run(self, table: str, into: str, options: ScoreOptions) -> None:
        """Score a table into another."""
        worker(table, into, scoring=options, dsn=self.context.database.dsn)


# As the program `benchmark_app` does, but without telemetry
PROGRAM = """
import sys, types
stub = types.ModuleType("openvino_telemetry")
stub.Telemetry = lambda *a, **k: types.SimpleNamespace(**{n: (lambda *a, **k: None) for n in
    ("start_session", "end_session", "send_event", "send_error", "force_shutdown", "send_stack_trace")})
sys.modules["openvino_telemetry"] = stub
from openvino.tools.benchmark.main import main
sys.exit(main())
"""
THROUGHPUT = re.compile(r"Throughput:\s*([\d.]+)\s*FPS")


class BenchmarkApp:
    """Inference alone, the hardware's limit: OpenVINO's own program with its throughput hint, on the prepared IR."""

    def __init__(self, context: Context) -> None:
        if find_spec("openvino.tools.benchmark") is None:
            raise Skip("benchmark_app is not part of this openvino package.")
        model = context.files.entry.path("xml")
        precision = context.files.manifest.precision
        self.program = [sys.executable, "-c", PROGRAM, "-m", model, "-d", "CPU", "-hint", "throughput"]
        self.program += ["-infer_precision", precision, "-t", str(max(2, round(context.seconds)))]

    def measure(self) -> Sample:
        """Run it for a few seconds."""
        # A session of its own, as backends have one: Linux shares the cores between sessions (autogroup)
        done = subprocess.run(
            self.program, capture_output=True, text=True, check=False, start_new_session=True
        )
        found = THROUGHPUT.search(done.stdout)
        if done.returncode or not found:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise Skip(f"benchmark_app failed: {lines[-1]}")
        return Sample(float(found.group(1)))


class Bare:
    """Decode, fit, infer and output of every image, without a database."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context.workers.load(Loop(context.files, context.case.function, context.images))

    def measure(self) -> Sample:
        """Score as many images as the big table has rows."""
        return Sample(self.context.rows / self.context.workers.loop(self.context.rows))


Factory = Callable[[Context], Method]
METHODS: dict[str, Factory] = {
    "benchmark_app": BenchmarkApp,
    "bare": Bare,
    "sql": Sql,
    "batch": Batch,
    "ctas": Ctas,
    "job": Job,
    "worker": Worker,
}
