"""Cuts the open rows into batches, in the order of their keys, and waits for new ones where it is told to."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator

from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.score.key import Bound, Range
from dbinfer.score.plan import Plan

SECONDS = 2.0  # of a batch: what is lost when somebody kills the client
FIRST, LEAST, MOST = 64, 32, 20_000
EDGE = 8  # rows of the last batches
# Rows that arrive while a job runs, before where it is: looked for again, but not for ever
PASSES = 10
# Looking for new keys among the old ones takes at most this part of the time
SHARE = 20
KEYS_BY_INDEX = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_sort = off; "
    "SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off; "
)


class Pace:
    """How many rows a batch has.

    So many that it takes about SECONDS, and fewer towards the end, so that all workers end together.

    Args:
        fixed: always so many; floor: never fewer.
        total: of all batches; workers: that share them; segments: that share each batch.
    """

    def __init__(
        self, fixed: int | None, floor: int, total: int, workers: int = 1, segments: int = 1
    ) -> None:
        self._fixed, self._floor, self._most = fixed, floor, MOST * segments
        self._ahead, self._workers = total, workers
        self._size = FIRST

    @property
    def size(self) -> int:
        """Return the rows of the next batch."""
        if self._fixed:
            return self._fixed
        # One worker waits for nobody. Rows that came meanwhile are not counted: then nothing seems to lie ahead
        shared = self._workers > 1 and self._ahead > 0
        share = max(EDGE, self._ahead // (2 * self._workers)) if shared else self._most
        return max(min(self._size, share), self._floor)

    def fed(self, rows: int) -> None:
        """Take note of a batch that is cut off."""
        self._ahead -= rows

    def measured(self, rows: int, seconds: float) -> None:
        """Take note of a batch that is scored; at most four times its rows, for it may have been a lucky one."""
        wanted = int(rows / max(seconds, 1e-3) * SECONDS)
        self._size = max(LEAST, min(self._most, wanted, 4 * max(rows, LEAST))) // LEAST * LEAST


class Feeder:
    """Yields the batches of a job.

    Args:
        conn: its own connection.
        stopped: says whether the job shall end.
        settle: waits until all batches that were yielded are done.
    """

    def __init__(
        self,
        conn: Connection,
        plan: Plan,
        pace: Pace,
        stopped: Callable[[], bool],
        settle: Callable[[], None],
    ) -> None:
        self._conn, self._plan, self._pace = conn, plan, pace
        self._stopped, self._settle = stopped, settle
        self._highest: Bound | None = None
        self._looked = 0.0  # seconds of the last pass's queries

    def batches(self) -> Iterator[tuple[Range, bool]]:
        """Yield each batch, and whether its bad rows are tried again."""
        retry = self._plan.options.retry_errors
        for _ in range(PASSES):
            found = False
            for keys in self._pass(None, retry):
                found = True
                yield keys, retry
            if not found:
                break
            self._settle()
            retry = False
        if self._plan.options.watch and not self._stopped():
            yield from ((keys, False) for keys in self._watch())

    def _pass(self, low: Bound | None, retry: bool) -> Iterator[Range]:
        self._looked = 0.0
        while not self._stopped():
            keys = self._next(low, retry)
            if keys is None:
                return
            low = self._highest = keys.high
            self._pace.fed(keys.rows)
            yield keys

    def _next(self, low: Bound | None, retry: bool) -> Range | None:
        prefix = self._plan.platform.adapt(KEYS_BY_INDEX) if self._plan.ordered else ""
        if self._plan.platform.mpp and prefix:
            prefix += "SET LOCAL optimizer = off; "
        begin = time.monotonic()
        with self._conn, self._conn.cursor() as cur:
            cur.execute(sql.SQL(prefix) + self._plan.boundary(low, self._pace.size, retry))
            row = cur.fetchone()
        self._looked += time.monotonic() - begin
        return Range(low, row[1:], int(row[0])) if row else None

    def _watch(self) -> Iterator[Range]:
        """Yield new rows as they come: mostly above the highest key, at times among all."""
        with self._conn, self._conn.cursor() as cur:
            cur.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._plan.options.channel)))
        due = time.monotonic() + SHARE * self._looked
        while not self._stopped():
            whole = time.monotonic() >= due
            yield from self._pass(None if whole else self._highest, retry=False)
            self._settle()
            if whole:
                # scoring what was found is not looking for it
                due = time.monotonic() + SHARE * self._looked
            self._wait(self._plan.options.watch or 1.0)

    def _wait(self, seconds: float) -> None:
        """Wait for a NOTIFY or for the time to look again."""
        end = time.monotonic() + seconds
        while not self._stopped() and time.monotonic() < end:
            if select.select([self._conn], [], [], min(0.2, seconds))[0]:
                self._conn.poll()
            if self._conn.notifies:
                self._conn.notifies.clear()
                return
