"""The database functions that clients call: their arguments, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one
from dbinfer.errors import UsageError
from dbinfer.sqlfiles import read

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
