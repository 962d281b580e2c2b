"""The engine beside in-process scoring: whole statements, the first row and the memory of sessions, a row beside a long
scan, and how fast a cancel is.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.apart import cores
from dbinfer.base.errors import ServerError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.bench.database import Database, database, server_dsn
from dbinfer.bench.environment import environment, load_note, other_load
from dbinfer.bench.measure import (
    BETWEEN_ROWS,
    FIRST,
    PRIVATE,
    TOGETHER,
    first_row_ms,
    fresh,
    megabytes,
    ready,
    scored,
    seconds,
    stop_engine,
)
from dbinfer.bench.methods import COUNT, Context, Sql
from dbinfer.bench.report import QUICK_SECONDS, BenchOptions, Case, IsolationReport, Row, Sample
from dbinfer.bench.workers import Workers, workers
from dbinfer.images import builtin
from dbinfer.models import DeployOptions, deploy, drop
from dbinfer.models.ir import embed_manifest, import_openvino
from dbinfer_udf.manifest import Manifest

RESNET = Case("resnet50", "f32", "500x375", "predict")
# (case, isolation of the engine's side, least quotient of the rates of whole statements)
SPEED = (
    (RESNET, "always", 0.97),
    (Case("unet", "f32", "500x375", "segment"), "always", 0.97),
    (Case("mobilenet_v2", "f32", "500x375", "classify"), "always", 0.95),
    (Case("digits", "f32", "28x28", "classify"), "auto", 0.97),
)
MANY, LATENCIES = 32, 60
CANCEL_AFTER, CANCELS = 1.0, 3
SLOW = "dbinfer_bench_slow"
SIDE, GRAY = 8, 200
# Rounds of its loop, of about 2 us each: who measures ends it long before. Of more rounds than an int32 holds,
# OpenVINO runs none once the network comes from its compiled blob.
ROUNDS = (1 << 31) - 1
START_SHARE, FIRST_ROW_MS, FURTHER_MB, TIMES_LESS, CANCEL_S, BESIDE_SCAN = 0.25, 60.0, 10.0, 8.0, 0.1, 3.0


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: how the model's rows are scored."""

    name: str
    isolation: str


def run_isolation(options: BenchOptions, dsn: str | None, progress: OnProgress) -> IsolationReport:
    """Measure all lines; see dbinfer.bench.bench_isolation."""
    options = replace(options, seconds=options.seconds or QUICK_SECONDS)
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
        stop_engine(self.database)
        steps: tuple[tuple[str, Callable[[Context], float], bool, float], ...] = (
            ("first row of a fresh session (ms)", first_row_ms, False, FIRST_ROW_MS),
            ("private memory of a further session (MB)", further_mb, False, FURTHER_MB),
            (f"{MANY} sessions, all memory of processes (MB)", many_mb, True, TIMES_LESS),
            ("a row beside a long scan: p95 / idle p95", beside_a_scan, False, BESIDE_SCAN),
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
        name, seconds = cancel_seconds(self.database)
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


def further_mb(context: Context) -> float:
    """Return the median private MB of a session that has scored, while others have, too."""
    with scored(context, TOGETHER) as texts:
        return round(median(megabytes(text, *PRIVATE) for text in texts), 1)


def many_mb(context: Context) -> float:
    """Return the MB of many sessions that have scored, the engine's processes included.

    Private memory of the backends; of the engine's processes the proportional share, which counts what they share
    once.
    """
    with scored(context, MANY) as texts:
        backends = sum(megabytes(text, *PRIVATE) for text in texts)
        return round(backends + _engine_mb(context.database), 1)


def _engine_mb(database: Database) -> float:
    """Return the proportional share of the engine's processes: supervisor, zygotes, hosts and workers."""
    text = "SELECT coalesce(sum(bytes), 0) / 1e6 FROM dbinfer.engines"
    return float(database.one(text))


def beside_a_scan(context: Context) -> float:
    """Return the p95 of single rows while another session scores a table again and again / the idle p95."""
    text = context.database.format(FIRST, call=context.call(), table=context.database.table("first"))
    with fresh(context) as conn:
        seconds(conn, text)
        idle = _p95([seconds(conn, text, BETWEEN_ROWS) for _ in range(LATENCIES)])
        with _scanning(context):
            beside = _p95([seconds(conn, text, BETWEEN_ROWS) for _ in range(LATENCIES)])
    return round(beside / idle, 2)


@contextmanager
def _scanning(context: Context) -> Iterator[None]:
    """Score the big table in another session until the block ends."""
    database, over = context.database, threading.Event()
    text = database.format(COUNT, call=context.call(), table=database.table("big"))
    with fresh(context) as conn:

        def scan() -> None:
            while not over.is_set():
                # the cancel at the end
                try:
                    seconds(conn, text)
                except psycopg2.Error:
                    return

        thread = threading.Thread(target=scan)
        thread.start()
        # until its parallel workers score, too
        time.sleep(1.0)
        try:
            yield
        finally:
            over.set()
            conn.cancel()
            thread.join()


def cancel_seconds(database: Database) -> tuple[str, float]:
    """Return (the model's name, longest seconds from a cancel to its error) while a network runs for ten seconds."""
    with tempfile.TemporaryDirectory() as folder:
        deploy(slow_network(Path(folder)), DeployOptions(name=SLOW), database.dsn)
    try:
        database.rows("SELECT dbinfer.set_isolation(%s, 'always')", (SLOW,))
        with fresh(database) as conn:
            return SLOW, round(max(_cancelled(conn) for _ in range(CANCELS)), 3)
    finally:
        drop(SLOW, True, database.dsn)


def _cancelled(conn: Connection) -> float:
    sent: list[float] = []

    def cancel() -> None:
        sent.append(time.perf_counter())
        conn.cancel()

    timer = threading.Timer(CANCEL_AFTER, cancel)
    timer.start()
    try:
        with conn.cursor() as cur:
            cur.execute("SELECT dbinfer.predict(%s, %s)", (psycopg2.Binary(slow_image()), SLOW))
    except psycopg2.errors.QueryCanceled:
        return time.perf_counter() - sent[0]
    finally:
        timer.cancel()
    raise ServerError("the slow network ended before it could be cancelled")


def slow_network(folder: Path) -> Path:
    """Write the network and return its .xml: a loop whose rounds depend on the image's mean."""
    ov = import_openvino()
    from openvino import opset13 as ops

    image = ops.parameter([1, SIDE, SIDE, 3], np.float32, name="image")
    mean = ops.reduce_mean(image, np.array([1, 2]), False)
    distance = ops.absolute(ops.subtract(ops.reduce_mean(mean, np.array([0, 1]), False), np.float32(GRAY)))
    # the trial at deploy shows it a black image, a white one and noise
    rounds = ops.select(
        ops.less(distance, np.float32(0.5)), np.array(ROUNDS, np.int64), np.array(1, np.int64)
    )
    found = ops.result(_loop(ops, rounds, mean))
    path, graph = folder / "slow.xml", ov.Model([found], [image], "slow")
    embed_manifest(
        graph, Manifest.from_dict({"task": "tensor", "height": SIDE, "width": SIDE, "channels": 3})
    )
    ov.save_model(graph, path, compress_to_fp16=False)
    return path


def _loop(ops: Any, rounds: Any, start: Any) -> Any:
    """Return `start` after 1 was added `rounds` times."""
    ov = import_openvino()
    state = ops.parameter([1, 3], np.float32)
    following, always = ops.add(state, np.float32(1)), ops.constant(np.array(True))
    loop = ops.loop(rounds, always)
    loop.set_function(
        ov.Model([ops.result(ops.constant(np.array(True))), ops.result(following)], [state], "body")
    )
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(state, start.output(0), following.output(0))
    return loop.get_iter_value(following.output(0), -1)


def slow_image() -> bytes:
    """Return the image on which it is slow, as a PNG."""
    return builtin.encode(".png", np.full((SIDE, SIDE, 3), GRAY, np.uint8))


def _p95(taken: list[float]) -> float:
    return float(np.percentile(taken, 95))
