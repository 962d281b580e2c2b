"""How long one row waits for a warm worker on the same host: from `dbinfer.request` to what `dbinfer.answer` returns.

python tests/bench/answering.py [DSN]    prints a line for each network, after a minute
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import islice
from statistics import median, quantiles

import psycopg2

from dbinfer.base.progress import silent
from dbinfer.bench.database import Database, database, server_dsn
from dbinfer.bench.networks import model_files
from dbinfer.bench.report import Case
from dbinfer.images import builtin

CASES = (
    Case("digits", "f32", "28x28", "classify"),
    Case("mobilenet_v2", "f32", "500x375", "classify"),
    Case("resnet50", "f32", "500x375", "classify"),
)
REQUESTS, WARMING = 200, 20
WORKER = (sys.executable, "-m", "dbinfer", "worker", "--concurrency", "1")


def files(case: Case) -> list[bytes]:
    """Return the images of a case: digits as PNG, photographs as JPEG."""
    if case.images == "28x28":
        return [data for data, _label in islice(builtin.digit_files("heldout"), REQUESTS)]
    return builtin.photograph_files(case.size, 32)


def waits(opened: Database, case: Case) -> list[float]:
    """Return the milliseconds that each request took; in autocommit a worker sees it as soon as it is there."""
    images = files(case)
    opened.deploy(case, model_files(case.network, case.precision))
    found = []
    for number in range(WARMING + REQUESTS):
        asked = (psycopg2.Binary(images[number % len(images)]), case.model, case.function)
        began = time.perf_counter()
        answer = opened.one(
            "SELECT dbinfer.answer(%s)", opened.rows("SELECT dbinfer.request(%s, %s, %s)", asked)[0]
        )
        found.append((time.perf_counter() - began) * 1000)
        assert answer is not None
    return found[WARMING:]


def main(dsn: str | None) -> None:
    """Print a line for each network as it is done; docs/how-to/workers.md has the medians."""
    dsn = server_dsn(dsn, silent)
    with database(dsn) as opened:
        worker = subprocess.Popen(
            [*WORKER, *(["--dsn", dsn] if dsn else [])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            print("| network | median, ms | 95 of 100 within, ms | longest, ms |\n|---|---|---|---|")
            for case in CASES:
                found = waits(opened, case)
                print(
                    f"| {case.network} | {median(found):.1f} | {quantiles(found, n=20)[-1]:.1f} | {max(found):.1f} |"
                )
        finally:
            worker.terminate()
            worker.wait(60)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
