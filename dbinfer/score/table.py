"""score in one transaction: the result of a function for each image of a table, as a table of its own."""

from __future__ import annotations

import time
import uuid

import psycopg2
from psycopg2 import errors, sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import execute_patiently, one, sentence, session
from dbinfer.errors import DataError, UsageError
from dbinfer.names import TableName, column
from dbinfer.platform import Platform, detect
from dbinfer.progress import OnProgress, Progress, silent
from dbinfer.score.files import IMAGE_STATES
from dbinfer.score.functions import Arguments, choose
from dbinfer.score.key import columns_of
from dbinfer.score.options import ScoreOptions, ScoreReport
from dbinfer.score.prepare import ask_once
from dbinfer.score.tables import errors_name
from dbinfer.sqlfiles import read


def score_at_once(
    table: str,
    into: str,
    options: ScoreOptions,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> ScoreReport:
    """Score the rows of a table in one transaction; the images stay in the database, all its cores share the work.

    The result is made beside `into` and takes its name at the end, so that readers of an old one need not wait.

    Args:
        table, into: names of tables as a user writes them.

    Raises:
        DataError: `into` exists (with existing='refuse'), or the server refused: a bad image, an unknown model.
        UsageError: names that are none, or values that do not fit.
    """
    # Not catalog_only: `where` is the user's SQL, which means what their search_path says
    with session(dsn) as conn, conn.cursor() as cur:
        job = _Job(cur, table, into, options, detect(conn))
        progress(Progress("scoring"))
        begin = time.monotonic()
        job.run()
        rows, seconds = cur.rowcount, time.monotonic() - begin
        cur.execute(job.format("SELECT pg_catalog.count(*) FROM {scratch} WHERE {first} IS NULL"))
        nulls = one(cur)
        job.move()
        names = str(job.table), str(job.into), job.function.name
        return ScoreReport(*names, options.model, rows, nulls, seconds)


class _Job:
    """One scoring: its names, checked, and its statements."""

    def __init__(self, cur: Cursor, table: str, into: str, options: ScoreOptions, platform: Platform) -> None:
        self.cur, self.options, self.platform = cur, options, platform
        self.table = TableName.parse(table).resolve(cur)
        self.into = TableName.parse(into).resolve(cur)
        # Random, because two may score into one table; in its schema, because a rename does not move it
        self.scratch = TableName(self.into.schema, f"dbinfer_score_{uuid.uuid4().hex[:12]}")
        self.key, self.img = sql.Identifier(column(options.key)), sql.Identifier(column(options.column))
        self.function = choose(cur, options.function, options.model)
        self.arguments = Arguments(options.model, options.on_error or "error", options.top)
        img = columns_of(cur, self.table).get(column(options.column))
        # What is not there the statement itself says
        if img is not None:
            ask_once(cur, self.table, img, self.function, self.arguments)
        self.exists = self._target_exists()
        self.append = self.exists and options.existing == "append"

    def _target_exists(self) -> bool:
        names = {"into": self.into, "table": self.table}
        self.cur.execute(
            read("client/target.sql"),
            {key: name.identifier.as_string(self.cur) for key, name in names.items()},
        )
        kind, source = self.cur.fetchone() or (None, False)
        if source:
            raise UsageError(
                f"--into names {self.into}, which is the table of images", "Choose another table."
            )
        # An ordinary table or a partitioned one
        if kind is not None and kind not in "rp":
            raise DataError(f"{self.into} is not a table", "Choose another name with --into.")
        if kind is not None and self.options.existing == "refuse":
            raise DataError(
                f"table {self.into} already exists",
                "Use --replace to replace it, --append to add the missing rows, or --into to choose another table.",
            )
        return kind is not None

    def format(self, text: str, **more: sql.Composable) -> sql.Composed:
        """Return SQL with this scoring's names filled in."""
        names: dict[str, sql.Composable] = {
            "table": self.table.identifier,
            "into": self.into.identifier,
            "scratch": self.scratch.identifier,
            "name": sql.Identifier(self.into.name),
            "first": sql.Identifier(self.function.columns[0]),
            "key": self.key,
        }
        return sql.SQL(text).format(**(names | more))

    def statement(self) -> sql.Composed:
        """Return the statement that scores into the scratch table."""
        return self.format(
            self.platform.adapt(read("client/score.sql")),
            columns=self.function.parts(sql.SQL("result")),
            call=self.function.call(sql.SQL("source.{}").format(self.img), self.arguments),
            where=sql.SQL(self.options.where),
            missing=self.format(read("client/score_missing.sql") if self.append else "true"),
        )

    def run(self) -> None:
        """Score all rows.

        Raises:
            DataError: an image is bad.
        """
        try:
            execute_patiently(self.cur, self.statement())
        except psycopg2.Error as err:
            if err.pgcode not in IMAGE_STATES:
                raise
            raise DataError(
                sentence(err).message,
                "Use --on-error null to store NULL for such images. Without --atomic and --replace "
                f"they go into the table {errors_name(self.into.name)}, with their keys and reasons.",
            ) from err

    def move(self) -> None:
        """Give the result its name, or add its rows to the table of that name."""
        if self.append:
            self.into.require_own(self.cur)
            columns = sql.SQL(", ").join([self.key, *map(sql.Identifier, self.function.columns)])
            self.cur.execute(self.format(read("client/score_append.sql"), columns=columns))
            return
        if self.exists:
            self._drop()
        self.cur.execute(self.format("ALTER TABLE {scratch} RENAME TO {name}"))
        self.cur.execute(self.format("ANALYZE {into}"))

    def _drop(self) -> None:
        try:
            self.cur.execute(self.format("DROP TABLE {into}"))
        except errors.DependentObjectsStillExist as err:
            raise DataError(
                f"table {self.into} cannot be replaced: {err.diag.message_detail}",
                "Drop the objects that depend on it, or add to it with --append.",
            ) from err
