"""The SQL files of this distribution, and names of tables and columns as people type them, made safe for SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Identifier, Literal

from dbinfer.base.errors import DataError, UsageError

INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


@cache
def root() -> Path:
    """Return the folder sql/."""
    packaged = Path(__file__).parents[1] / "_sql"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "sql"


def upgrades() -> list[Path]:
    """Return the files that change tables, each once in a database, in the order of their numbers."""
    return sorted((root() / "upgrades").glob("[0-9]*.sql"))


@cache
def read(name: str) -> str:
    """Return the text of one file, e.g. read('client/models.sql'); in place of `-- include FILE` stands that file."""
    text = (root() / name).read_text(encoding="utf-8")
    return INCLUDE.sub(lambda found: read(found[1]), text)


PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".]+?))\s*(\.|$)')
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
# NAMEDATALEN - 1: the server cuts a longer name, with no more than a notice
MAX_BYTES = 63


@dataclass(frozen=True)
class TableName:
    """A table's name, with its schema where one is known."""

    schema: str | None
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Return the name of `images`, `shop.images` or `"Odd name"`.

        As in SQL, a plain name means its lower-case form and double quotes keep a name as it is.

        Raises:
            UsageError: it is no name, or one that is too long.
        """
        parts = _parts(text)
        if not 1 <= len(parts) <= 2:
            raise UsageError(
                f"{text!r} is not a table's name",
                "Write TABLE or SCHEMA.TABLE, with at most 63 bytes each; put unusual names in double quotes.",
            )
        return cls(parts[0] if len(parts) == 2 else None, parts[-1])

    def resolve(self, cur: Cursor) -> TableName:
        """Return the name with its schema: where the table is, else where it would be made.

        Raises:
            DataError: no schema is named and the search path has none.
        """
        if self.schema is not None:
            return self
        cur.execute(read("client/find_schema.sql"), {"table": self.identifier.as_string(cur)})
        (schema,) = cur.fetchone() or (None,)
        if schema is None:
            raise DataError(
                "the table name has no schema, and search_path is empty", "Write the name as SCHEMA.TABLE."
            )
        return TableName(schema, self.name)

    def require_own(self, cur: Cursor, here: bool = False) -> None:
        """Hold a table that is there until the transaction ends, if nothing of others runs when it is written to.

        Args:
            here: hold it on a cluster's coordinator alone, which every change passes through.

        Raises:
            DataError: it, or a trigger, a default or the like on it, is another user's: that runs with the rights of
                the role that writes, and its owner may change it at any time.
        """
        name = self.identifier.as_string(cur)
        cur.execute(read("client/target.sql"), {"table": name, "into": name})
        kind = cur.fetchone()
        if kind is None or kind[0] not in ("r", "p"):
            return
        # before it looks, so that no partition is added and the table is not replaced meanwhile
        if not (here and self._hold(cur)):
            cur.execute(SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(self.identifier))
        cur.execute(read("client/own_parts.sql"), {"table": name})
        found = cur.fetchone()
        if found:
            what, owner = found
            raise DataError(
                f"{self} is not written to: {what} belongs to {owner}, whose code would run with your rights",
                f"Use a table of your own, or act as its owner: PGOPTIONS='-c role={owner}'",
            )

    def _hold(self, cur: Cursor) -> bool:
        """Lock the table as a statement that writes to it does; return whether that is all of it, for it has no parts.

        LOCK is sent to the segments, and for each such command Greenplum ends their idle readers, with their models.
        """
        held = SQL(
            "PREPARE dbinfer_held AS INSERT INTO {} DEFAULT VALUES; DEALLOCATE dbinfer_held; "
            "SELECT NOT relhassubclass FROM pg_catalog.pg_class "
            "WHERE oid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass"
        )
        cur.execute(held.format(self.identifier, Literal(self.identifier.as_string(cur))))
        return bool((cur.fetchone() or (False,))[0])

    @property
    def identifier(self) -> Identifier:
        """Return the name for psycopg2.sql."""
        return Identifier(self.schema, self.name) if self.schema else Identifier(self.name)

    def __str__(self) -> str:
        return ".".join(_quoted(part) for part in (self.schema, self.name) if part)


def shortened(name: str, suffix: str = "") -> str:
    """Return a name with a suffix, cut before it so that the server takes all of it."""
    return name.encode()[: MAX_BYTES - len(suffix)].decode(errors="ignore") + suffix


def column(text: str) -> str:
    """Return a column's name as the catalog has it; raises UsageError like TableName.parse."""
    parts = _parts(text)
    if len(parts) != 1:
        raise UsageError(f"{text!r} is not a column's name", "Put unusual names in double quotes.")
    return parts[0]


def _parts(text: str) -> list[str]:
    """Return the parts between dots; none at all where the text is no name."""
    parts: list[str] = []
    position, mark = 0, "."
    while mark == ".":
        match = PART.match(text, position)
        # A zero byte ends a text in the server's protocol
        if match is None or "\0" in text:
            return []
        quoted, bare, mark = match.groups()
        parts.append(quoted.replace('""', '"') if quoted else _fold(bare))
        position = match.end()
    return parts if all(len(part.encode(errors="replace")) <= MAX_BYTES for part in parts) else []


def _fold(name: str) -> str:
    return name.lower() if PLAIN.fullmatch(name) else name


def _quoted(name: str) -> str:
    plain = PLAIN.fullmatch(name) and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
