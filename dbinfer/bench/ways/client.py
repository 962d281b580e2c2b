"""The client-side way: rows are pulled with psycopg2 and scored in the client with all cores."""

from __future__ import annotations

from dbinfer.bench.pool import Job, Pull
from dbinfer.bench.ways.context import Context, Sample
from dbinfer.sqlfiles import read


class Client:
    """As many client processes as cores, each with a server-side cursor over its share; results are not sent back."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context.pool.load(Job(context.files, context.cell.function, context.images))
        made = context.bench
        query = made.format(read("bench/pull.sql"), table=made.table("big")).as_string(made.conn)
        self.pull = Pull(made.dsn, query)

    def measure(self) -> Sample:
        """Score the whole big table."""
        return Sample(self.context.rows / self.context.pool.pull(self.pull, self.context.rows))
