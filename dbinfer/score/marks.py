"""How a job sees that an image is another one than it has scored: beside the result it keeps a mark, which changes
whenever the row is written, and a digest of the image.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.database.connection import one
from dbinfer.database.platform import Platform
from dbinfer.database.sql import TableName, read

MARK, DIGEST = "image_mark", "image_digest"
# The columns and their types, in the table of results and in that of bad images
COLUMNS = {MARK: "pg_catalog.text", DIGEST: "pg_catalog.bytea"}
SHA256_SINCE = 110000


@dataclass(frozen=True)
class Marks:
    """The SQL of both, for a row of `source`.

    Attributes:
        told: the mark is not the same for all rows.
        written: it says which transaction has written a row.
    """

    mark: sql.Composable
    told: bool
    platform: Platform
    written: bool = False

    def digest(self, img: sql.Composable) -> sql.Composed:
        """Return the digest of an image: empty where there is no image, for NULL is what nobody has looked at."""
        there = self.platform.kernel >= SHA256_SINCE
        call = "pg_catalog.sha256({})" if there else "pg_catalog.decode(pg_catalog.md5({}), 'hex')"
        return sql.SQL("coalesce(" + call + ", '')").format(img)


def by_column(name: str, kind: str, platform: Platform) -> Marks:
    """Return marks that a column gives, whose type is `kind`."""
    # The text of a time depends on the session's time zone and style
    zoned = "timezone('UTC', source.{})" if kind.endswith("with time zone") else "to_json(source.{})"
    value = sql.SQL("coalesce(pg_catalog.to_json(pg_catalog." + zoned + ")::pg_catalog.text, '')")
    return Marks(value.format(sql.Identifier(name)), True, platform)


def by_writer(cur: Cursor, table: TableName, spread: bool, platform: Platform) -> Marks:
    """Return marks that say which transaction wrote a row, and where it lies; none where the server does not know.

    After a restore all rows have other marks, and after a change of another column one row has; then digests decide.

    Args:
        spread: on a cluster, rows lie where their columns say.
    """
    cur.execute(platform.adapt(read("client/job_marks.sql")), {"table": table.identifier.as_string(cur)})
    if not one(cur) or (platform.mpp and not spread):
        return Marks(sql.SQL("''::pg_catalog.text"), False, platform)
    names = (["gp_segment_id"] if platform.mpp else []) + ["tableoid", "xmin"]
    listed = sql.SQL(", ").join(sql.Identifier("source", name) for name in names)
    return Marks(sql.SQL("pg_catalog.concat_ws('.', {})").format(listed), True, platform, written=True)
