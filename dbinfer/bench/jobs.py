"""dbinfer score as a way to score a table: batches, a table with a unique key, several connections."""

from __future__ import annotations

import time

from psycopg2 import sql

from dbinfer.bench.methods import DROP, Context, Sql
from dbinfer.score import ScoreOptions, score

INDEX = "CREATE UNIQUE INDEX ON {table} (id)"


class Job(Sql):
    """dbinfer.score into a new table."""

    def __init__(self, context: Context) -> None:
        # As a user's table has it
        for table in ("small", "big"):
            context.database.run(INDEX, table=context.database.table(table))
        super().__init__(context)

    def seconds(self, table: str) -> float:
        """Return how long the job takes on a table, all of it: connections, counting, batches, its last look."""
        database, case = self.context.database, self.context.case
        for name in ("job", "job_errors"):
            database.run(DROP, result=sql.Identifier(database.schema, name))
        options = ScoreOptions(function=case.function, model=case.model)
        started = time.perf_counter()
        score(f"{database.schema}.{table}", f"{database.schema}.job", options, database.dsn)
        return time.perf_counter() - started
