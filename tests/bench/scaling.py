"""How the cost of scoring grows with rows, processes, the model and the image."""

from __future__ import annotations

from typing import Any

from dbinfer.base.apart import cores
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.bench.database import Database, database, server_dsn
from dbinfer.bench.environment import environment, load_note, other_load
from dbinfer.bench.measure import profile, ready
from dbinfer.bench.methods import Context, Sql
from dbinfer.bench.report import BenchOptions, Case, Row
from dbinfer.bench.workers import Workers, workers

SCALING_ROUNDS = 3
ROWS = (1_000, 10_000, 100_000)
PROCESSES = (1, 2, 3, 6)
MODELS = ("digits", "mobilenet_v2", "resnet50", "unet", "alexnet")
SIZES = ("28x28", "224x224", "500x375", "1000x750", "2000x1500", "4000x3000")
DIGITS = Case("digits", "f32", "28x28", "classify")
MOBILE = Case("mobilenet_v2", "f32", "500x375", "classify")
# Either bounds the workers of a statement
SETTINGS = ("max_parallel_workers_per_gather", "max_parallel_workers")
SET_TABLE = "ALTER TABLE {table} SET (parallel_workers = %s)"


def run_scaling(dsn: str | None, progress: OnProgress) -> tuple[dict[str, Any], dict[str, list[Row]]]:
    """Return on what the four series were measured, and {title: rows}; each row's first key is what grows."""
    options = BenchOptions(seconds=3.0)
    with database(server_dsn(dsn, progress)) as opened, workers(cores()) as processes:
        series = _Series(opened, processes, options, progress)
        measured = {
            "rows (digits, classify)": series.rows(),
            "processes (MobileNetV2, classify)": series.processes(),
            "model size in MB (predict, 500x375)": series.models(),
            "image size in megapixels (MobileNetV2, classify)": series.sizes(),
        }
        about = environment(opened.platform, load_note(series.loads))
        return about, {title: rows for title, rows in measured.items() if rows}


class _Series:
    """The four series on one database."""

    def __init__(
        self, database: Database, workers: Workers, options: BenchOptions, progress: OnProgress
    ) -> None:
        self.database, self.workers, self.options, self.progress = database, workers, options, progress
        self.loads: list[float] = []

    def ready(self, case: Case) -> Context:
        """Return the context of a case, on a machine that is as quiet as it gets."""
        self.progress(Progress(f"scaling: {case.title}"))
        context = ready(self.database, self.workers, case, self.options)
        self.loads.append(other_load())
        return context

    def rows(self) -> list[Row]:
        """Return seconds and images/s for 1k, 10k and 100k rows."""
        context = self.ready(DIGITS)
        statement, taken = Sql(context), []
        for count in ROWS:
            self.progress(Progress(f"scaling: {count} rows"))
            rows = self.database.fill("big", count, len(context.images))
            seconds = statement.seconds("big")
            taken.append({"rows": rows, "seconds": round(seconds, 3), "images/s": round(rows / seconds, 1)})
        return taken

    def processes(self) -> list[Row]:
        """Return images/s for 1, 2, 3 and 6 processes; a cluster's segments are what they are."""
        if self.database.platform.mpp:
            return []
        context, taken = self.ready(MOBILE), []
        for count in PROCESSES:
            for name in SETTINGS:
                self.database.run(f"SET {name} = %s", (count - 1,))
            for table in ("small", "big"):
                self.database.run(SET_TABLE, (count - 1,), table=self.database.table(table))
            taken.append({"processes": count, **_measured(Sql(context))})
        for name in SETTINGS:
            self.database.run(f"RESET {name}")
        return taken

    def models(self) -> list[Row]:
        """Return images/s, first row and memory for networks of 0.4 to 250 MB."""
        taken = []
        for network in MODELS:
            images = "28x28" if network == "digits" else "500x375"
            context = self.ready(Case(network, "f32", images, "predict"))
            row = {"MB": round(context.files.megabytes, 1), "model": network, **_measured(Sql(context))}
            known = profile(context)
            names = {"infer us": "infer_us", "first row ms": "first_row_ms", "private MB": "private_mb"}
            taken.append({**row, **{title: known.get(key) for title, key in names.items()}})
        return sorted(taken, key=lambda row: float(row["MB"]))

    def sizes(self) -> list[Row]:
        """Return images/s and the decoder's share for images of 28 pixels to 12 megapixels."""
        taken = []
        for images in SIZES:
            context = self.ready(Case("mobilenet_v2", "f32", images, "classify"))
            width, height = (int(side) for side in images.split("x"))
            kilobytes = sum(map(len, context.images)) / len(context.images) / 1000
            row = {"megapixels": width * height / 1e6, "image": images, "kB": round(kilobytes, 1)}
            known = profile(context)
            row.update(_measured(Sql(context)))
            taken.append({**row, "decode us": known.get("decode_us"), "fit us": known.get("preprocess_us")})
        return taken


def _measured(statement: Sql) -> Row:
    samples = [statement.measure() for _ in range(SCALING_ROUNDS)]
    sample = sorted(samples, key=lambda taken: taken.images_per_s)[SCALING_ROUNDS // 2]
    return {
        "images/s": round(sample.images_per_s, 1),
        "whole statement": round(sample.whole or 0, 1),
        "start ms": round((sample.start or 0) * 1000, 1),
    }
