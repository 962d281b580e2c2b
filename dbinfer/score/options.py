"""The database functions that clients call, what a score is told, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import UsageError
from dbinfer.base.report import Report
from dbinfer.database.connection import one
from dbinfer.database.sql import read

BY_TASK = {
    "classification": "classify",
    "segmentation": "segment",
    "embedding": "embed",
    "detection": "detect",
}
FLOATS, BYTES = "pg_catalog.float4[]", "pg_catalog.bytea"
DETECTIONS = "dbinfer.detection[]"


@dataclass(frozen=True)
class Arguments:
    """Arguments beside the image: a model's name (None: the default one), error or null, number of classes."""

    model: str | None = None
    on_error: str = "error"
    top: int = 5


@dataclass(frozen=True)
class Function:
    """One of the SQL functions on an image.

    Attributes:
        name: in the schema dbinfer.
        columns: of the result: the fields of a composite, or the one that a single value gets.
        types: of those columns, as the server writes them.
        k: takes a number of classes; model, on_error: takes that argument.
        binary: returns bytea.
        batched: the type of its results where it scores in batches, too.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    k: bool = False
    model: bool = True
    on_error: bool = True
    binary: bool = False
    batched: str | None = None

    def call(self, img: sql.Composable, arguments: Arguments) -> sql.Composed:
        """Return the call as SQL, model and on_error as constants, so that they are resolved once."""
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
        Function("predict", ("prediction",), (FLOATS,), batched=FLOATS),
        Function("predict_tensor", ("tensor",), (BYTES,), binary=True),
        Function(
            "classify",
            ("class", "label", "score"),
            ("integer", "pg_catalog.text", "pg_catalog.float4"),
            batched="dbinfer.classification",
        ),
        Function("classify_top", ("classes",), ("dbinfer.classification[]",), k=True),
        Function("segment", ("mask",), (BYTES,), binary=True, batched=BYTES),
        Function("detect", ("detections",), (DETECTIONS,), batched=DETECTIONS),
        Function("embed", ("embedding",), (FLOATS,), batched=FLOATS),
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
    if function not in FUNCTIONS:
        raise UsageError(
            f"{function!r} is not a function of dbinfer", f"Choose one of {', '.join(FUNCTIONS)}."
        )
    return FUNCTIONS[function]


EXISTING = ("refuse", "replace", "append")


@dataclass(frozen=True)
class ScoreOptions:
    """Which rows are scored, with what, and what becomes of an older table of results.

    Attributes:
        function: one of dbinfer.score.FUNCTIONS; None: the one for the model's task.
        model: name, name@3 or name@alias; None: the default model.
        column, key: of the table of images: the image, and what names a row (several columns: "shop, number"); the key
            is copied into the results.
        where: a SQL condition on the rows.
        on_error: a bad image: 'record' puts it into the table of errors, 'error' stops the scoring, 'null' gives a row
            without a result. Default: record; in one transaction: error.
        top: number of classes of classify_top.
        existing: what to do when the table of results is there and no job has made it: refuse, replace, or append (the
            keys that it lacks). A table that a job has made is always completed.
        atomic: one transaction, whose table holds key and result alone; so does `existing='replace'`.
        retry_errors: score the rows again that stand in the table of errors.
        max_errors: stop where more rows than this are bad; None: never.
        connections: that score at once; None: as many as a parallel plan has processes.
        batch: rows that one transaction scores; None: as many as take about two seconds.
        watch: seconds between two looks for new rows, or less where a NOTIFY says that there are some; None: end.
        channel: whose NOTIFY is listened to while watching.
    """

    function: str | None = None
    model: str | None = None
    column: str = "img"
    key: str = "id"
    where: str = "true"
    on_error: str | None = None
    top: int = 5
    existing: str = "refuse"
    atomic: bool = False
    retry_errors: bool = False
    max_errors: int | None = None
    connections: int | None = None
    batch: int | None = None
    watch: float | None = None
    channel: str = "dbinfer"

    def check(self) -> None:
        """Raise UsageError for a word that is none of those above, and for options that do not go together."""
        words = {"on_error": (None, "record", "error", "null"), "existing": EXISTING}
        for name, allowed in words.items():
            if (value := getattr(self, name)) not in allowed:
                named = ", ".join(word for word in allowed if word)
                raise UsageError(f"{name} is {value!r}, but must be one of {named}")
        for name in ("connections", "batch", "watch"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise UsageError(f"{name} is {value!r}, but must be greater than 0")
        if self.max_errors is not None and self.max_errors < 0:
            raise UsageError(f"max_errors is {self.max_errors}, but must be 0 or greater")
        if self.at_once:
            self._check_at_once()

    @property
    def at_once(self) -> bool:
        """Return whether one transaction does it all."""
        return self.atomic or self.existing == "replace"

    def _check_at_once(self) -> None:
        wrong = [
            name
            for name in ("retry_errors", "max_errors", "watch")
            if getattr(self, name) not in (None, False)
        ]
        wrong += ["on_error='record'"] if self.on_error == "record" else []
        if wrong:
            raise UsageError(
                f"{wrong[0]} does not go with one transaction for all rows",
                "Leave out --atomic and --replace.",
            )


@dataclass(frozen=True)
class ScoreReport(Report):
    """What a score did.

    Attributes:
        table, into: full names; function, model: that were called.
        rows: of the result; nulls: those of them without one (bad or missing images).
        seconds: of the scoring.
        version: of the model; None where all went in one transaction.
        errors: rows that were bad, and stand in the table of errors.
        gone, changed: results of this version whose rows are no longer there, or were changed after they were scored.
        state: done, or cancelled by somebody; job: its number in dbinfer.jobs.
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
    state: str = "done"
    job: int | None = None

    @property
    def images_per_second(self) -> float:
        """Return rows / seconds."""
        return self.rows / self.seconds if self.seconds else 0.0
