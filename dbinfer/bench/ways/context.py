"""What every way gets to work with, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from psycopg2 import sql

from dbinfer.bench.networks import ModelFiles
from dbinfer.bench.options import Cell
from dbinfer.bench.pool import Pool
from dbinfer.bench.tables import Bench
from dbinfer.errors import DbinferError


class Skip(DbinferError):  # noqa: N818 - nothing went wrong
    """This way cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Context:
    """One cell, ready to be measured.

    Attributes:
        images: the different image files; tables and the bare loop repeat them.
        rows, small: of the tables `big` and `small`.
        seconds: that one measurement takes, about.
        tensorflow: a virtual environment with TensorFlow, or None for this one.
    """

    bench: Bench
    cell: Cell
    files: ModelFiles
    pool: Pool
    images: tuple[bytes, ...]
    rows: int
    small: int
    seconds: float
    tensorflow: str | None = None

    def call(self, img: str = "img") -> sql.Composed:
        """Return the call of the cell's SQL function, the model as a constant."""
        function = sql.Identifier("dbinfer", self.cell.function)
        return sql.SQL("{}({}, {})").format(function, sql.Identifier(img), sql.Literal(self.cell.model))


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        images_per_s: once everything is loaded.
        whole: images / seconds of the whole statement, with the start of its processes; None where there is none.
        start: seconds before work is in full swing; None where nothing starts.
    """

    images_per_s: float
    whole: float | None = None
    start: float | None = None


class Way(Protocol):
    """One way to score; made once for a cell (which may raise Skip), then measured in every round."""

    def measure(self) -> Sample:
        """Measure once."""
        ...
