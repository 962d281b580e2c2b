"""How cost grows: with rows, with workers, with the model's size and with the image's size; SELECT count(f(img))."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbinfer.bench.cell import ready
from dbinfer.bench.facts import facts
from dbinfer.bench.machine import busy, machine
from dbinfer.bench.options import BenchOptions, Cell
from dbinfer.bench.pool import Pool, pool
from dbinfer.bench.run import quiet, server_dsn
from dbinfer.bench.tables import Bench, bench
from dbinfer.bench.ways import Context
from dbinfer.bench.ways.statement import Sql
from dbinfer.machine import cores

Row = dict[str, Any]
Say = Callable[[str], None]
ROUNDS = 3
ROWS = (1_000, 10_000, 100_000)
WORKERS = (1, 2, 3, 6)
MODELS = ("digits", "mobilenet_v2", "resnet50", "unet", "alexnet")
SIZES = ("28x28", "224x224", "500x375", "1000x750", "2000x1500", "4000x3000")
DIGITS = Cell("digits", "f32", "28x28", "classify")
MOBILE = Cell("mobilenet_v2", "f32", "500x375", "classify")
SETTINGS = ("max_parallel_workers_per_gather", "max_parallel_workers")
SET_TABLE = "ALTER TABLE {table} SET (parallel_workers = %s)"


def growth(options: BenchOptions, say: Say = quiet) -> Row:
    """Measure and return {"machine": ..., "growth": {title: rows}}; each row's first key is what grows."""
    with bench(server_dsn(options.dsn, say), options.keep) as made, pool(cores()) as processes:
        notes = [found] if (found := busy()) else []
        lab = _Lab(made, processes, options, say)
        series = {
            "rows (digits, classify)": lab.rows(),
            "processes (MobileNetV2, classify)": lab.workers(),
            "model size in MB (predict, 500x375)": lab.models(),
            "image size in megapixels (MobileNetV2, classify)": lab.sizes(),
        }
        return {"machine": machine(made.platform, notes), "growth": {k: v for k, v in series.items() if v}}


class _Lab:
    """The four series on one database."""

    def __init__(self, made: Bench, processes: Pool, options: BenchOptions, say: Say) -> None:
        self.made, self.pool, self.options, self.say = made, processes, options, say

    def ready(self, cell: Cell) -> Context:
        """Return the context of a cell."""
        self.say(f"growth: {cell.title}")
        return ready(self.made, self.pool, cell, self.options)

    def rows(self) -> list[Row]:
        """Return seconds and images/s for 1k, 10k and 100k rows."""
        context = self.ready(DIGITS)
        statement, taken = Sql(context), []
        for count in ROWS:
            self.say(f"growth: {count} rows")
            rows = self.made.fill("big", count, len(context.images))
            seconds = statement.seconds("big")
            taken.append({"rows": rows, "seconds": round(seconds, 3), "images/s": round(rows / seconds, 1)})
        return taken

    def workers(self) -> list[Row]:
        """Return images/s for 1, 2, 3 and 6 processes; a cluster's segments are what they are."""
        if self.made.platform.mpp:
            return []
        context, taken = self.ready(MOBILE), []
        for count in WORKERS:
            for name in SETTINGS:
                self.made.run(f"SET {name} = %s", (count - 1,))
            for table in ("small", "big"):
                self.made.run(SET_TABLE, (count - 1,), table=self.made.table(table))
            taken.append({"processes": count, **_measured(Sql(context))})
        for name in SETTINGS:
            self.made.run(f"RESET {name}")
        return taken

    def models(self) -> list[Row]:
        """Return images/s, first row and memory for networks of 0.4 to 250 MB."""
        taken = []
        for network in MODELS:
            images = "28x28" if network == "digits" else "500x375"
            context = self.ready(Cell(network, "f32", images, "predict"))
            row = {"MB": round(context.files.megabytes, 1), "model": network, **_measured(Sql(context))}
            known = facts(context)
            names = {"infer us": "infer_us", "first row ms": "first_row_ms", "private MB": "private_mb"}
            taken.append({**row, **{title: known.get(key) for title, key in names.items()}})
        return sorted(taken, key=lambda row: float(row["MB"]))

    def sizes(self) -> list[Row]:
        """Return images/s and the decoder's share for images of 28 pixels to 12 megapixels."""
        taken = []
        for images in SIZES:
            context = self.ready(Cell("mobilenet_v2", "f32", images, "classify"))
            width, height = (int(side) for side in images.split("x"))
            kilobytes = sum(map(len, context.images)) / len(context.images) / 1000
            row = {"megapixels": width * height / 1e6, "image": images, "kB": round(kilobytes, 1)}
            known = facts(context)
            row.update(_measured(Sql(context)))
            taken.append({**row, "decode us": known.get("decode_us"), "fit us": known.get("preprocess_us")})
        return taken


def _measured(statement: Sql) -> Row:
    samples = [statement.measure() for _ in range(ROUNDS)]
    sample = sorted(samples, key=lambda taken: taken.images_per_s)[ROUNDS // 2]
    return {
        "images/s": round(sample.images_per_s, 1),
        "whole statement": round(sample.whole or 0, 1),
        "start ms": round((sample.start or 0) * 1000, 1),
    }
