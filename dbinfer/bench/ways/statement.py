"""The product: SELECT count(f(img)), classify_table and CREATE TABLE AS, in one session."""

from __future__ import annotations

import time

from psycopg2 import sql

from dbinfer.bench.ways.context import Context, Sample
from dbinfer.sqlfiles import read

COUNT = "SELECT count({call}) FROM {table}"
BATCH = "SELECT count(*) FROM dbinfer.classify_table({table}, {model})"
LEAST_SHARE = 1 / 3
DROP = "DROP TABLE IF EXISTS {result}"


def slope(context: Context, small: float, big: float) -> Sample:
    """Return the rate after the start from the seconds that two statements took: on `small` rows and on `rows`.

    PostgreSQL's parallel workers are new processes in every statement; what their start costs is the same for both.
    Where the big statement takes hardly longer than the small one, the rate is that of the whole statement.
    """
    whole = context.rows / big
    if big - small < LEAST_SHARE * big:  # disturbed, or nothing but start
        return Sample(whole, whole)
    rate = (context.rows - context.small) / (big - small)
    return Sample(rate, whole, max(0.0, big - context.rows / rate))


class Sql:
    """SELECT count(f(img)) FROM a table."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.seconds("small")

    def statement(self, table: str) -> sql.Composed:
        """Return the statement on a table."""
        made = self.context.bench
        return made.format(COUNT, call=self.context.call(), table=made.table(table))

    def seconds(self, table: str) -> float:
        """Return how long the statement takes on a table."""
        text = self.statement(table)
        started = time.perf_counter()
        self.context.bench.one(text)
        return time.perf_counter() - started

    def measure(self) -> Sample:
        """Measure small and big table."""
        return slope(self.context, self.seconds("small"), self.seconds("big"))


class Batch(Sql):
    """SELECT count(*) FROM dbinfer.classify_table(a table)."""

    def statement(self, table: str) -> sql.Composed:
        """Return the statement on a table."""
        made = self.context.bench
        names = {"table": f"{made.schema}.{table}", "model": self.context.cell.model}
        return made.format(BATCH, **{key: sql.Literal(name) for key, name in names.items()})


class Ctas(Sql):
    """CREATE TABLE AS SELECT id, f(img) FROM a table."""

    def seconds(self, table: str) -> float:
        """Return how long the statement takes on a table."""
        made, result = self.context.bench, self.context.bench.table("result")
        made.run(DROP, result=result)
        text, call = read("bench/create_result.sql"), self.context.call()
        started = time.perf_counter()
        made.run(text, result=result, call=call, table=made.table(table))
        return time.perf_counter() - started
