"""Batches of a long table come by index, from the last one's end on, and the client's memory stays flat.

A tiny part of it here; LONG=1 for 10 million keys, whose images are NULL.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.database.platform import detect
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score
from dbinfer.score.statements import Range
from dbinfer.score.tables import prepare
from dbinfer.score.workers import BY_INDEX, GROUPED, KEYS_BY_INDEX, ONE_BY_ONE

pytestmark = pytest.mark.postgres_only("the plans of its planner")
ROWS = 10_000_000 if os.environ.get("LONG") == "1" else 30_000
MORE_MB = 30
CLIENT = """
import resource, sys
from dbinfer.score import ScoreOptions, score
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
seen = []
tell = lambda progress: seen.append(peak()) if len(seen) < 5 else None
dsn, table, key = sys.argv[1:]
report = score(table, f"{table}_results", ScoreOptions(key=key), dsn, tell)
print(report.rows, report.nulls, peak() - seen[-1], round(report.seconds))
"""
# Of each table: columns of the key, and their values for row g
TABLES = {
    "long": ("id bigint", "g"),
    "pairs": ("shop bigint, name text", "g % 7, 'name ' || g"),
    "uuids": ("id uuid", "md5(g::text)::uuid"),
}


def key_of(table: str) -> str:
    return ",".join(column.split()[0] for column in TABLES[table][0].split(", "))


@pytest.fixture(scope="module", autouse=True)
def model(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture(scope="module", params=TABLES)
def table(dsn: str, request: pytest.FixtureRequest) -> Iterator[str]:
    columns, values = TABLES[request.param]
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, f"CREATE TABLE {request.param} ({columns}, img bytea)")
        rows(db, f"INSERT INTO {request.param} SELECT {values}, NULL FROM generate_series(1, {ROWS}) g")
        rows(db, f"ALTER TABLE {request.param} ADD PRIMARY KEY ({key_of(request.param)})")
        yield request.param
        rows(db, f"DROP TABLE {request.param}, {request.param}_results, {request.param}_results_errors")


@pytest.mark.wide
def test_the_memory_of_the_client_stays_flat(db: Connection, dsn: str, table: str) -> None:
    words = [sys.executable, "-c", CLIENT, dsn, table, key_of(table)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(f"{table}: rows, without a result, more MB, seconds: {done.stdout}")
    scored, nulls, more, _ = map(int, done.stdout.split())
    assert (scored, nulls) == (ROWS, ROWS)
    assert more < MORE_MB
    assert ask(db, f"SELECT count(*) FROM {table}_results") == ROWS


@pytest.mark.wide
def test_a_batch_begins_where_the_last_one_ended(db: Connection, dsn: str, table: str) -> None:
    key = key_of(table)
    score(table, f"{table}_results", ScoreOptions(key=key), dsn)
    texts = ", ".join(f"{name}::text" for name in key.split(","))
    low, high = rows(db, f"SELECT {texts} FROM {table} ORDER BY {key} OFFSET {ROWS // 3} LIMIT 101")[::100]
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
        plan = prepare(cur, table, f"{table}_results", ScoreOptions(key=key), detect(conn))
        batch = BY_INDEX + (GROUPED if plan.grouped else ONE_BY_ONE)
        statements = [(KEYS_BY_INDEX, plan.boundary(low, 1000, False))]
        statements += [(batch, statement) for statement in plan.batches(Range(low, high, 100))]
        for prefix, statement in statements:
            cur.execute(prefix)
            cur.execute("EXPLAIN " + statement.as_string(cur))
            shown = "\n".join(row[0] for row in cur.fetchall())
            print(f"{table}:\n{shown}")
            assert "Seq Scan" not in shown, shown
            # of the images and of the results: both from the last key on, not from the first one
            scans = re.findall(r"Index.* Scan (?:using|on) (\w+)_pkey.*\n\s+Index Cond: (.*)", shown)
            for name in (table, f"{table}_results"):
                conditions = [condition for found, condition in scans if found == name]
                assert conditions, shown
                assert any(low[-1] in found or "source" in found for found in conditions), shown
            if prefix is KEYS_BY_INDEX:
                # sorted are the keys of the one batch alone, for its last one
                assert all("DESC" in line for line in re.findall(r"Sort Key: .*", shown)), shown
            conn.rollback()
