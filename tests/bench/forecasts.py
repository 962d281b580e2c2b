"""Measures how far `dbinfer plan` is off: its forecasts beside real jobs, for three networks and two tables each.

python tests/bench/forecasts.py [DSN]    prints the table of docs/explanation/planning.md, after about 8 minutes
"""

from __future__ import annotations

import sys
from itertools import islice

from dbinfer.base.progress import silent
from dbinfer.bench.database import Database, database, server_dsn
from dbinfer.bench.networks import model_files
from dbinfer.bench.report import Case
from dbinfer.images import builtin
from dbinfer.plan import PlanOptions, plan
from dbinfer.score import ScoreOptions, score

CASES = (
    Case("digits", "f32", "28x28", "classify"),
    Case("digits", "f32", "224x224", "classify"),
    Case("mobilenet_v2", "f32", "500x375", "classify"),
    Case("mobilenet_v2", "f32", "2000x1500", "classify"),
    Case("resnet50", "f32", "500x375", "classify"),
    Case("resnet50", "f32", "1000x750", "classify"),
    Case("unet", "f32", "500x375", "segment"),
    Case("unet", "f32", "1000x750", "segment"),
)
SECONDS, LEAST = 20.0, 100


def files(case: Case) -> list[bytes]:
    """Return the images of a case: digits as PNG for 28x28, else photographs as JPEG."""
    if case.images == "28x28":
        return [data for data, _label in islice(builtin.digit_files("heldout"), 256)]
    return builtin.photograph_files(case.size, 32)


def measure(opened: Database, case: Case) -> list[str]:
    """Return the cells of a case: the seconds of two jobs, and what each kind of forecast says of them."""
    images, table = files(case), f"{opened.schema}.{case.network}_{case.images}"
    opened.deploy(case, model_files(case.network, case.precision))
    opened.images(images)

    def seconds(**options: object) -> float:
        return plan(case.model, PlanOptions(host_count=1, **options), opened.dsn).hours * 3600  # type: ignore[arg-type]

    fill = f"{case.network}_{case.images}"
    opened.fill(fill, LEAST, len(images))
    rows = opened.fill(fill, max(LEAST, round(SECONDS / seconds(images=1, table=table))), len(images))
    opened.run("CREATE UNIQUE INDEX ON {table} (id)", table=opened.table(fill))
    kilobytes = sum(map(len, images)) / len(images) / 1e3
    forecasts = [seconds(images=rows, kilobytes=kilobytes), seconds(table=table)]
    options = ScoreOptions(function=case.function, model=case.model)
    first = score(table, f"{table}_first", options, opened.dsn).seconds
    by_job = plan(case.model, PlanOptions(host_count=1, table=table), opened.dsn)
    assert by_job.source == "job", f"the first job was over in {first:.1f} s"
    forecasts.append(by_job.hours * 3600)
    second = score(table, f"{table}_second", options, opened.dsn).seconds
    real = [first, first, second]
    errors = [f"{forecast / taken - 1:+.0%}" for forecast, taken in zip(forecasts, real, strict=True)]
    return [case.network, f"{rows:,} of {kilobytes:.0f} kB", f"{first:.1f}, {second:.1f}", *errors]


def main(dsn: str | None) -> None:
    """Print a line for each case as it is done."""
    print("| network | rows | two jobs, s | by the trial | by rows of the table | by the first job |")
    print("|---|---|---|---|---|---|")
    with database(server_dsn(dsn, silent)) as opened:
        for case in CASES:
            print("| " + " | ".join(measure(opened, case)) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
