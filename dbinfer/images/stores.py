"""Where images lie outside the database, and who may read there; each verb calls the SQL function of its name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.base.options import documented, option
from dbinfer.base.report import Report
from dbinfer.database.connection import one, session
from dbinfer.database.platform import detect
from dbinfer.database.sql import read
from dbinfer_udf.errors import ImageError, UdfError
from dbinfer_udf.image.file import image_limits
from dbinfer_udf.store.reader import read_image

# A name that no store has: that it is missing says that the store can be read
NOTHING = "dbinfer-store-check"


def refers(kind: str) -> bool:
    """Return whether a column of this type, as the server writes it, has references to images."""
    return kind.startswith(("text", "character varying", "varchar"))


def image_of(kind: str, source: sql.Composable, on_error: str = "error") -> sql.Composable:
    """Return the image of a column as SQL: in one of text lie references, in one of oid large objects."""
    if refers(kind):
        return sql.SQL("dbinfer.image({}::pg_catalog.text, NULL, {})").format(source, sql.Literal(on_error))
    return sql.SQL("pg_catalog.lo_get({})").format(source) if kind == "oid" else source


@dataclass(frozen=True)
class ImageColumn:
    """A column whose images a command shows: as the server gives them, or read here where only workers score.

    Attributes:
        kind: its type.
        here: what this process must know to read stores; None: the server gives the images.
    """

    kind: str
    here: dict[str, str] | None

    @classmethod
    def of(cls, cur: Cursor, kind: str) -> ImageColumn:
        """Return the column of a type in this database."""
        return cls(kind, here(cur) if refers(kind) and detect(cur.connection).tables_only else None)

    def image(self, source: sql.Composable, on_error: str = "error") -> sql.Composable:
        """Return SQL for what `file` takes."""
        if self.here is None:
            return image_of(self.kind, source, on_error)
        return sql.SQL("{}::pg_catalog.text").format(source)

    def file(self, found: Any, most: int) -> bytes:
        """Return the image file.

        Args:
            found: what `image` gave, and no NULL.
            most: bytes that an image of a store may have.

        Raises:
            DataError: there is none, it is larger, or the store cannot be read.
        """
        with reading():
            return self._file(found, most)

    def file_or_none(self, found: Any, most: int | None = None) -> bytes | None:
        """Return the image file, as `file` does; None where there is none, or a larger one."""
        with reading(), suppress(ImageError):
            return None if found is None else self._file(found, most)
        return None

    def _file(self, found: Any, most: int | None) -> bytes:
        if self.here is None:
            return bytes(found)
        allowed = image_limits(self.here).max_bytes
        with _READING:
            return read_image(self.here, found, None, allowed if most is None else min(most, allowed))


_READING = Lock()  # a process has one reader, which serves one thread


@documented
@dataclass(frozen=True)
class StoreOptions:
    """How a store is reached."""

    endpoint: str | None = option(
        None, "Server of the object store, where it is not the provider's own.", metavar="URL"
    )
    region: str | None = option(None, "Region of an S3 bucket; else us-east-1.")
    secret: str | None = option(
        None,
        "JSON file with its keys on every database host, readable by the server's user alone.",
        metavar="PATH",
    )
    private: bool = option(
        False, "Its server may have an address of a private network or of the host, and speak plain HTTP."
    )
    seconds: int = option(30, "How long fetching one image may take.", least=1)


@dataclass(frozen=True)
class StoresReport(Report):
    """Stores.

    Attributes:
        stores: one dict per store that the caller may read, with the columns of dbinfer.stores.
    """

    stores: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class StoreReport(Report):
    """What was done with a store.

    Attributes:
        verb: add, drop, grant or revoke.
        name: of the store.
        role: to whom it was granted, or from whom revoked.
    """

    verb: str
    name: str
    role: str | None = None


@dataclass(frozen=True)
class StoreCheckReport(Report):
    """A store that answers.

    Attributes:
        reference: what was asked for.
        bytes: of the image; None where there is none.
        places: how many segments have asked; 1 on PostgreSQL.
        seconds: it took.
    """

    reference: str
    bytes: int | None
    places: int
    seconds: float


STORES = "SELECT dbinfer._readable_stores(dbinfer._ask('dbinfer worker'))"


def here(cur: Cursor) -> dict[str, str]:
    """Return what this process must know to read stores by itself, where no function of the server does."""
    cur.execute(STORES)
    return {**json.loads(one(cur)), "venv": ""}


@contextmanager
def reading() -> Iterator[None]:
    """Give errors of the runtime, which reads stores in this process, as the client's."""
    try:
        yield
    except UdfError as err:
        raise DataError(err.message, err.hint) from err


def store(dsn: str | None = None) -> StoresReport:
    """List the stores that the caller may read."""
    with session(dsn, error=DataError, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute("SELECT pg_catalog.row_to_json(s) FROM dbinfer.stores s ORDER BY s.name")
        return StoresReport(tuple(row[0] for row in cur.fetchall()))


def add_store(
    name: str, url: str, options: StoreOptions = StoreOptions(), dsn: str | None = None
) -> StoreReport:
    """Declare a store, or change it; superusers only, and at first only they may read there.

    Args:
        name: with which references begin.
        url: s3://bucket/folder, gs://, az://, https:// or file:///folder.
    """
    values = (name, url, options.endpoint, options.region, options.secret, options.private, options.seconds)
    _call(dsn, "SELECT dbinfer.add_store(%s, %s, %s, %s, %s, %s, %s)", *values)
    return StoreReport("add", name)


def drop_store(name: str, dsn: str | None = None) -> StoreReport:
    """Forget a store; its images stay where they are."""
    _call(dsn, "SELECT dbinfer.drop_store(%s)", name)
    return StoreReport("drop", name)


def grant_store(name: str, role: str, dsn: str | None = None) -> StoreReport:
    """Let a role (`public`: everybody) read a store."""
    _call(dsn, "SELECT dbinfer.grant_store(%s, %s)", name, role)
    return StoreReport("grant", name, role)


def revoke_store(name: str, role: str, dsn: str | None = None) -> StoreReport:
    """Take a grant back, from the next statement on."""
    _call(dsn, "SELECT dbinfer.revoke_store(%s, %s)", name, role)
    return StoreReport("revoke", name, role)


def check_store(name: str, path: str | None = None, dsn: str | None = None) -> StoreCheckReport:
    """Fetch one image on PostgreSQL, or on every segment.

    Args:
        path: of the image in the store; None: a name that is not there, which tells whether the store can be read.

    Raises:
        DataError: why a host cannot read it.
    """
    with session(dsn, error=DataError, catalog_only=True) as conn, conn.cursor() as cur:
        began, reference = time.monotonic(), f"{name}/{path or NOTHING}"
        platform = detect(conn)
        if platform.tables_only:
            found: list[Any] = [_size_here(cur, reference)]
        else:
            cur.execute(platform.adapt(read("client/store_check.sql")), {"reference": reference})
            found = [row[0] for row in cur.fetchall()]
    if path is not None and None in found:
        raise DataError(
            f"the store {name} has no image {path!r}, or it is too large",
            f"Which of both: SELECT dbinfer.image('{reference}')",
        )
    return StoreCheckReport(reference, max(found) if path else None, len(found), time.monotonic() - began)


def _size_here(cur: Cursor, reference: str) -> int | None:
    """Return the bytes of an image that this host fetches; None where there is none."""
    data = ImageColumn("text", here(cur)).file_or_none(reference)
    return None if data is None else len(data)


def _call(dsn: str | None, query: str, *values: Any) -> None:
    with session(dsn, error=DataError, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(query, values)
