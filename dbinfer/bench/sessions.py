"""What one session feels: its first row, its memory, its latency beside a long scan, and how fast a cancel is."""

from __future__ import annotations

import re
import struct
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import ServerError
from dbinfer.bench.database import Database
from dbinfer.bench.methods import COUNT, Context
from dbinfer.database.connection import session
from dbinfer.database.sql import read
from dbinfer.models import DeployOptions, deploy, drop
from dbinfer.models.ir import embed_manifest, import_openvino
from dbinfer_udf.manifest import Manifest

SIDE, GRAY = 8, 200
# Rounds of its loop, of about 2 us each: who measures ends it long before. Of more rounds than an int32 holds,
# OpenVINO runs none once the network comes from its compiled blob.
ROUNDS = (1 << 31) - 1


def slow_network(folder: Path) -> Path:
    """Write the network and return its .xml: a loop whose rounds depend on the image's mean."""
    import numpy as np

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
    import numpy as np

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
    rows = (b"\0" + bytes([GRAY]) * 3 * SIDE) * SIDE
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    packed = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


FRESH, TOGETHER, MANY, LATENCIES = 9, 5, 32, 60
FIRST = "SELECT {call} FROM {table} WHERE id = 1"
ISOLATE = "SELECT dbinfer.set_isolation(%s, %s)"
BETWEEN_ROWS = 0.05  # seconds; a person's queries come singly
PRIVATE = ("Private_Clean", "Private_Dirty")
CANCEL_AFTER, CANCELS = 1.0, 3
GONE_SECONDS = 30.0
SLOW = "dbinfer_bench_slow"


def fresh(context: Context | Database) -> Any:
    """Open a session of its own."""
    database = context if isinstance(context, Database) else context.database
    return session(database.dsn, error=ServerError, needs_dbinfer=False, autocommit=True)


def first_row_ms(context: Context) -> float:
    """Return the median milliseconds of the first row in fresh sessions, one after the other."""
    text = context.database.format(FIRST, call=context.call(), table=context.database.table("first"))
    taken = []
    for _ in range(FRESH):
        with fresh(context) as conn:
            taken.append(_seconds(conn, text) * 1000)
    return round(median(taken), 1)


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


def stop_engine(database: Database) -> None:
    """End the engines of the server's host; the next row that needs one starts a fresh one."""
    database.one("SELECT dbinfer._full_engines('stop')")
    until = time.monotonic() + GONE_SECONDS
    while database.one("SELECT count(*) FROM dbinfer.engines") and time.monotonic() < until:
        time.sleep(BETWEEN_ROWS)


def warm_engine(context: Context) -> None:
    """Have an engine on the server's host that holds the model; the model's isolation stays what it was."""
    database, model = context.database, context.case.model
    before = database.one("SELECT isolation FROM dbinfer.models WHERE name = %s", (model,))
    database.rows(ISOLATE, (model, "always"))
    with fresh(context) as conn:
        _seconds(conn, database.format(FIRST, call=context.call(), table=database.table("first")))
    database.rows(ISOLATE, (model, before))


def _engine_mb(database: Database) -> float:
    """Return the proportional share of the engine's processes: supervisor, zygotes, hosts and workers."""
    text = "SELECT coalesce(sum(bytes), 0) / 1e6 FROM dbinfer.engines"
    return float(database.one(text))


@contextmanager
def scored(context: Context, count: int) -> Iterator[list[str]]:
    """Yield smaps_rollup of `count` sessions that hold a scored row at once."""
    database = context.database
    text = database.format(read("bench/memory.sql"), call=context.call(), table=database.table("first"))
    with ExitStack() as together:
        opened = [together.enter_context(fresh(context)) for _ in range(count)]
        # twice: the first round fills all sessions, the second one sees what they share
        yield [_memory(conn, text) for _ in range(2) for conn in opened][count:]


def _memory(conn: Connection, text: Any) -> str:
    with conn.cursor() as cur:
        cur.execute(text)
        row = cur.fetchone()
        return str(row[1]) if row else ""


def megabytes(text: str, *fields: str) -> float:
    """Return the sum of some fields of smaps_rollup, in MB."""
    found = [re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE) for name in fields]
    return sum(int(match.group(1)) for match in found if match) * 1024 / 1e6


def beside_a_scan(context: Context) -> float:
    """Return the p95 of single rows while another session scores a table again and again / the idle p95."""
    text = context.database.format(FIRST, call=context.call(), table=context.database.table("first"))
    with fresh(context) as conn:
        _seconds(conn, text)
        idle = _p95([_seconds(conn, text, BETWEEN_ROWS) for _ in range(LATENCIES)])
        with _scanning(context):
            beside = _p95([_seconds(conn, text, BETWEEN_ROWS) for _ in range(LATENCIES)])
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
                    _seconds(conn, text)
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


def _seconds(conn: Connection, text: Any, pause: float = 0.0) -> float:
    time.sleep(pause)
    with conn.cursor() as cur:
        started = time.perf_counter()
        cur.execute(text)
        cur.fetchall()
        return time.perf_counter() - started


def _p95(seconds: list[float]) -> float:
    return quantiles(seconds, n=20)[-1]
