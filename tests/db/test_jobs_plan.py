"""Batches of a long table come by index, from the last one's end on, and the client's memory stays flat.

A tiny part of it here; LONG=1 for 10 million keys, whose images are NULL.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.platform import detect
from dbinfer.registry import deploy
from dbinfer.score import ScoreOptions, score
from dbinfer.score.feeder import KEYS_BY_INDEX
from dbinfer.score.plan import Range
from dbinfer.score.prepare import prepare
from dbinfer.score.worker import BY_INDEX, GROUPED, ONE_BY_ONE

pytestmark = pytest.mark.postgres_only("the plans of its planner")
ROWS = 10_000_000 if os.environ.get("LONG") == "1" else 30_000
MORE_MB = 30
CLIENT = """
import resource, sys
from dbinfer.score import ScoreOptions, score
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
seen = []
tell = lambda progress: seen.append(peak()) if len(seen) < 5 else None
report = score("long", "long_results", dsn=sys.argv[1], progress=tell)
print(report.rows, report.nulls, peak() - seen[-1])
"""


@pytest.fixture(scope="module", autouse=True)
def long_table(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, "CREATE TABLE long (id bigint PRIMARY KEY, img bytea)")
        rows(db, f"INSERT INTO long SELECT g, NULL FROM generate_series(1, {ROWS}) g")
        rows(db, "CREATE TABLE pairs (a integer, b text, img bytea, PRIMARY KEY (a, b))")
        rows(db, "INSERT INTO pairs SELECT g % 3, 'b' || g, NULL FROM generate_series(1, 3000) g")


def test_the_memory_of_the_client_stays_flat(db: Connection, dsn: str) -> None:
    done = subprocess.run([sys.executable, "-c", CLIENT, dsn], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scored, nulls, more = map(int, done.stdout.split())
    assert (scored, nulls) == (ROWS, ROWS)
    assert more < MORE_MB
    assert ask(db, "SELECT count(*) FROM long_results") == ROWS


@pytest.mark.parametrize(
    ("table", "key", "low", "high"),
    [("long", "id", ("20000",), ("20100",)), ("pairs", "a,b", ("1", "b200"), ("1", "b300"))],
)
def test_a_batch_begins_where_the_last_one_ended(
    dsn: str, table: str, key: str, low: tuple[str, ...], high: tuple[str, ...]
) -> None:
    score(table, f"{table}_results", ScoreOptions(key=key), dsn)
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
        plan = prepare(cur, table, f"{table}_results", ScoreOptions(key=key), detect(conn))
        for prefix, statement in (
            (KEYS_BY_INDEX, plan.boundary(low, 1000, False)),
            (BY_INDEX + (GROUPED if plan.grouped else ONE_BY_ONE), plan.batch(Range(low, high, 100))),
        ):
            cur.execute(prefix)
            cur.execute("EXPLAIN " + statement.as_string(cur))
            shown = "\n".join(row[0] for row in cur.fetchall())
            assert "Seq Scan" not in shown, shown
            # of the images and of the results: both from the last key on, not from the first one
            scans = re.findall(r"Index.* Scan (?:using|on) (\w+)_pkey.*\n\s+Index Cond: (.*)", shown)
            bound = low[-1]
            for name in (table, f"{table}_results"):
                conditions = [condition for found, condition in scans if found == name]
                assert conditions, shown
                assert any(bound in condition or "source" in condition for condition in conditions), shown
            if prefix is KEYS_BY_INDEX:
                # sorted are the keys of the one batch alone, for its last one
                assert all("DESC" in line for line in re.findall(r"Sort Key: .*", shown)), shown
            conn.rollback()
