"""export: each row of a query becomes a file, in a folder or a bucket; what is there already is not scored again."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.base.options import documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import execute_patiently, patiently, session
from dbinfer.database.copy import Decoder
from dbinfer.database.platform import detect
from dbinfer.score.places import Place, check_name, open_place

# Oids that are the same in every database: bytea; "char", name, text, bpchar, varchar
BYTEA, TEXTS = 17, (18, 19, 25, 1042, 1043)
WRITERS = 8  # files at a time: a bucket takes its time for each
WAITING_BYTES = 64 << 20  # of results that wait to be written
MOST_NAMES = 250_000  # of one constant: a jsonb's keys may have 256 MB, and a bucket's names 1024 bytes
FUNCTIONS = """
SELECT DISTINCT p.proname::pg_catalog.text FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
 WHERE n.nspname OPERATOR(pg_catalog.=) 'dbinfer'
"""
# the condition stands where all rows of the query come out
LATE = re.compile(r"Subquery Scan on q\n(?:(?!.*->).*\n)*? *Filter: ")
AGAIN = "Rows whose files are there are scored again: LIMIT, DISTINCT, UNION or a window in the query needs all rows."
HINT = "Write it as SELECT name, result FROM ..., for example SELECT path || '.png', dbinfer.segment(img) FROM images."


@documented
@dataclass(frozen=True)
class ExportOptions:
    """How a bucket is reached."""

    endpoint: str | None = option(
        None, "Server of the object store, where it is not the provider's own.", metavar="URL"
    )


@dataclass(frozen=True)
class ExportReport(Report):
    """What an export did.

    Attributes:
        to: the folder or bucket.
        written: files.
        skipped: rows whose files were there before; None where they could not be counted without scoring them.
        empty: rows whose result is NULL, which make no file.
        bytes: of the files that were written; seconds: of the whole export.
    """

    to: str
    written: int
    skipped: int | None
    empty: int
    bytes: int
    seconds: float


def export(
    query: str,
    to: Path | str,
    options: ExportOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> ExportReport:
    """Write each row of a query to a file; run again, it writes those that are missing.

    Args:
        query: its first column names the file, its second is the content: bytea as it is, text as UTF-8, all else as
            JSON; NULL makes no file.
        to: a folder, or s3://bucket/prefix, gs://bucket/prefix or az://container/prefix.

    Raises:
        DataError: the query fails or names no files, two rows have one name, or a file cannot be written.
        UsageError: the address makes no sense.
    """
    begin = time.monotonic()
    with session(dsn, needs_dbinfer=False) as conn:
        # of one moment: the rows that are counted are those that are written
        conn.set_session(isolation_level="REPEATABLE READ")
        with conn.cursor() as cur, ExitStack() as stack:
            # before a folder is made
            rows = _Rows(cur, query)
            place = stack.enter_context(open_place(str(to), options.endpoint if options else None))
            rows.leave_out(list(place.names()))
            count = rows.count()
            written = _Written(place, progress, count)
            if rows.scores_again():
                progress(Progress("writing", note=AGAIN))
            with ThreadPoolExecutor(WRITERS) as written.writers:
                rows.read(written.take)
                written.wait()
    skipped = None if count is None else count.all - count.left
    numbers = (written.files, skipped, written.empty, written.bytes, time.monotonic() - begin)
    return ExportReport(str(to), *numbers)


@dataclass(frozen=True)
class _Count:
    """How many rows there are, and how many of them have no file yet."""

    all: int
    left: int


class _Rows:
    """The rows of a query that have no file yet.

    Raises:
        DataError: the query has other columns than a name and a result.
    """

    def __init__(self, cur: Cursor, query: str) -> None:
        self._cur = cur
        # it becomes a subquery, where a semicolon is an error; the line's end closes a comment
        self._query = sql.SQL("(" + query.strip().rstrip(";").rstrip() + "\n)")
        # conditions, each of which a row must meet
        self._missing: list[sql.Composable] = []
        # no rows, but the server describes the columns
        cur.execute(sql.SQL("SELECT * FROM ") + self._query + sql.SQL(" q LIMIT 0"))
        columns = cur.description or ()
        if len(columns) != 2 or columns[0].type_code not in TEXTS:
            given = ", ".join(column.name for column in columns)
            raise DataError(
                f"the query returns {given or 'nothing'}, but must return a name (text) and a result", HINT
            )
        self._kind = columns[1].type_code

    def leave_out(self, names: list[str]) -> None:
        """Leave out the rows of files that are there."""
        # a name that is no UTF-8 is no row's
        rest = iter([name for name in names if name.isascii() or _is_text(name)])
        while some := list(islice(rest, MOST_NAMES)):
            self._missing.append(_not_among(some))
        orca = detect(self._cur.connection).features.orca
        if self._missing and orca == "on":
            # which would score all rows before it leaves any out
            self._cur.execute("SET LOCAL optimizer = off")

    def count(self) -> _Count | None:
        """Return how many rows there are; None where that would score them.

        Raises:
            DataError: two rows have one name.
        """
        if self._scores(self._plan(self._counting(self._like_missing()))):
            return None
        execute_patiently(self._cur, self._counting(self._missing))
        every, left, twin = self._cur.fetchone() or (0, 0, None)
        if twin is not None:
            raise _twins(twin)
        return _Count(every, left)

    def _counting(self, missing: list[sql.Composable]) -> sql.Composed:
        return sql.SQL(
            "SELECT coalesce(pg_catalog.sum(q.n), 0)::pg_catalog.int8, "
            "coalesce(pg_catalog.sum(q.n) FILTER (WHERE {}), 0)::pg_catalog.int8, "
            "pg_catalog.min(q.name) FILTER (WHERE q.n OPERATOR(pg_catalog.>) 1) "
            "FROM (SELECT q.name::pg_catalog.text AS name, pg_catalog.count(*) AS n FROM {} q(name, value) "
            "GROUP BY 1) q"
        ).format(_all(missing), self._query)

    def _like_missing(self) -> list[sql.Composable]:
        """Return conditions for which the plan is the same, without all the names."""
        return [_not_among([""])] if self._missing else []

    def scores_again(self) -> bool:
        """Return whether rows are scored before those of files that are there are left out."""
        if not self._missing:
            return False
        plan = self._plan(self._reading(self._like_missing()))
        return bool(LATE.search(plan)) and self._scores(plan)

    def _plan(self, statement: sql.Composable) -> str:
        self._cur.execute(sql.SQL("EXPLAIN (VERBOSE, COSTS OFF) ") + statement)
        return "\n".join(line for (line,) in self._cur.fetchall())

    def _scores(self, plan: str) -> bool:
        """Return whether a function of ours is in a plan, which may name it without its schema."""
        self._cur.execute(FUNCTIONS)
        names = "|".join(name for (name,) in self._cur.fetchall())
        return bool(names and re.search(rf"\b({names})\(", plan))

    def read(self, take: Callable[[list[bytes | None]], None]) -> None:
        """Hand name and content of each row on.

        By COPY, which sends rows as they come and, unlike a cursor, may have a parallel plan.
        """
        copy = sql.SQL("COPY ({}) TO STDOUT WITH (FORMAT binary)").format(self._reading(self._missing))
        text = copy.as_string(self._cur)
        patiently(self._cur, lambda: self._cur.copy_expert(text, Decoder(take)))

    def _reading(self, missing: list[sql.Composable]) -> sql.Composed:
        content = "q.value"
        if self._kind != BYTEA:
            text = "q.value" if self._kind in TEXTS else "pg_catalog.to_json(q.value)"
            content = f"pg_catalog.convert_to({text}::pg_catalog.text, 'UTF8')"
        return sql.SQL("SELECT q.name::pg_catalog.text, {} FROM {} q(name, value) WHERE {}").format(
            sql.SQL(content), self._query, _all(missing)
        )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_among(names: list[str]) -> sql.Composable:
    """Return the condition that a row's name is none of these.

    They are the keys of an object, which the server searches by halves. In an array, PostgreSQL before 14 would compare
    each row with each name; a temporary table would be the leader's alone, and no parallel worker's.
    """
    found = json.dumps(dict.fromkeys(names, 0), ensure_ascii=False)
    return sql.SQL(
        "({}::pg_catalog.jsonb OPERATOR(pg_catalog.?) q.name::pg_catalog.text) IS NOT TRUE"
    ).format(sql.Literal(found))


def _all(conditions: list[sql.Composable]) -> sql.Composable:
    return sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true")


def _twins(name: str) -> DataError:
    return DataError(
        f"two rows of the query have the name {name!r}",
        "Each row becomes a file; make the names unique, for example with the key: id || '.png'.",
    )


class _Written:
    """What has become files; some are written side by side.

    Attributes:
        writers: the threads that write.
    """

    writers: ThreadPoolExecutor

    def __init__(self, place: Place, progress: OnProgress, count: _Count | None) -> None:
        self.files = self.empty = self.bytes = 0
        self._place, self._progress = place, progress
        self._total = None if count is None else count.left
        # nobody has looked for rows of one name yet
        self._seen: set[str] | None = set() if count is None else None
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._waiting_bytes = 0

    def take(self, row: list[bytes | None]) -> None:
        """Begin to write a row's file; wait where too much waits already."""
        name = check_name(None if row[0] is None else row[0].decode())
        content = row[1]
        if self._seen is not None:
            if name in self._seen:
                raise _twins(name)
            self._seen.add(name)
        if content is None:
            self.empty += 1
            self._tell()
            return
        self._waiting.append((self.writers.submit(self._place.put, name, content), len(content)))
        self._waiting_bytes += len(content)
        self.wait(WAITING_BYTES, 4 * WRITERS)

    def wait(self, size: int = -1, files: int = 0) -> None:
        """Wait until no more than so many bytes and files are to be written.

        Raises:
            DataError: a file could not be written.
        """
        while self._waiting and (self._waiting_bytes > size or len(self._waiting) > files):
            future, length = self._waiting.popleft()
            future.result()
            self.files, self.bytes = self.files + 1, self.bytes + length
            self._waiting_bytes -= length
            self._tell()

    def _tell(self) -> None:
        self._progress(Progress("writing", self.files + self.empty, self._total, "files"))
