"""sample: puts built-in images into a table, with a column that says what they show: digits, strokes, written."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from psycopg2.sql import SQL

from dbinfer.base.errors import UsageError
from dbinfer.base.options import documented, option
from dbinfer.base.progress import OnProgress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import session
from dbinfer.database.sql import TableName, read
from dbinfer.images.load import LoadOptions, load

Truths = dict[str, bytes | str]  # by the name of the image's file


@documented
@dataclass(frozen=True)
class SampleOptions:
    """Which images, and where they go."""

    table: str = option("", "TABLE or SCHEMA.TABLE. Default: the name of the data.")
    part: str = option(
        "heldout", "heldout, or train: the images that a network trained on this data has seen."
    )
    count: int | None = option(None, "How many, of strokes or written. Default: all.")


@dataclass(frozen=True)
class SampleReport(Report):
    """What was loaded.

    Attributes:
        table: its name.
        loaded: rows that are new; skipped: rows that were there already.
        truth: the column that says what the images show.
    """

    table: str
    loaded: int
    skipped: int
    truth: str


@dataclass(frozen=True)
class Kind:
    """A set of images: its column of truths and its type, and what writes images into a folder and returns truths."""

    column: str
    type: str
    write: Callable[[Path, SampleOptions], Truths]


def sample(
    name: str, options: SampleOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> SampleReport:
    """Put sample images into a table (id, path, img) with a column that says what they show.

    Args:
        name: digits (column label, text), strokes (mask, bytea) or written (boxes, jsonb).

    Raises:
        UsageError: there are no such images, or no such part.
        DataError: the table does not take the rows.
    """
    chosen = options or SampleOptions()
    if name not in KINDS:
        raise UsageError(f"there are no sample images {name!r}; there are {', '.join(KINDS)}")
    if chosen.count is not None and chosen.count < 1:
        raise UsageError(f"count is {chosen.count}, but must be at least 1")
    kind, table = KINDS[name], chosen.table or name
    with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
        images = Path(folder) / name
        truths = kind.write(images, chosen)
        loaded = load([images], LoadOptions(table), dsn, progress)
    _store(TableName.parse(table), kind, {f"{name}/{file}": truth for file, truth in truths.items()}, dsn)
    return SampleReport(table, loaded.loaded, loaded.skipped, kind.column)


def _store(table: TableName, kind: Kind, truths: Truths, dsn: str | None) -> None:
    place = {"table": table.identifier, "column": SQL(kind.column), "type": SQL(f"pg_catalog.{kind.type}")}
    with session(dsn, needs_dbinfer=False) as conn, conn.cursor() as cur:
        table.require_own(cur)
        # Asked, because Greenplum 6 does not know ADD COLUMN IF NOT EXISTS
        cur.execute(read("client/columns.sql"), {"table": table.identifier.as_string(cur)})
        if kind.column not in dict(cur.fetchall()):
            cur.execute(SQL("ALTER TABLE {table} ADD COLUMN {column} {type}").format(**place))
        given = "ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]), pg_catalog.unnest(%s::{type}[]))"
        cur.execute(
            SQL(
                f"UPDATE {{table}} AS t SET {{column}} = g.truth FROM {given} AS g(path, truth) "
                "WHERE t.path OPERATOR(pg_catalog.=) g.path AND t.{column} IS NULL"
            ).format(**place),
            (list(truths), list(truths.values())),
        )


def _digits(folder: Path, options: SampleOptions) -> Truths:
    from dbinfer.images.builtin import write_digits

    if options.count is not None:
        raise UsageError("digits cannot have a count: the data has as many as there are")
    return {str(path.relative_to(folder)): str(label) for path, label in write_digits(folder, options.part)}


def _strokes(folder: Path, options: SampleOptions) -> Truths:
    from dbinfer.images.builtin import write_strokes

    pairs = write_strokes(folder, options.part, options.count)
    truths: Truths = {image.name: mask.read_bytes() for image, mask in pairs}
    _remove([mask for _, mask in pairs])
    return truths


def _written(folder: Path, options: SampleOptions) -> Truths:
    from dbinfer.images.builtin import write_written

    path = write_written(folder, options.part, options.count)
    truths: Truths = {name: json.dumps(boxes) for name, boxes in json.loads(path.read_text()).items()}
    _remove([path])
    return truths


def _remove(files: Sequence[Path]) -> None:
    # They are no images of the table
    for file in files:
        file.unlink()


KINDS = {
    "digits": Kind("label", "text", _digits),
    "strokes": Kind("mask", "bytea", _strokes),
    "written": Kind("boxes", "jsonb", _written),
}
