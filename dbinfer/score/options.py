"""The database functions that clients call, and the options and the report of `score`."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import UsageError
from dbinfer.base.options import check, documented, option
from dbinfer.base.report import Report
from dbinfer.database.connection import one
from dbinfer.database.sql import read
from dbinfer_udf import tasks

# These take no image
OF_TEXTS = {one.sql for task in tasks.TASKS.values() if task.reads_text for one in task.functions}
BY_TASK = {name: task.functions[0].sql for name, task in tasks.TASKS.items() if task.functions}


@dataclass(frozen=True)
class Arguments:
    """Arguments besides the image: a model's name (None: the default model), error or null, the number of classes."""

    model: str | None = None
    on_error: str = "error"
    top: int = 5


@dataclass(frozen=True)
class Function:
    """One of the SQL functions on an image.

    Attributes:
        name: in the schema dbinfer.
        columns: of the result: the fields of a composite, or one column for a single value.
        types: of those columns, as the server writes them.
        k: it takes a number of classes; model, on_error: it takes this argument.
        binary: returns bytea.
        batched: the type of its results in batches; None: it does not score in batches.
        task: that the model must have; None: any.
        word, result: how the runtime names it, and the type of its results; "" where workers have no such function.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    k: bool = False
    model: bool = True
    on_error: bool = True
    binary: bool = False
    batched: str | None = None
    task: str | None = None
    word: str = ""
    result: str = ""

    @classmethod
    def of_runtime(cls, function: tasks.Function) -> Function:
        """Return a function of the runtime's table of tasks."""
        return cls(
            function.sql,
            tuple(function.columns),
            tuple(function.columns.values()),
            k=function.argument == "classes",
            binary=function.result == tasks.BYTEA,
            batched=function.result if function.batch else None,
            task=function.task,
            word=function.name,
            result=function.result,
        )

    def call(self, img: sql.Composable, arguments: Arguments) -> sql.Composed:
        """Return the call as SQL; model and on_error are constants, so they are resolved once."""
        values: list[sql.Composable] = [img]
        values += [sql.Literal(arguments.top)] if self.k else []
        values += [sql.Literal(arguments.model)] if self.model else []
        values += [sql.Literal(arguments.on_error)] if self.on_error else []
        name = sql.Identifier("dbinfer", self.name)
        return sql.SQL("{}({})").format(name, sql.SQL(", ").join(values))

    def results(self, result: sql.Composable) -> sql.Composed:
        """Return the result as values, one a column."""
        if len(self.columns) == 1:
            return sql.Composed([result])
        return sql.SQL(", ").join(sql.SQL("({}).{}").format(result, sql.Identifier(c)) for c in self.columns)

    def parts(self, result: sql.Composable) -> sql.Composed:
        """Return the result as columns, each with its name."""
        if len(self.columns) == 1:
            return sql.SQL("{} AS {}").format(result, sql.Identifier(self.columns[0]))
        fields = (sql.SQL("({}).{}").format(result, sql.Identifier(field)) for field in self.columns)
        return sql.SQL(", ").join(fields)


FUNCTIONS = {
    function.name: function
    for function in (
        *(Function.of_runtime(one) for one in tasks.FUNCTIONS.values() if one.sql not in OF_TEXTS),
        Function(
            "image_info",
            ("format", "width", "height", "channels", "bytes"),
            ("pg_catalog.text", "integer", "integer", "integer", "bigint"),
            model=False,
            on_error=False,
        ),
        Function("profile", ("microseconds",), ("pg_catalog.jsonb",), on_error=False),
    )
}


def choose(cur: Cursor, function: str | None, model: str | None) -> Function:
    """Return the named function, or the one for the task of the model (predict where the task is unknown).

    Raises:
        UsageError: there is no such function.
    """
    if function is None:
        cur.execute(read("client/task.sql"), {"name": model.partition("@")[0] if model else None})
        function = BY_TASK.get(one(cur), "predict")
    if function in OF_TEXTS:
        raise UsageError(
            f"dbinfer.{function} takes texts, but this command scores images",
            f"Call it in SQL: SELECT dbinfer.{function}('some words', 'model')",
        )
    if function not in FUNCTIONS:
        raise UsageError(
            f"{function!r} is not a function of dbinfer", f"Choose one of {', '.join(FUNCTIONS)}."
        )
    return FUNCTIONS[function]


@documented
@dataclass(frozen=True)
class ScoreOptions:
    """Which rows are scored, with what, and what becomes of an existing table of results."""

    function: str | None = option(
        None, "classify, classify_top, predict, segment, embed, ... Default: the one for the model's task."
    )
    model: str | None = option(None, "name, name@3 or name@alias. Default: the default model.")
    column: str = option("img", "Column with the images.")
    key: str = option("id", "Column (or columns: a,b) that identifies a row; copied into the results.")
    where: str = option("true", "Score only rows that meet this condition.", metavar="SQL")
    on_error: str | None = option(
        None,
        "For a damaged image: record it in the table of errors, store NULL, or stop with an error. Default: record; "
        "with one transaction for all rows: error.",
        choices=("record", "null", "error"),
    )
    top: int = option(5, "How many classes classify_top returns.", least=1)
    replace: bool = option(False, "Replace an existing table, in one transaction.")
    append: bool = option(False, "Add the rows that an existing table lacks.")
    atomic: bool = option(False, "One transaction: all rows or none. The table has key and result.")
    retry_errors: bool = option(False, "Try the damaged images of earlier runs again.")
    max_errors: int | None = option(None, "Stop when more images than this are damaged.", least=0)
    connections: int | None = option(
        None,
        "How many connections score at once. Default: as many as a parallel plan has processes.",
        least=1,
    )
    batch: int | None = option(None, "Rows per transaction. Default: about two seconds' worth.", least=1)
    follow: bool = option(
        False, "Score rows again whose image has changed, and remove the results of rows that are gone."
    )
    changed_column: str | None = option(
        None,
        "With --follow: a column that changes whenever the image does, for views and foreign tables. Default: what the "
        "server knows of the transaction that wrote a row, else a digest of each image.",
        metavar="COLUMN",
    )
    exact: bool = option(False, "With --follow: compare a digest of each image, whatever its row says.")
    reuse: bool = option(
        False,
        "Score no picture twice: take the answer that the same bytes have, of the same model, in a table of results "
        "of yours or of a superuser's.",
    )
    reuse_from: str | None = option(
        None,
        "With --reuse: more tables of results (a,b) that you may read and whose owners you trust.",
        metavar="TABLES",
    )
    watch: float | None = option(
        None,
        "Keep running, and look for new rows this often, or at once after a NOTIFY.",
        metavar="SECONDS",
        least=0.1,
    )
    channel: str = option("dbinfer", "Channel of that NOTIFY.")

    def check(self) -> None:
        """Raise UsageError for a value that is wrong, and for options that do not go together."""
        check(self)
        if self.replace and self.append:
            raise UsageError("replace and append cannot be used together")
        if not self.follow and (self.exact or self.changed_column):
            raise UsageError(f"{'exact' if self.exact else 'changed_column'} needs follow")
        if self.reuse_from and not self.reuse:
            raise UsageError("reuse_from needs reuse")
        if self.append and self.reuse:
            raise UsageError(
                "append and reuse cannot be used together", "A table of a job needs no --append."
            )
        if self.at_once:
            self._check_at_once()

    @property
    def at_once(self) -> bool:
        """Return whether one transaction does it all."""
        return self.atomic or self.replace

    @property
    def most_errors(self) -> int | None:
        """Return how many bad rows a job tolerates; None: any number."""
        return 0 if self.on_error == "error" else self.max_errors

    def _check_at_once(self) -> None:
        wrong = [
            name for name in ("retry_errors", "max_errors", "watch", "follow", "reuse") if getattr(self, name)
        ]
        wrong += ["on_error='record'"] if self.on_error == "record" else []
        if wrong:
            raise UsageError(
                f"{wrong[0]} does not go with one transaction for all rows",
                "Leave out --atomic and --replace.",
            )


@dataclass(frozen=True)
class ScoreReport(Report):
    """What `score` did.

    Attributes:
        table, into: full names of the tables; function, model: what was called.
        rows: in the result; nulls: rows without a result among them (bad or missing images).
        seconds: of the scoring.
        version: of the model; None if all rows went in one transaction.
        errors: bad rows, which are in the table of errors.
        gone, changed: results of this version whose rows were deleted or changed after they were scored.
        reused: rows among these whose picture had an answer already, or got it for another row.
        outdated, removed: results and reasons that made room: of rows that had changed, and of rows that are gone.
        state: done, or cancelled; job: its number in dbinfer.jobs.
    """

    derived = ("images_per_second",)

    table: str
    into: str
    function: str
    model: str | None
    rows: int
    nulls: int
    seconds: float
    version: int | None = None
    errors: int = 0
    gone: int = 0
    changed: int = 0
    outdated: int = 0
    removed: int = 0
    reused: int = 0
    state: str = "done"
    job: int | None = None

    @property
    def images_per_second(self) -> float:
        """Return rows / seconds."""
        return self.rows / self.seconds if self.seconds else 0.0
