"""Scores one batch in one transaction: results, bad rows with their reasons, or nothing at all."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.errors import DataError
from dbinfer.score.files import IMAGE_STATES
from dbinfer.score.key import Bound, Range
from dbinfer.score.plan import Plan

# A batch is a small part of a table of any size: its rows come by index, whatever the statistics say of a table that
# was empty a moment ago. Hash joins would read all results for each batch. JIT would take the price of "off" for real.
BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL jit = off; "
# A group of images meets its results again by their numbers: a loop would compare all with all
ONE_BY_ONE, GROUPED = "SET LOCAL enable_mergejoin = off; ", "SET LOCAL enable_nestloop = off; "
# Greenplum says which process it was, which is no reason
SEGMENT = re.compile(r"\s+\((?:seg\d+|entry db)\b[^()]*\bpid=\d+\)$")


@dataclass(frozen=True)
class Outcome:
    """What came of a batch: results, bad rows, and why the last of them is bad."""

    rows: int = 0
    errors: int = 0
    reason: str | None = None


class Limit:
    """How many bad rows a job takes, counted by all its workers."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._count = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        """Count a bad row."""
        with self._lock:
            self._count += 1

    @property
    def passed(self) -> bool:
        """Return whether there are more bad rows than the job takes."""
        return self._most is not None and self._count > self._most


def too_many(plan: Plan, reason: str, errors: int) -> DataError:
    """Return what to raise where a job stops for its bad rows."""
    if plan.options.on_error == "error":
        return DataError(
            reason, f"The row is in {plan.errors}; leave out --on-error error to go on without it."
        )
    return DataError(
        f"{errors} rows are bad, more than --max-errors {plan.options.max_errors}; the last one: {reason}",
        f"Their reasons are in {plan.errors}; what was scored stays. To try them again: --retry-errors.",
    )


def score_batch(conn: Connection, plan: Plan, keys: Range, retry: bool, limit: Limit) -> Outcome:
    """Score a range of keys; all of it is stored, or nothing."""
    with conn, conn.cursor() as cur:
        # in each transaction: whoever owns the schema can put another table in the place of ours
        for name in plan.targets:
            name.require_own(cur, here=plan.platform.mpp)
        if retry:
            cur.execute(plan.retry(keys))
        rows = _whole(cur, plan, keys)
        if rows >= keys.rows:
            return Outcome(rows)
        errors, reason = 0, None
        for key in list(_left(cur, plan, keys)):
            found = _single(cur, plan, key)
            if found is None:
                rows += 1
                continue
            errors, reason = errors + 1, f"row {', '.join(key)}: {found}"
            limit.add()
            if limit.passed:
                break
        return Outcome(rows, errors, reason)


def _whole(cur: Cursor, plan: Plan, keys: Range) -> int:
    prefix = _prefix(plan)
    if plan.function.on_error:
        return _count(cur, plan, keys, prefix)
    # A function that cannot answer NULL for a bad image: then one by one
    cur.execute("SAVEPOINT dbinfer_batch")
    try:
        return _count(cur, plan, keys, prefix)
    except psycopg2.Error as err:
        if err.pgcode not in IMAGE_STATES:
            raise
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_batch")
        return 0


def _count(cur: Cursor, plan: Plan, keys: Range, prefix: str) -> int:
    rows = 0
    for statement in plan.batches(keys):
        if rows < keys.rows:
            cur.execute(sql.SQL(prefix) + statement)
            rows += cur.rowcount
    return rows


def _prefix(plan: Plan) -> str:
    if plan.platform.mpp:
        # _batch must be called once a row, where the row lies: tested with this planner
        return "SET LOCAL optimizer = off; " if plan.grouped else ""
    return BY_INDEX + (GROUPED if plan.grouped else ONE_BY_ONE) if plan.ordered else ""


def _left(cur: Cursor, plan: Plan, keys: Range) -> Iterator[Bound]:
    cur.execute(plan.left(keys))
    yield from cur.fetchall()


def _single(cur: Cursor, plan: Plan, key: Bound) -> str | None:
    """Score one row; return why it is bad, or None."""
    cur.execute("SAVEPOINT dbinfer_row")
    try:
        cur.execute(plan.single(key))
    except psycopg2.Error as err:
        if err.pgcode not in IMAGE_STATES:
            raise
        reason = SEGMENT.sub("", (err.diag.message_primary or str(err)).removeprefix("dbinfer: "))
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_row")
        cur.execute(plan.bad(key, reason))
        return reason
    cur.execute("RELEASE SAVEPOINT dbinfer_row")
    return None
