"""What the product is compared with: inference alone, the bare loop, a client that pulls the rows, Spark, a naive
UDF.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psycopg2
from psycopg2 import sql

from dbinfer.bench.methods import Context, Skip
from dbinfer.bench.networks import ModelFiles
from dbinfer.bench.report import Sample
from dbinfer.bench.workers import Job, Pull
from dbinfer.database.sql import read
from dbinfer.models.ir import import_openvino

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


SPARK_BATCH = 32
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
        context.workers.load(Job(context.files, context.case.function, context.images))

    def measure(self) -> Sample:
        """Score as many images as the big table has rows."""
        return Sample(self.context.rows / self.context.workers.loop(self.context.rows))


class Client:
    """As many client processes as cores, each with a server-side cursor over its share; results are not sent back."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context.workers.load(Job(context.files, context.case.function, context.images))
        database = context.database
        query = database.format(read("bench/pull.sql"), table=database.table("big")).as_string(database.conn)
        self.pull = Pull(database.dsn, query)

    def measure(self) -> Sample:
        """Score the whole big table."""
        return Sample(self.context.rows / self.context.workers.pull(self.pull, self.context.rows))


class Spark:
    """A local Spark with as many threads as cores; images cached in its memory before the clock starts."""

    def __init__(self, context: Context) -> None:
        missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
        if missing:
            raise Skip(f"spark: {', '.join(missing)} not installed (pip install pyspark pandas pyarrow).")
        self.context = context
        self.session = self._session()
        self.frame = self._frame()
        # Once before the clock: Spark starts its Python workers, and they load the model
        self.seconds()

    def _session(self) -> Any:
        from pyspark.sql import SparkSession

        # Spark would start the python3 of PATH, which has no openvino
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(f"local[{self.context.workers.processes}]")
        try:
            session = builder.config("spark.ui.enabled", "false").getOrCreate()
        # Without Java, for example, errors of many classes come through py4j
        except Exception as err:
            raise Skip(f"spark: {str(err).strip().splitlines()[0]}") from err
        session.sparkContext.setLogLevel("ERROR")
        return session

    def _frame(self) -> Any:
        from pyspark.ml.functions import predict_batch_udf
        from pyspark.sql.types import ArrayType, FloatType

        function = predict_batch_udf(
            _maker(self.context.files), return_type=ArrayType(FloatType()), batch_size=SPARK_BATCH
        )
        images, rows = self.context.images, self.context.rows
        data = [(bytearray(images[i % len(images)]),) for i in range(rows)]
        parts = self.context.workers.processes * 2
        frame = self.session.createDataFrame(data, "img binary").repartition(parts).cache()
        # cache() only marks the rows; counting reads them into memory
        frame.count()
        return frame.select(function("img").alias("result"))

    def seconds(self) -> float:
        """Return how long scoring takes; the results stay in Spark."""
        started = time.perf_counter()
        # Spark computes what is written and nothing else; noop throws it away
        self.frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    def measure(self) -> Sample:
        """Score all images."""
        return Sample(self.context.rows / self.seconds())


def _maker(files: ModelFiles) -> Callable[[], Callable[[Any], Any]]:
    """Return what Spark calls once in each Python worker."""

    def make() -> Callable[[Any], Any]:
        import numpy as np

        model = files.compile()

        def predict(images: Any) -> Any:
            out = np.empty((len(images), model.flat.size), np.float32)
            for i, img in enumerate(images):
                model.score(bytes(img))
                out[i] = model.flat
            return out

        return predict

    return make
