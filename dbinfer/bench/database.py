"""A schema of the harness's own with tables of images, and the models, in the database that is measured."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import ServerError
from dbinfer.base.progress import OnProgress
from dbinfer.bench.networks import ModelFiles
from dbinfer.bench.report import Case
from dbinfer.database.connection import connect, named, require_dbinfer, sentence
from dbinfer.database.platform import Platform, detect
from dbinfer.database.sql import read
from dbinfer.models import DeployOptions, deploy, drop
from dbinfer.server import up

# Few rows get a page each: workers take pages, and would not share a handful of them evenly
PAD_BYTES, PADDED_ROWS = 700, 2000
# Hashing gives some segments fewer rows than they need; what is too much goes again (bench/balance.sql)
SPARE = 1.5
# Or the statement on the small table would run in one process, and the difference to the big one would say nothing
PARALLEL_SMALL = "SET parallel_setup_cost = 0"
RECOVERY_SECONDS = 60.0


class Database:
    """An open session in autocommit mode, and the names of what the harness has made.

    Attributes:
        dsn: of further sessions; schema: the harness's own.
        workers: processes that score one statement.
    """

    def __init__(self, dsn: str | None) -> None:
        self.dsn, self.conn = dsn, _open(dsn)
        self.platform: Platform = detect(self.conn)
        self.schema = f"dbinfer_bench_{uuid.uuid4().hex[:8]}"
        self.models: set[str] = set()
        # The leader scores, too
        self.workers = self.platform.segments or 1 + int(self.one("SHOW max_parallel_workers_per_gather"))
        self.run("CREATE SCHEMA {schema}")
        self._set()
        self.run("CREATE TABLE {source} (id bigint, img bytea)", source=self.table("source"))

    def _set(self) -> None:
        if not self.platform.mpp:
            self.run(PARALLEL_SMALL)

    def again(self) -> None:
        """Open another session where the last one was lost: a foreign library may crash the server.

        Raises:
            ServerError: the server does not answer within a minute.
        """
        if not self.conn.closed:
            return
        end = time.monotonic() + RECOVERY_SECONDS
        while self.conn.closed:
            try:
                self.conn = _open(self.dsn)
            except ServerError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
        self._set()

    def table(self, name: str) -> sql.Identifier:
        """Return the name of a table of the harness."""
        return sql.Identifier(self.schema, name)

    def format(self, text: str, **names: sql.Composable) -> sql.Composed:
        """Return SQL, as this platform takes it, with names filled in."""
        return sql.SQL(self.platform.adapt(text)).format(schema=sql.Identifier(self.schema), **names)

    def run(self, text: str, values: Any = None, **names: sql.Composable) -> None:
        """Run a statement without a result."""
        with self.conn.cursor() as cur:
            cur.execute(self.format(text, **names), values)

    def rows(self, text: str | sql.Composed, values: Any = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.conn.cursor() as cur:
            cur.execute(text, values)
            return cur.fetchall()

    def one(self, text: str | sql.Composed, values: Any = None) -> Any:
        """Return the single value of a query."""
        return self.rows(text, values)[0][0]

    def images(self, images: Sequence[bytes]) -> None:
        """Put the different images into the source table."""
        self.run("TRUNCATE {source}", source=self.table("source"))
        for i, image in enumerate(images):
            text = "INSERT INTO {source} VALUES (%s, %s)"
            self.run(text, (i, psycopg2.Binary(image)), source=self.table("source"))

    def fill(self, name: str, rows: int, images: int) -> int:
        """Make a table of `rows` rows anew; return how many it has (on Greenplum, equally many a segment)."""
        table, source = self.table(name), self.table("source")
        self.run("DROP TABLE IF EXISTS {table}", table=table)
        self.run(read("bench/create_table.sql"), table=table, workers=sql.Literal(self.workers - 1))
        segments = self.platform.segments
        spare = int(rows * SPARE) + 20 * segments if segments and rows < PADDED_ROWS else rows
        pad = PAD_BYTES if rows < PADDED_ROWS else 0
        values = {"rows": spare, "images": images, "pad": pad}
        self.run(read("bench/fill_table.sql"), values, table=table, source=source)
        if spare > rows:
            self.run(read("bench/balance.sql"), {"each": max(1, rows // segments)}, table=table)
        self.run("VACUUM ANALYZE {table}", table=table)
        return int(self.one(self.format("SELECT count(*) FROM {table}", table=table)))

    def deploy(self, case: Case, files: ModelFiles) -> None:
        """Deploy the model of a case, unless this run has done it."""
        if case.model not in self.models:
            values = {"precision": files.manifest.precision}
            deploy(files.source, DeployOptions(name=case.model, values=values), self.dsn)
            self.models.add(case.model)

    def clean(self) -> None:
        """Drop the schema and the models."""
        # the models are dropped also where the server does not let the schema go
        with suppress(psycopg2.Error, ServerError):
            self.again()
            self.run("DROP SCHEMA {schema} CASCADE")
        for model in self.models:
            drop(model, True, self.dsn)


def server_dsn(dsn: str | None, progress: OnProgress) -> str | None:
    """Return the dsn; where none is named, that of the embedded server, started if need be."""
    if named(dsn) is not None:
        return dsn
    return up(progress=progress).dsn


@contextmanager
def database(dsn: str | None, keep: bool = False) -> Iterator[Database]:
    """Yield a Database; drop what it holds of the harness, unless it is to be kept.

    Raises:
        ServerError: dbinfer is not installed there.
    """
    try:
        opened = Database(dsn)
        try:
            yield opened
        finally:
            if not keep:
                opened.clean()
            opened.conn.close()
    except psycopg2.Error as err:
        raise sentence(err, ServerError) from err


def _open(dsn: str | None) -> Connection:
    conn = connect(dsn)
    conn.set_client_encoding("UTF8")  # whatever PGCLIENTENCODING says
    require_dbinfer(conn, ServerError)
    # VACUUM runs in no transaction
    conn.autocommit = True
    return conn
