"""dbinfer load against psycopg2's raw binary COPY of the same rows."""

from __future__ import annotations

import io
import struct
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from psycopg2 import sql

from dbinfer.bench.images import make_images
from dbinfer.bench.options import BenchOptions
from dbinfer.bench.tables import Bench
from dbinfer.load import LoadOptions, load

FILES, DISTINCT = 4000, 64
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
COPY = "COPY {table} (path, img) FROM STDIN WITH (FORMAT binary)"


def load_speed(made: Bench, options: BenchOptions) -> dict[str, float]:
    """Return images per second of both, and their ratio as the median over the rounds."""
    images = make_images("500x375", DISTINCT)
    count = FILES // 4 if options.quick else FILES
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            Path(folder, f"{i:06}.jpg").write_bytes(images[i % DISTINCT])
        loaded, copied = [], []
        for _ in range(options.rounds):
            loaded.append(count / _load(made, Path(folder)))
            copied.append(count / _copy(made, images, count))
    ratios = [ours / raw for ours, raw in zip(loaded, copied, strict=True)]
    return {
        "load_images_per_s": round(median(loaded), 1),
        "copy_images_per_s": round(median(copied), 1),
        "ratio_load": round(median(ratios), 3),
    }


def _load(made: Bench, folder: Path) -> float:
    table = f"{made.schema}.loaded"
    for name in ("copied", "loaded"):  # the first uses the sequence of the second
        made.run("DROP TABLE IF EXISTS {table}", table=made.table(name))
    started = time.perf_counter()
    load([folder], LoadOptions(table=table), made.dsn)
    return time.perf_counter() - started


def _copy(made: Bench, images: list[bytes], count: int) -> float:
    """Copy rows that were encoded before into an empty table like the one that load has made."""
    like, table = made.table("loaded"), made.table("copied")
    made.run("CREATE TABLE {table} (LIKE {like} INCLUDING ALL)", table=table, like=like)
    stream = io.BytesIO(_encoded(images, count))
    text = sql.SQL(COPY).format(table=table).as_string(made.conn)
    started = time.perf_counter()
    with made.conn.cursor() as cur:
        cur.copy_expert(text, stream, 1 << 20)
    return time.perf_counter() - started


def _encoded(images: list[bytes], count: int) -> bytes:
    parts: list[Any] = [SIGNATURE]
    for i in range(count):
        path, image = f"{i:06}.jpg".encode(), images[i % len(images)]
        parts += [struct.pack("!hi", 2, len(path)), path, struct.pack("!i", len(image)), image]
    return b"".join([*parts, struct.pack("!h", -1)])
