"""What a table's images are: headers of a few hundred, rows, and how unevenly segments hold them."""

from __future__ import annotations

from typing import NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one
from dbinfer.cost import Picture
from dbinfer.errors import DataError
from dbinfer.names import TableName, column
from dbinfer.plan.options import PlanOptions
from dbinfer.platform import Platform
from dbinfer.sqlfiles import read
from dbinfer_udf.errors import ImageError
from dbinfer_udf.header import read_header

# A camera's metadata with its preview comes before the size, and takes less than that
HEAD_BYTES, LIMIT, SPARE = 1 << 17, 300, 2.0
# TABLESAMPLE, and relations that have pages of their own
SAMPLE_SINCE, WITH_PAGES = 90500, ("r", "m", "p")


class Images(NamedTuple):
    """Some of a table's images, how many rows it has, its skew, and notes."""

    pictures: tuple[Picture, ...]
    rows: float
    skew: float
    notes: tuple[str, ...]


def look_at(conn: Connection, platform: Platform, options: PlanOptions) -> Images:
    """Return what the images of the table are.

    Raises:
        DataError: the table or the column is not there, or holds no image.
    """
    table, img = TableName.parse(options.table or ""), column(options.column or "img")
    with conn.cursor() as cur:
        name = table.identifier.as_string(cur)
        cur.execute(read("client/plan_table.sql"), {"table": name, "column": img})
        found = cur.fetchone()
        if found is None:
            raise DataError(f"there is no table {table}")
        kind, about, there = found
        if not there:
            raise DataError(f"{table} has no column {img!r} of type bytea", "Name it with --column.")
        pages = kind in WITH_PAGES and platform.kernel >= SAMPLE_SINCE
        share = min(100.0, 100 * SPARE * LIMIT / about) if pages and about > 0 else 100.0
        rows = _heads(cur, table, img, share) or _heads(cur, table, img, 100.0)
        pictures = tuple(_pictures(rows))
        if not pictures:
            raise DataError(f"{table} holds no image in its column {img!r}")
        each = _each(cur, table, platform.segments if kind in WITH_PAGES else 0)
        count, skew = sum(each), max(each) * len(each) / max(1, sum(each))
    notes: tuple[str, ...] = (f"images as {len(pictures)} of {table} are",)
    if len(pictures) < len(rows):
        notes += (f"{len(rows) - len(pictures)} values of {table} are no images",)
    return Images(pictures, count, skew, notes)


def _heads(cur: Cursor, table: TableName, img: str, share: float) -> list[tuple[bytes, int]]:
    sample = "" if share >= 100 else f"TABLESAMPLE SYSTEM ({share:.6f})"
    text = sql.SQL(read("client/plan_images.sql")).format(
        img=sql.Identifier(img),
        head=sql.Literal(HEAD_BYTES),
        table=table.identifier,
        sample=sql.SQL(sample),
        limit=sql.Literal(LIMIT),
    )
    cur.execute(text)
    return [(bytes(head), size) for head, size in cur.fetchall()]


def _pictures(rows: list[tuple[bytes, int]]) -> list[Picture]:
    """Return the images among the values by their headers."""
    found = []
    for head, size in rows:
        try:
            header = read_header(head)
        except ImageError:
            continue
        found.append(Picture(header.format, *header.size, size))
    return found


def _each(cur: Cursor, table: TableName, segments: int) -> list[float]:
    """Return the rows of each segment; of the whole table where there are none."""
    if not segments:
        cur.execute(sql.SQL("SELECT pg_catalog.count(*) FROM {}").format(table.identifier))
        return [float(one(cur) or 0)]
    cur.execute(sql.SQL(read("client/plan_rows.sql")).format(table=table.identifier))
    there = [float(count) for _, count in cur.fetchall()]
    return there + [0.0] * (segments - len(there))
