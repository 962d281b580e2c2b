"""The threads and connections of a job: one cuts the open rows into batches, the others score one batch a
transaction.
"""

from __future__ import annotations

import queue
import re
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, ServerError
from dbinfer.database.connection import connect, one, sentence
from dbinfer.score.files import IMAGE_STATES
from dbinfer.score.queue import Queue
from dbinfer.score.reuse import InHand, Pictures
from dbinfer.score.statements import Batch, Bound, Listed, Plan, Range

# A batch is a small part of a table of any size: its rows come by index, whatever the statistics say of a table that
# was empty a moment ago. Hash joins would read all results for each batch. JIT would take the price of "off" for real.
BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL jit = off; "
# A group of images meets its results again by their numbers: a loop would compare all with all
ONE_BY_ONE, GROUPED = "SET LOCAL enable_mergejoin = off; ", "SET LOCAL enable_nestloop = off; "
# Few open rows among many that are done: results that were read once for all would be gone through for each row
SCATTERED = ONE_BY_ONE + "SET LOCAL enable_material = off; "
# Keys one by one lie anywhere: each is looked up, and how a group meets its results is for the planner to say
LOOKED_UP = "SET LOCAL enable_seqscan = off; SET LOCAL jit = off; "
# Greenplum says which process it was, which is no reason
SEGMENT = re.compile(r"\s+\((?:seg\d+|entry db)\b[^()]*\bpid=\d+\)$")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a batch: results, bad rows, why the last of these is bad, what made room for them, and how many
    results were there for another row.
    """

    rows: int = 0
    errors: int = 0
    reason: str | None = None
    outdated: int = 0
    removed: int = 0
    reused: int = 0


class Limit:
    """How many bad rows a job tolerates, counted by all its workers."""

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
        """Return whether there are more bad rows than the job tolerates."""
        return self._most is not None and self._count > self._most


def too_many(plan: Plan, reason: str, errors: int) -> DataError:
    """Return the error of a job that stops because of bad rows."""
    if plan.options.on_error == "error":
        return DataError(
            reason, f"The row is in {plan.errors}; leave out --on-error error to go on without it."
        )
    return DataError(
        f"{errors} rows are bad, more than --max-errors {plan.options.max_errors}; the last one: {reason}",
        f"Their reasons are in {plan.errors}; what was scored stays. To try them again: --retry-errors.",
    )


def score_batch(
    conn: Connection, plan: Plan, batch: Batch, limit: Limit, hand: InHand | None = None
) -> Outcome:
    """Score some keys; all of it is stored, or nothing.

    Args:
        hand: what this thread has in hand, with --reuse; None: no other one scores.
    """
    keys = batch.keys
    # given back after the commit
    with hand or nullcontext(), conn, conn.cursor() as cur:
        # in each transaction: whoever owns the schema can put another table in the place of ours
        for name in plan.targets:
            name.require_own(cur, here=plan.platform.mpp)
        queue = Queue(plan, plan.queue) if plan.queue and isinstance(keys, Listed) else None
        if queue and isinstance(keys, Listed):
            queue.take(cur, keys)
        outdated, removed = _make_room(cur, plan, batch)
        if not keys.rows:
            return Outcome(outdated=outdated, removed=removed)
        if batch.retry and isinstance(keys, Range):
            cur.execute(plan.retry(keys))
        reused = 0
        left: list[tuple[Bound, Bound]] = []
        if plan.answers:
            rows, reused, left = _once_each(cur, plan, keys, hand if batch.leaves else None)
        elif (rows := _whole(cur, plan, keys)) < keys.rows:
            left = list(_left(cur, plan, keys))
        errors, reason = 0, None
        for key, seen in left:
            found = _single(cur, plan, key, seen)
            if found is None:
                rows += 1
                continue
            errors, reason = errors + 1, f"row {', '.join(key)}: {found}"
            limit.add()
            if limit.passed:
                if queue:
                    # it leaves rows that the queue no longer has
                    queue.forget(cur)
                break
        return Outcome(rows, errors, reason, outdated=outdated, removed=removed, reused=reused)


def _make_room(cur: Cursor, plan: Plan, batch: Batch) -> tuple[int, int]:
    """Remove what is stored of other images than the rows have now, and of rows that are gone; count both."""
    outdated = removed = 0
    for statement in plan.gone(batch.keys) if batch.gone else ():
        cur.execute(statement)
        removed += cur.rowcount
    if plan.options.follow and batch.keys.rows:
        cur.execute(_prefix(plan, batch.keys, ONE_BY_ONE) or "SELECT 1")
        for statement, counts in plan.compared(batch):
            cur.execute(statement)
            outdated += cur.rowcount if counts else 0
    return outdated, removed


def _once_each(
    cur: Cursor, plan: Plan, keys: Range | Listed, hand: InHand | None
) -> tuple[int, int, list[tuple[Bound, Bound]]]:
    """Score each picture once; return how many rows have a result, how many of them by another row, and the others."""
    assert plan.answers is not None
    pictures = Pictures(cur, plan)
    left = pictures.note(keys, _prefix(plan, keys, SCATTERED))
    # before it looks for answers: what others had in hand until now has one that can be seen
    left -= pictures.leave(hand) if hand else 0
    reused = pictures.answer(plan.answers.held(cur))
    left -= reused
    scored = pictures.score(left) if left else 0
    if left := left - scored:
        again = pictures.answer(())
        reused, left = reused + again, left - again
    if left and plan.options.on_error == "null":
        again = pictures.score(left, each=True)
        scored, left = scored + again, left - again
    return scored + reused, reused, list(pictures.left()) if left else []


def _whole(cur: Cursor, plan: Plan, keys: Range | Listed) -> int:
    prefix = _prefix(plan, keys, GROUPED if plan.grouped else ONE_BY_ONE)
    if plan.function.on_error:
        return _count(cur, plan, keys, prefix)
    # A function that cannot answer NULL for a bad image: its rows are scored one by one
    cur.execute("SAVEPOINT dbinfer_batch")
    try:
        return _count(cur, plan, keys, prefix)
    except psycopg2.Error as err:
        if err.pgcode not in IMAGE_STATES:
            raise
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_batch")
        return 0


def _count(cur: Cursor, plan: Plan, keys: Range | Listed, prefix: str) -> int:
    rows = 0
    for statement in plan.batches(keys):
        if rows < keys.rows:
            cur.execute(sql.SQL(prefix) + statement)
            rows += cur.rowcount
    return rows


def _prefix(plan: Plan, keys: Range | Listed, joins: str) -> str:
    if plan.platform.mpp:
        # _batch must be called once a row, where the row lies: tested with this planner
        return "SET LOCAL optimizer = off; " if plan.grouped else ""
    if not plan.ordered:
        return ""
    return BY_INDEX + joins if isinstance(keys, Range) else LOOKED_UP


def _left(cur: Cursor, plan: Plan, keys: Range | Listed) -> Iterator[tuple[Bound, Bound]]:
    """Yield each key that its batch has left, and what was seen of its image."""
    cur.execute(plan.left(keys))
    width = len(plan.key.columns)
    yield from ((row[:width], row[width:]) for row in cur.fetchall())


def _single(cur: Cursor, plan: Plan, key: Bound, seen: Bound) -> str | None:
    """Score one row; return why it is bad, or None."""
    cur.execute("SAVEPOINT dbinfer_row")
    try:
        cur.execute(plan.single(key))
    except psycopg2.Error as err:
        if err.pgcode not in IMAGE_STATES:
            raise
        reason = SEGMENT.sub("", (err.diag.message_primary or str(err)).removeprefix("dbinfer: "))
        cur.execute("ROLLBACK TO SAVEPOINT dbinfer_row")
        cur.execute(plan.bad(key, reason, seen))
        return reason
    cur.execute("RELEASE SAVEPOINT dbinfer_row")
    return None


SECONDS = 2.0  # of a batch: what is lost when somebody kills the client
FIRST, LEAST, MOST = 64, 32, 20_000
EDGE = 8  # rows of the last batches
# How often to look again for rows that arrive while a job runs, before where it is
PASSES = 10
# Looking for new keys among the old ones takes at most this part of the time
SHARE = 20
KEYS_BY_INDEX = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_sort = off; "
    "SET LOCAL enable_bitmapscan = off; /* greenplum6: */ SET LOCAL jit = off; /* :greenplum6 */ "
)


class Pace:
    """How many rows a batch has.

    As many as take about SECONDS, and fewer towards the end, so that all workers end together.

    Args:
        fixed: always this many; floor: never fewer.
        total: rows of all batches; workers: that share them; segments: that share each batch.
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
        # A single worker waits for no other. Rows added meanwhile are not counted, so nothing may seem to lie ahead
        shared = self._workers > 1 and self._ahead > 0
        share = max(EDGE, self._ahead // (2 * self._workers)) if shared else self._most
        return max(min(self._size, share), self._floor)

    def left(self, rows: int) -> None:
        """Take notice of how many rows lie ahead, where others cut batches, too."""
        self._ahead = rows

    def fed(self, rows: int) -> None:
        """Count a batch that was cut."""
        self._ahead -= rows

    def measured(self, rows: int, seconds: float) -> None:
        """Adapt to a scored batch, by at most four times its rows: it may have been an easy one."""
        wanted = int(rows / max(seconds, 1e-3) * SECONDS)
        self._size = max(LEAST, min(self._most, wanted, 4 * max(rows, LEAST))) // LEAST * LEAST


def next_range(
    conn: Connection, plan: Plan, low: Bound | None, size: int, retry: bool, exact: bool = False
) -> Range | None:
    """Return the keys of the next open rows above `low`; None where there are none."""
    prefix = plan.platform.adapt(KEYS_BY_INDEX) if plan.ordered else ""
    if plan.platform.mpp:
        # a worker's session cannot keep a setting: see never_merge
        prefix += ONE_BY_ONE + ("SET LOCAL optimizer = off; " if prefix else "")
    with conn, conn.cursor() as cur:
        cur.execute(sql.SQL(prefix) + plan.boundary(low, size, retry, exact))
        row = cur.fetchone()
    return Range(low, row[1:], int(row[0])) if row else None


class Feeder:
    """Yields the batches of a job.

    Args:
        conn: its own connection.
        stopped: says whether the job should end.
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
        self._queue = Queue(plan, plan.queue) if plan.queue else None
        self._highest: Bound | None = None
        self._looked = 0.0  # seconds of the last pass's queries

    def batches(self) -> Iterator[Batch]:
        """Yield each batch."""
        options = self._plan.options
        # the queue knows what has changed, not what is to be tried or compared again
        if options.retry_errors or options.exact or not self._known():
            yield from self._all(PASSES, options.retry_errors)
        for _ in range(PASSES if self._queue else 0):
            found = False
            for batch in self._queued():
                found = True
                yield batch
            if not found:
                break
        if options.watch and not self._stopped():
            yield from self._watch()

    def _known(self) -> bool:
        """Return whether the queue has all that is to be done."""
        if self._queue is None:
            return False
        with self._conn, self._conn.cursor() as cur:
            return self._queue.known(cur)

    def _all(self, passes: int, retry: bool = False) -> Iterator[Batch]:
        """Yield batches of all open rows, until a pass finds none or all passes are made."""
        state, exact = None, self._plan.exact
        if self._queue:
            with self._conn, self._conn.cursor() as cur:
                self._queue.forget(cur)
                state = self._queue.state(cur)
        # in the first pass alone: what it leaves has an answer by then, or is bad. Where a job follows, results of
        # other images have made room, and a row must not be without
        leaves = passes > 1 and not self._plan.options.follow
        for _ in range(passes):
            found = False
            for keys in self._pass(None, retry, exact):
                found = True
                yield Batch(keys, retry, exact, leaves=leaves)
            if not found:
                break
            self._settle()
            retry = exact = leaves = False
        if self._plan.options.follow and not self._stopped():
            yield from self._sweep()
        if self._queue and not self._stopped():
            with self._conn, self._conn.cursor() as cur:
                self._queue.remember(cur, state)

    def _queued(self) -> Iterator[Batch]:
        """Yield batches of the rows whose keys are in the queue."""
        if self._queue is None or self._stopped():
            return
        with self._conn, self._conn.cursor() as cur:
            keys = list(self._queue.keys(cur))
        while keys and not self._stopped():
            size = self._pace.size
            taken, keys = keys[:size], keys[size:]
            yield Batch(Listed(tuple(taken)), exact=self._plan.exact, gone=True)
        self._settle()

    def _pass(self, low: Bound | None, retry: bool, exact: bool) -> Iterator[Range]:
        self._looked = 0.0
        while not self._stopped():
            keys = self._next(low, retry, exact)
            if keys is None:
                return
            low = self._highest = keys.high
            self._pace.fed(keys.rows)
            yield keys

    def _next(self, low: Bound | None, retry: bool, exact: bool) -> Range | None:
        begin = time.monotonic()
        found = next_range(self._conn, self._plan, low, self._pace.size, retry, exact=exact)
        self._looked += time.monotonic() - begin
        return found

    def _sweep(self) -> Iterator[Batch]:
        """Yield the batch that removes the results of rows that are gone, and wait for it: this is looking, too."""
        begin = time.monotonic()
        yield Batch(Range(), gone=True)
        self._settle()
        self._looked += time.monotonic() - begin

    def _watch(self) -> Iterator[Batch]:
        """Yield new rows as they come: mostly above the highest key, now and then among all keys."""
        with self._conn, self._conn.cursor() as cur:
            cur.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._plan.options.channel)))
        due = time.monotonic() + SHARE * self._looked
        while not self._stopped():
            begin = time.monotonic()
            if self._known():
                yield from self._queued()
            elif begin >= due:
                yield from self._all(1)
                # scoring what was found is not looking for it, but comparing images is
                due = time.monotonic() + SHARE * (
                    time.monotonic() - begin if self._plan.exact else self._looked
                )
            else:
                for keys in self._pass(self._highest, retry=False, exact=False):
                    yield Batch(keys)
                self._settle()
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


PARTS = 40
LITTLE = 500.0  # milliseconds of work that need no second process


class Crew:
    """The threads of a job: one cuts batches, the others score them; the outcomes wait in `outcomes`."""

    def __init__(self, plan: Plan, feeding: Connection, scoring: list[Connection], total: int) -> None:
        options = plan.options
        self.plan = plan
        self._stop = threading.Event()
        self._ranges: queue.Queue[Any] = queue.Queue(2 * len(scoring))
        self.outcomes: queue.Queue[Outcome | Exception | None] = queue.Queue()
        # Without an index each batch reads the whole table: then few batches
        floor = 0 if plan.ordered else total // PARTS
        self._pace = Pace(options.batch, floor, total, len(scoring), max(1, plan.platform.segments))
        self.limit = Limit(options.most_errors)
        # the pictures that threads are scoring now, see InHand
        self._all_in_hand: set[bytes] = set()
        self._lock = threading.Lock()
        self._conns = [feeding, *scoring]
        feeder = Feeder(feeding, plan, self._pace, self._stop.is_set, self._settle)
        self._threads = [threading.Thread(target=self._guard, args=(self._feed, feeder), daemon=True)]
        self._threads += [
            threading.Thread(target=self._guard, args=(self._work, c), daemon=True) for c in scoring
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let all threads end after their current batch."""
        self._stop.set()

    def end(self, at_once: bool = False) -> None:
        """Wait for all threads; `at_once` cancels their current batches."""
        self.stop()
        for conn in self._conns if at_once else ():
            with suppress(psycopg2.Error):
                conn.cancel()
        for thread in self._threads:
            thread.join()

    def left(self) -> Iterator[Outcome]:
        """Yield the outcomes that nobody has taken yet."""
        while not self.outcomes.empty():
            outcome = self.outcomes.get_nowait()
            if isinstance(outcome, Outcome):
                yield outcome

    def _guard(self, work: Any, of: Any) -> None:
        try:
            work(of)
        except Exception as err:
            self._stop.set()
            self.outcomes.put(sentence(err) if isinstance(err, psycopg2.Error) else err)
        self.outcomes.put(None)

    def _feed(self, feeder: Feeder) -> None:
        try:
            for batch in feeder.batches():
                self._put(batch)
        finally:
            # Tells the workers to end
            for _ in self._conns[1:]:
                self._put(None)

    def _put(self, item: Any) -> None:
        while not self._stop.is_set():
            with suppress(queue.Full):
                self._ranges.put(item, timeout=0.1)
                return

    def _settle(self) -> None:
        while self._ranges.unfinished_tasks and not self._stop.is_set():
            time.sleep(0.02)

    def _work(self, conn: Connection) -> None:
        hand = InHand(self._all_in_hand, self._lock) if len(self._conns) > 2 else None
        while not self._stop.is_set():
            try:
                batch = self._ranges.get(timeout=0.1)
            except queue.Empty:
                continue
            if batch is None:
                return
            begin = time.monotonic()
            outcome = score_batch(conn, self.plan, batch, self.limit, hand)
            if batch.keys.rows:
                self._pace.measured(batch.keys.rows, time.monotonic() - begin)
            self.outcomes.put(outcome)
            if self.limit.passed:
                self.stop()
            self._ranges.task_done()


def processes(cur: Cursor, plan: Plan, total: int) -> int:
    """Return how many connections score at once: as many as a parallel plan has processes; one where segments share."""
    # Loading the libraries takes a process longer than scoring a few images
    if plan.platform.mpp or (total * plan.milliseconds < LITTLE and not plan.options.watch):
        return 1
    cur.execute("SELECT pg_catalog.current_setting('max_parallel_workers_per_gather')::pg_catalog.int4")
    return int(one(cur)) + 1


def never_merge(cur: Cursor, plan: Plan, local: bool = False) -> None:
    """Join in no session of a job by merging, where rows would be lost: Greenplum 7 sorts uuid and bytea by the first
    eight bytes as a signed number, unlike its own comparison.

    Args:
        local: for this transaction alone, as behind a pooler.
    """
    if plan.platform.mpp:
        cur.execute(f"SET {'LOCAL ' if local else ''}enable_mergejoin = off")


def open_more(stack: ExitStack, dsn: str | None, wanted: int) -> list[Connection]:
    """Open up to `wanted` connections, at least two."""
    found: list[Connection] = []
    while len(found) < wanted:
        try:
            conn = connect(dsn)
        except ServerError as err:
            if len(found) >= 2:
                break
            raise DataError(
                f"the server has no free connection for this job, which needs three: {err.message}",
                "Wait until others end, raise max_connections, or use --atomic, which needs one connection.",
            ) from err
        stack.callback(conn.close)
        conn.set_client_encoding("UTF8")
        found.append(conn)
    return found
