"""Puts the images of changed files in the place of those that were loaded before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from psycopg2 import sql

from dbinfer.imagefiles import Found
from dbinfer.load.table import LOADED, MODIFIED, ImageTable, Row, timestamp
from dbinfer.sqlfiles import read

# The temporary table, see client/create_changed.sql
CHANGED = sql.Identifier("pg_temp", "dbinfer_changed")
COLUMNS = ("path", "img", "label", "modified")


def changed_row(item: Found, data: bytes | None) -> Row:
    """Return the row of a changed file, as `replace` takes it; without data only its time is new."""
    return (item.path.encode(), data, item.folder.encode(), timestamp(item.modified))


def replace(table: ImageTable, rows: Iterator[Row]) -> None:
    """Put images in the place of those of the same path; ids and other columns stay."""
    with table.conn.cursor() as cur:
        cur.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(CHANGED))
        text = table.platform.adapt(read("client/create_changed.sql"))
        cur.execute(table.format(text, changed=CHANGED))
        table.copy(CHANGED, COLUMNS, rows)
        text, (image, time) = read("client/replace_changed.sql"), _changes(table)
        for new, which in ((image, "c.img IS NOT NULL"), (time, "c.img IS NULL")):
            if new:
                parts = {"changes": _settings(new), "which": sql.SQL(which)}
                cur.execute(table.format(text, changed=CHANGED, **parts))


def _changes(table: ImageTable) -> tuple[dict[str, sql.SQL], dict[str, sql.SQL]]:
    """Return what is set where the image is new, and where only the file's time is."""
    time = {MODIFIED: sql.SQL("c.modified")} if MODIFIED in table.extra else {}
    image = {table.columns.img: sql.SQL("c.img"), **time}
    if table.columns.label:
        image[table.columns.label] = sql.SQL("c.label")
    if LOADED in table.extra:
        image[LOADED] = sql.SQL("pg_catalog.now()")
    return image, time


def _settings(new: Mapping[str, sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), to) for name, to in new.items())
