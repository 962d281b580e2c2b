"""The runs of the harness: all cases and loading, how cost grows, and the engine beside in-process scoring.

Both open a session, make the table, fill it and commit; load also walks the folder, reads and checks the files, looks
for paths that are there already, and analyzes the table. The rows of the raw COPY are encoded in memory before.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
from psycopg2 import sql

from dbinfer.base.apart import cores
from dbinfer.base.errors import DbinferError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.bench import sessions
from dbinfer.bench.database import Database, database
from dbinfer.bench.environment import can_bf16, environment, load_note, other_load
from dbinfer.bench.measure import measure_case, profile, ready
from dbinfer.bench.methods import Context, Sql
from dbinfer.bench.report import (
    BenchOptions,
    BenchReport,
    Case,
    IsolationReport,
    Result,
    Row,
    Sample,
    ScalingReport,
    with_profile,
)
from dbinfer.bench.workers import Workers, workers
from dbinfer.database.connection import connect, named
from dbinfer.database.sql import read
from dbinfer.images import builtin
from dbinfer.images.load import LoadOptions, load
from dbinfer.images.table import encode
from dbinfer.server import up

FILES, DISTINCT = 4000, 64
ROUNDS = 7  # at least: a round is short, and writing out makes single ones slow
COPY = "COPY {table} (path, img) FROM STDIN WITH (FORMAT binary)"


def load_speed(database: Database, options: BenchOptions) -> dict[str, float]:
    """Return images per second of both, and their ratio as the median over the rounds."""
    images = builtin.photograph_files((500, 375), DISTINCT)
    count = FILES // 4 if options.quick else FILES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(count):
            (folder / _path(i)).write_bytes(images[i % DISTINCT])
        # Or the files are still being written while the clock runs
        os.sync()
        rounds = [
            _round(database, folder, images, count, i % 2 == 1) for i in range(max(ROUNDS, options.rounds))
        ]
    loaded, copied = zip(*rounds, strict=True)
    return {
        "load_images_per_s": round(count / median(loaded), 1),
        "copy_images_per_s": round(count / median(copied), 1),
        "ratio_load": round(median(raw / ours for ours, raw in rounds), 3),
    }


def _round(
    database: Database, folder: Path, images: list[bytes], count: int, swap: bool
) -> tuple[float, float]:
    """Return the seconds of load and of COPY; every other round has them in the other order."""
    methods = [_load(database, folder), _copy(database, images, count)]
    if swap:
        copied, loaded = (_timed(database, method) for method in methods[::-1])
    else:
        loaded, copied = (_timed(database, method) for method in methods)
    return loaded, copied


def _timed(database: Database, method: Callable[[], object]) -> float:
    """Return the seconds of a method, with no table there and nothing left to write out."""
    for name in ("copied", "loaded"):
        database.run("DROP TABLE IF EXISTS {table}", table=database.table(name))
    # A checkpoint takes a superuser; without one the rounds differ more, and the median still counts
    with suppress(psycopg2.errors.InsufficientPrivilege):
        database.run("CHECKPOINT")
    started = time.perf_counter()
    method()
    return time.perf_counter() - started


def _load(database: Database, folder: Path) -> Callable[[], object]:
    options = LoadOptions(table=f"{database.schema}.loaded", base=folder)
    return lambda: load([folder], options, database.dsn)


def _copy(database: Database, images: list[bytes], count: int) -> Callable[[], object]:
    """Copy into an empty table like the one that load makes."""
    names = {"path": sql.Identifier("path"), "img": sql.Identifier("img"), "label": sql.SQL("")}
    create = database.format(read("client/create_images.sql"), table=database.table("copied"), **names)
    copy = database.format(COPY, table=database.table("copied"))
    rows = io.BytesIO(b"".join(encode((_path(i).encode(), images[i % len(images)]) for i in range(count))))

    def copied() -> None:
        with closing(connect(database.dsn)) as conn, conn.cursor() as cur:
            cur.execute(create)
            cur.copy_expert(copy, rows, 1 << 20)
            conn.commit()

    return copied


def _path(i: int) -> str:
    return f"{i:06}.jpg"


def server_dsn(dsn: str | None, progress: OnProgress) -> str | None:
    """Return the dsn; where none is named, that of the embedded server, started if need be."""
    if named(dsn) is not None:
        return dsn
    return up(progress=progress).dsn


def run_benchmark(options: BenchOptions, dsn: str | None, progress: OnProgress) -> BenchReport:
    """Measure all cases; see dbinfer.bench.bench."""
    notes = [] if can_bf16() else ["bf16: this processor does not compute in it."]
    measured: list[Result] = []
    with database(server_dsn(dsn, progress), options.keep) as opened, workers(cores()) as processes:
        load, more = _load_speed(opened, options, progress)
        notes += more
        for case in options.cases(can_bf16()):
            try:
                taken, more = measure_case(opened, processes, case, options, progress)
            except (DbinferError, psycopg2.Error) as err:
                # A note, because the other cases of a long run are still worth measuring
                taken, more = [], [f"{case.title}: {_first_line(err)}"]
            measured += taken
            notes += more
        about = environment(opened.platform, list(dict.fromkeys(notes)))
        return BenchReport(about, _with_load(measured, load))


def _load_speed(
    database: Database, options: BenchOptions, progress: OnProgress
) -> tuple[dict[str, float], list[str]]:
    """Return the speed of `dbinfer load`, and a sentence where it could not be measured; nothing where not asked."""
    if options.methods:
        return {}, []
    progress(Progress("dbinfer load against COPY"))
    try:
        return load_speed(database, options), []
    except (DbinferError, psycopg2.Error) as err:
        return {}, [f"load: {_first_line(err)}"]


def _first_line(err: Exception) -> str:
    return str(err).strip().splitlines()[0]


def _with_load(taken: list[Result], load: dict[str, float]) -> list[Result]:
    """Return the results with the speed of load at the first SQL result on photographs."""
    index = next((i for i, r in enumerate(taken) if r.method == "sql" and r.images == "500x375"), None)
    if index is None:
        return taken
    return [*taken[:index], *with_profile([taken[index]], load), *taken[index + 1 :]]


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


def run_scaling(options: BenchOptions, dsn: str | None, progress: OnProgress) -> ScalingReport:
    """Measure the four series; see dbinfer.bench.bench_scaling."""
    with database(server_dsn(dsn, progress), options.keep) as opened, workers(cores()) as processes:
        series = _Series(opened, processes, options, progress)
        measured = {
            "rows (digits, classify)": series.rows(),
            "processes (MobileNetV2, classify)": series.processes(),
            "model size in MB (predict, 500x375)": series.models(),
            "image size in megapixels (MobileNetV2, classify)": series.sizes(),
        }
        about = environment(opened.platform, load_note(series.loads))
        return ScalingReport(about, {title: rows for title, rows in measured.items() if rows})


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


RESNET = Case("resnet50", "f32", "500x375", "predict")
# (case, isolation of the engine's side, least quotient of the rates of whole statements)
SPEED = (
    (RESNET, "always", 0.97),
    (Case("unet", "f32", "500x375", "segment"), "always", 0.97),
    (Case("mobilenet_v2", "f32", "500x375", "classify"), "always", 0.95),
    (Case("digits", "f32", "28x28", "classify"), "auto", 0.97),
)
START_SHARE, FIRST_ROW_MS, FURTHER_MB, TIMES_LESS, CANCEL_S, BESIDE_SCAN = 0.25, 60.0, 10.0, 8.0, 0.1, 3.0


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: how the model's rows are scored."""

    name: str
    isolation: str


def run_isolation(options: BenchOptions, dsn: str | None, progress: OnProgress) -> IsolationReport:
    """Measure all lines; see dbinfer.bench.bench_isolation."""
    with database(server_dsn(dsn, progress), options.keep) as opened, workers(cores()) as processes:
        comparison = _Comparison(opened, processes, options, progress)
        rows = comparison.speed() + comparison.sessions()
        return IsolationReport(environment(opened.platform, load_note(comparison.loads)), rows)


class _Comparison:
    """All lines, on one database."""

    def __init__(
        self, database: Database, workers: Workers, options: BenchOptions, progress: OnProgress
    ) -> None:
        self.database, self.workers, self.options, self.progress = database, workers, options, progress
        self.loads: list[float] = []

    def _ready(self, case: Case) -> Context:
        self.progress(Progress(f"{case.title}: network and images"))
        context = ready(self.database, self.workers, case, self.options)
        self.loads.append(other_load())
        return context

    def isolate(self, context: Context, isolation: str) -> None:
        """Say for the model of a case where its rows are scored from now on."""
        self.database.rows("SELECT dbinfer.set_isolation(%s, %s)", (context.case.model, isolation))

    def speed(self) -> list[Row]:
        """Return a line for the whole statements of each network, and one for what comes before their first row."""
        lines = []
        for case, isolation, limit in SPEED:
            context = self._ready(case)
            sides = [Side("engine", isolation), Side("in-process", "never")]
            taken = self._rounds(context, sides)
            whole = [_quotient(a.whole, b.whole) for a, b in zip(*taken.values(), strict=True)]
            title = f"{case.network} {case.function}, {isolation}: images/s of whole statements"
            lines.append(
                line(title, _wholes(taken["engine"]), _wholes(taken["in-process"]), median(whole), limit)
            )
            # in-process, the same code starts on both sides
            if isolation == "always":
                lines.append(_start_line(case, taken))
        return lines

    def _rounds(self, context: Context, sides: list[Side]) -> dict[str, list[Sample]]:
        taken: dict[str, list[Sample]] = {side.name: [] for side in sides}
        for turn in range(self.options.rounds):
            # by turns, so that neither side always follows the other
            for side in sides if turn % 2 == 0 else sides[::-1]:
                self.progress(Progress(f"{context.case.title}: {side.name}, round {turn + 1}"))
                self.isolate(context, side.isolation)
                taken[side.name].append(Sql(context).measure())
        return taken

    def sessions(self) -> list[Row]:
        """Return the lines on single rows and on sessions, all with ResNet-50, and the one on cancels."""
        context = self._ready(RESNET)
        # what the networks before have left there is no part of these lines
        sessions.stop_engine(self.database)
        steps: tuple[tuple[str, Callable[[Context], float], bool, float], ...] = (
            ("first row of a fresh session (ms)", sessions.first_row_ms, False, FIRST_ROW_MS),
            ("private memory of a further session (MB)", sessions.further_mb, False, FURTHER_MB),
            (f"{sessions.MANY} sessions, all memory of processes (MB)", sessions.many_mb, True, TIMES_LESS),
            ("a row beside a long scan: p95 / idle p95", sessions.beside_a_scan, False, BESIDE_SCAN),
        )
        lines = []
        for title, measure, times_less, limit in steps:
            values = {}
            for isolation in ("always", "never"):
                self.progress(Progress(f"{title}, {isolation}"))
                self.isolate(context, isolation)
                values[isolation] = measure(context)
            value = values["never"] / max(values["always"], 1e-9) if times_less else values["always"]
            name = f"{title}: times less" if times_less else title
            lines.append(line(name, values["always"], values["never"], value, limit, at_most=not times_less))
        return [*lines, self._cancel()]

    def _cancel(self) -> Row:
        self.progress(Progress("cancel while a network runs"))
        name, seconds = sessions.cancel_seconds(self.database)
        self.database.models.discard(name)
        return line("cancel while a network runs (s)", seconds, None, seconds, CANCEL_S, at_most=True)


def line(
    what: str, engine: float | None, inside: float | None, value: float, limit: float, at_most: bool = False
) -> Row:
    """Return one line of the table: both sides, the value that counts, its limit and the verdict."""
    met = value <= limit if at_most else value >= limit
    verdict = "ok" if met else "above" if at_most else "below"
    row: Row = {"measure": what, "engine": engine, "in-process": inside}
    return {**row, "value": round(value, 3), "limit": limit, "verdict": verdict}


def _start_line(case: Case, taken: dict[str, list[Sample]]) -> Row:
    engine, inside = (median((s.start or 0.0) * 1000 for s in taken[name]) for name in taken)
    what = f"{case.network}, before the first row (start ms): share of in-process"
    return line(
        what, round(engine, 1), round(inside, 1), _quotient(engine, inside), START_SHARE, at_most=True
    )


def _wholes(samples: list[Sample]) -> float:
    return float(f"{median(sample.whole or 0.0 for sample in samples):.4g}")


def _quotient(a: Any, b: Any) -> float:
    return float(a or 0.0) / max(float(b or 0.0), 1e-9)
