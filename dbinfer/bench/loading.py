"""dbinfer load against psycopg2's raw binary COPY of the same rows.

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
from pathlib import Path
from statistics import median

import psycopg2
from psycopg2 import sql

from dbinfer import samples
from dbinfer.bench.database import Database
from dbinfer.bench.options import BenchOptions
from dbinfer.connection import connect
from dbinfer.load import LoadOptions, load
from dbinfer.load.copybinary import encode
from dbinfer.sqlfiles import read

FILES, DISTINCT = 4000, 64
ROUNDS = 7  # at least: a round is short, and writing out makes single ones slow
COPY = "COPY {table} (path, img) FROM STDIN WITH (FORMAT binary)"


def load_speed(database: Database, options: BenchOptions) -> dict[str, float]:
    """Return images per second of both, and their ratio as the median over the rounds."""
    images = samples.photograph_files((500, 375), DISTINCT)
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
