"""score: the result of a function for each image of a table, as a table of its own."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

from psycopg2 import errors, sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import execute_patiently, one, session
from dbinfer.errors import DataError, UsageError
from dbinfer.names import TableName, column
from dbinfer.platform import Platform, detect
from dbinfer.score.functions import Arguments, check_on_error, choose
from dbinfer.sqlfiles import read

EXISTING = ("refuse", "replace", "append")


@dataclass(frozen=True)
class ScoreOptions:
    """What to score into which table.

    Attributes:
        table, into: names of tables as a user writes them.
        function: None: the one for the model's task.
        img, key: columns of `table`; `key` is copied into the result.
        where: a SQL condition on the rows of `table`; without one all.
        existing: what to do when `into` is there: refuse, replace, or append (the keys that it lacks).
    """

    table: str = "images"
    into: str = "predictions"
    function: str | None = None
    arguments: Arguments = field(default_factory=Arguments)
    img: str = "img"
    key: str = "id"
    where: str = "true"
    existing: str = "refuse"


@dataclass(frozen=True)
class ScoreReport:
    """What a score did.

    Attributes:
        table, into: full names; function, model: that were called.
        rows: of the result; nulls: those of them without one (bad images).
        seconds: of the scoring statement.
    """

    table: str
    into: str
    function: str
    model: str | None
    rows: int
    nulls: int
    seconds: float

    @property
    def images_per_second(self) -> float:
        """Return rows / seconds."""
        return self.rows / self.seconds if self.seconds else 0.0


def score(options: ScoreOptions, dsn: str | None = None) -> ScoreReport:
    """Score the rows of a table in one transaction; the images stay in the database, all its cores share the work.

    The result is made beside `into` and takes its name at the end, so that readers of an old one need not wait.

    Raises:
        DataError: `into` exists (with existing='refuse'), or the server refused: a bad image, an unknown model.
        UsageError: names that are none, or values that do not fit.
    """
    check_on_error(options.arguments.on_error)
    if options.existing not in EXISTING:
        raise UsageError(f"existing is {options.existing!r}, but must be one of {', '.join(EXISTING)}.")
    with session(dsn) as conn, conn.cursor() as cur:
        job = _Job(cur, options, detect(conn))
        begin = time.monotonic()
        execute_patiently(cur, job.statement())
        rows, seconds = cur.rowcount, time.monotonic() - begin
        cur.execute(job.format("SELECT count(*) FROM {scratch} WHERE {first} IS NULL"))
        nulls = one(cur)
        job.move()
        names = str(job.table), str(job.into), job.function.name
        return ScoreReport(*names, options.arguments.model, rows, nulls, seconds)


class _Job:
    """One scoring: its names, checked, and its statements."""

    def __init__(self, cur: Cursor, options: ScoreOptions, platform: Platform) -> None:
        self.cur, self.options, self.platform = cur, options, platform
        self.table = TableName.parse(options.table).resolve(cur)
        self.into = TableName.parse(options.into).resolve(cur)
        self.scratch = TableName(self.into.schema, f"dbinfer_score_{uuid.uuid4().hex[:12]}")
        self.key, self.img = sql.Identifier(column(options.key)), sql.Identifier(column(options.img))
        self.function = choose(cur, options.function, options.arguments.model)
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
            raise UsageError(f"--into names {self.into}, the table of the images.", "Name another one.")
        if kind is not None and kind not in "rp":
            raise DataError(f"{self.into} exists and is no table.", "Name another one with --into.")
        if kind is not None and self.options.existing == "refuse":
            raise DataError(
                f"table {self.into} exists.",
                "--replace makes it anew, --append adds the keys that it lacks, --into names another one.",
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
            call=self.function.call(sql.SQL("source.{}").format(self.img), self.options.arguments),
            where=sql.SQL(self.options.where),
            missing=self.format(read("client/score_missing.sql") if self.append else "true"),
        )

    def move(self) -> None:
        """Give the result its name, or add its rows to the table of that name."""
        if self.append:
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
                f"table {self.into} cannot be replaced: {err.diag.message_detail}.",
                "Drop what uses it, or add to it with --append.",
            ) from err
