"""Spark's predict_batch_udf over the same images, where pyspark is installed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from dbinfer.bench.networks import ModelFiles
from dbinfer.bench.ways.context import Context, Sample, Skip

BATCH = 32


class Spark:
    """A local Spark with as many threads as cores; images cached in its memory before the clock starts."""

    def __init__(self, context: Context) -> None:
        missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
        if missing:
            raise Skip(f"spark: {', '.join(missing)} not installed (pip install pyspark pandas pyarrow).")
        self.context = context
        self.session = self._session()
        self.frame = self._frame()
        self.seconds()

    def _session(self) -> Any:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(f"local[{self.context.pool.processes}]")
        try:
            session = builder.config("spark.ui.enabled", "false").getOrCreate()
        except Exception as err:
            raise Skip(f"spark: {str(err).strip().splitlines()[0]}") from err
        session.sparkContext.setLogLevel("ERROR")
        return session

    def _frame(self) -> Any:
        from pyspark.ml.functions import predict_batch_udf
        from pyspark.sql.types import ArrayType, FloatType

        function = predict_batch_udf(
            _maker(self.context.files), return_type=ArrayType(FloatType()), batch_size=BATCH
        )
        images, rows = self.context.images, self.context.rows
        data = [(bytearray(images[i % len(images)]),) for i in range(rows)]
        parts = self.context.pool.processes * 2
        frame = self.session.createDataFrame(data, "img binary").repartition(parts).cache()
        frame.count()
        return frame.select(function("img").alias("result"))

    def seconds(self) -> float:
        """Return how long scoring takes; the results stay in Spark."""
        started = time.perf_counter()
        self.frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - started

    def measure(self) -> Sample:
        """Score all images."""
        return Sample(self.context.rows / self.seconds())


def _maker(files: ModelFiles) -> Callable[[], Callable[[Any], Any]]:
    """Return what Spark calls once in each Python worker."""

    def make() -> Callable[[Any], Any]:
        import numpy as np

        from dbinfer.bench.local import local_model

        model = local_model(files)

        def predict(images: Any) -> Any:
            out = np.empty((len(images), model.flat.size), np.float32)
            for i, img in enumerate(images):
                model.score(bytes(img))
                out[i] = model.flat
            return out

        return predict

    return make
