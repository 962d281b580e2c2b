"""What `dbinfer score --reuse` costs and saves: the same jobs without and with it, with 30 % duplicates and without.

    .venv/bin/python tests/bench/reuse.py [--dsn DSN] [--rounds N] [--part P] [NETWORK ...]

In each round the two ways take turns, and the one that begins changes; a ratio is that of their medians. Bytes after
the end of a file make pictures different whose pixels are the same, so that each takes as long as the other.
`sessions a row` is the processor time of the job's sessions for a row, and what --reuse adds: beside other programs it
says more than the clock. (The server must be on this host. What an engine works is not in it.)
"""

from __future__ import annotations

import argparse
import os
import random
import time
from itertools import islice
from pathlib import Path
from statistics import median

import psycopg2
from psycopg2.extras import execute_values

from dbinfer.base.progress import silent
from dbinfer.bench.database import Database, database, server_dsn
from dbinfer.bench.networks import model_files
from dbinfer.bench.report import Case
from dbinfer.images import builtin
from dbinfer.score import ScoreOptions, score

# network: its images, and rows that keep two cores busy for about ten seconds
NETWORKS = {"digits": ("28x28", 200_000), "mobilenet_v2": ("500x375", 2_500), "resnet50": ("500x375", 800)}
# more of the rows than this are the first with their picture
FIRST = {"30 % duplicates": 0.7, "no duplicates": 1.0}


def files(case: Case) -> list[bytes]:
    """Return the images of a case: digits as PNG, else photographs as JPEG."""
    if case.images == "28x28":
        return [data for data, _label in islice(builtin.digit_files("heldout"), 256)]
    return builtin.photograph_files(case.size, 32)


def fill(opened: Database, table: str, images: list[bytes], rows: int, first: float) -> None:
    """Make a table of so many rows; of a part of them the picture is the first of its kind, the others lie anywhere."""
    chance = random.Random(3)
    pictures = list(range(round(rows * first)))
    pictures += chance.sample(pictures, rows - len(pictures))
    chance.shuffle(pictures)
    with opened.conn.cursor() as cur:
        cur.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, img bytea)")
        values = (
            (n, psycopg2.Binary(images[p % len(images)] + p.to_bytes(4, "big")))
            for n, p in enumerate(pictures)
        )
        execute_values(cur, f"INSERT INTO {table} VALUES %s", values, page_size=200)
        cur.execute(f"VACUUM ANALYZE {table}")


def used(opened: Database) -> float:
    """Return the processor seconds of all sessions of the server that have ended, without those of an engine."""
    postmaster = Path(opened.one("SHOW data_directory"), "postmaster.pid").read_text().split()[0]
    fields = Path("/proc", postmaster, "stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


def seconds(opened: Database, table: str, case: Case, reuse: bool) -> tuple[float, float]:
    """Return how long a job takes from its first question to its report, and the processor time of its sessions."""
    into = f"{opened.schema}.results"
    begin, before = time.monotonic(), used(opened)
    report = score(table, into, ScoreOptions(model=case.model, reuse=reuse), opened.dsn)
    took = time.monotonic() - begin
    # a session is counted when it has ended
    time.sleep(0.5)
    processor = used(opened) - before
    with opened.conn.cursor() as cur:
        cur.execute(f"DROP TABLE {into}, {into}_errors")
        cur.execute("CHECKPOINT")
    assert report.errors == 0
    return took, processor


def measure(opened: Database, case: Case, rounds: int, rows: int) -> None:
    """Print a line for each table."""
    images = files(case)
    opened.deploy(case, model_files(case.network, case.precision))
    tables = {name: f"{opened.schema}.{case.network}_{number}" for number, name in enumerate(FIRST)}
    kilobytes = sum(map(len, images)) / len(images) / 1e3
    for name, table in tables.items():
        fill(opened, table, images, rows, FIRST[name])
        found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for turn in range(rounds):
            for reuse in sorted(found, reverse=turn % 2 == 1):
                found[reuse].append(seconds(opened, table, case, reuse))
        (plain, worked), (reused, worked_more) = (
            [median(each) for each in zip(*found[reuse], strict=True)] for reuse in (False, True)
        )
        spread = (max(found[False])[0] - min(found[False])[0]) / plain
        words = f"{rows:,} of {kilobytes:.1f} kB | {plain:.2f} s | {reused:.2f} s | {reused / plain:.3f}"
        more = f"{worked / rows * 1e6:.0f} + {(worked_more - worked) / rows * 1e6:.0f} us"
        busy = f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()}, plain rounds differ by {spread:.0%}"
        print(f"| {case.network} | {name} | {words} | {more} | {busy} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", type=float, default=1.0, help="of the rows")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    asked = parser.parse_args()
    print("| network | table | rows | plain | --reuse | ratio | sessions a row | machine |")
    print("|---|---|---|---|---|---|---|---|")
    with database(server_dsn(asked.dsn, silent)) as opened:
        for network in asked.networks:
            images, rows = NETWORKS[network]
            measure(opened, Case(network, "f32", images, "classify"), asked.rounds, round(rows * asked.part))


if __name__ == "__main__":
    main()
