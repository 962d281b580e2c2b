"""The SQL functions as SQLAlchemy expressions.

    from sqlalchemy import select
    from dbinfer.sqlalchemy import classify

    answer = classify(images.c.img, "digits")
    select(images.c.id, answer.label, answer.score)

Each field calls the function of its own. Where that costs, let one query call it and another take it apart:

    scored = select(images.c.id, to_json(classify(images.c.img)).label("p")).offset(0).subquery()
    select(scored.c.id, scored.c.p["label"].astext)
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, BigInteger, Integer, LargeBinary, Text, cast, func, literal_column
from sqlalchemy.dialects.postgresql import JSONB, REAL
from sqlalchemy.sql.elements import ColumnElement, Grouping
from sqlalchemy.sql.functions import Function
from sqlalchemy.types import TypeEngine

Image = ColumnElement[bytes] | Any
FIELDS: dict[str, TypeEngine[Any]] = {
    "class": Integer(),
    "label": Text(),
    "score": REAL(),
    "format": Text(),
    "width": Integer(),
    "height": Integer(),
    "channels": Integer(),
    "bytes": BigInteger(),
}


class Composite:
    """A call whose result has fields: `.label` compiles to `(f(...)) . label`; `class` is written `.class_`."""

    def __init__(self, call: Function[Any], fields: tuple[str, ...]) -> None:
        self.call, self.fields = call, fields

    def __getattr__(self, name: str) -> ColumnElement[Any]:
        field, fields = name.rstrip("_"), self.__dict__.get("fields", ())  # copy asks before there are any
        if field not in fields:
            raise AttributeError(f"{name!r} is none of the fields {', '.join(fields)}")
        dot = Grouping(self.call).op(".", precedence=100, return_type=FIELDS[field])
        return dot(literal_column(field))

    def __clause_element__(self) -> Function[Any]:
        return self.call


def predict(
    img: Image, model: str | None = None, on_error: str = "error", output: str | None = None
) -> ColumnElement[list[float]]:
    """Return an output of the model, the first unless one is named, flattened row-major."""
    return func.dbinfer.predict(img, model, on_error, *_named(output), type_=ARRAY(REAL))


def predict_tensor(
    img: Image, model: str | None = None, on_error: str = "error", output: str | None = None
) -> ColumnElement[bytes]:
    """Return the same as little-endian float32."""
    return func.dbinfer.predict_tensor(img, model, on_error, *_named(output), type_=LargeBinary)


def _named(last: str | bool | None) -> tuple[str | bool, ...]:
    # a database of an older version knows no fourth argument
    return () if last is None else (last,)


def classify(img: Image, model: str | None = None, on_error: str = "error") -> Composite:
    """Return the best class: fields class_, label, score."""
    return Composite(func.dbinfer.classify(img, model, on_error), ("class", "label", "score"))


def classify_top(
    img: Image, k: int = 5, model: str | None = None, on_error: str = "error"
) -> ColumnElement[list[dict[str, Any]]]:
    """Return the k best classes, best first, as JSON objects with class, label and score."""
    return to_json(func.dbinfer.classify_top(img, k, model, on_error))


def classify_all(
    img: Image, model: str | None = None, on_error: str = "error"
) -> ColumnElement[list[dict[str, Any]]]:
    """Return all classes that reach their threshold, best first, as JSON objects with class, label and score."""
    return to_json(func.dbinfer.classify_all(img, model, on_error))


def segment(
    img: Image, model: str | None = None, on_error: str = "error", tile: bool | None = None
) -> ColumnElement[bytes]:
    """Return the mask as a PNG in the size of the image."""
    return func.dbinfer.segment(img, model, on_error, *_named(tile), type_=LargeBinary)


def detect(
    img: Image, model: str | None = None, on_error: str = "error", tile: bool | None = None
) -> ColumnElement[list[dict[str, Any]]]:
    """Return the objects found, highest score first, as JSON objects: label, class, score, x, y, width, height."""
    return to_json(func.dbinfer.detect(img, model, on_error, *_named(tile)))


def instances(
    img: Image, model: str | None = None, on_error: str = "error"
) -> ColumnElement[list[dict[str, Any]]]:
    """Return the objects found, highest score first, as JSON objects with what detect gives, mask and points."""
    return to_json(func.dbinfer.instances(img, model, on_error))


def read(
    img: Image,
    detector: str,
    recogniser: str,
    direction: str | None = None,
    min_score: float = 0.5,
    on_error: str = "error",
) -> ColumnElement[list[dict[str, Any]]]:
    """Return the lines of text, in reading order, as JSON objects: text, score and box (x and y of four corners)."""
    given = (img, detector, recogniser, direction, min_score, on_error)
    return to_json(func.dbinfer.read(*given))


def read_text(
    img: Image,
    detector: str,
    recogniser: str,
    direction: str | None = None,
    min_score: float = 0.5,
    on_error: str = "error",
) -> ColumnElement[str]:
    """Return what an image says, a line of text for each line in it."""
    given = (img, detector, recogniser, direction, min_score, on_error)
    return func.dbinfer.read_text(*given, type_=Text)


def embed(img: Image, model: str | None = None, on_error: str = "error") -> ColumnElement[list[float]]:
    """Return the image's vector."""
    return func.dbinfer.embed(img, model, on_error, type_=ARRAY(REAL))


def image_info(img: Image) -> Composite:
    """Return what the header says: fields format, width, height, channels, bytes."""
    return Composite(func.dbinfer.image_info(img), ("format", "width", "height", "channels", "bytes"))


def image(reference: Any, etag: Any = None, on_error: str = "error") -> ColumnElement[bytes]:
    """Return the image that lies in a store, for the other functions; see dbinfer.image in SQL."""
    return func.dbinfer.image(reference, etag, on_error, type_=LargeBinary)


def problem(img: Image, model: str | None = None) -> ColumnElement[str]:
    """Return why an image cannot be scored, as the error would say it; NULL where it can."""
    return func.dbinfer.problem(img, model, type_=Text)


def to_json(answer: Composite | ColumnElement[Any]) -> ColumnElement[Any]:
    """Return an answer with its fields as one JSON object."""
    # a cast, because Greenplum 6 has no to_jsonb
    return cast(func.to_json(answer.call if isinstance(answer, Composite) else answer), JSONB)
