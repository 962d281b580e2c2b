"""The threads and connections of a job: one cuts batches, the others score them."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import connect, one, sentence
from dbinfer.errors import DataError, ServerError
from dbinfer.score.feeder import Feeder, Pace
from dbinfer.score.plan import Plan
from dbinfer.score.worker import Limit, Outcome, score_batch

PARTS = 40
LITTLE = 500.0  # milliseconds of work that need no second process


class Crew:
    """The threads of a job: one cuts batches, the others score them; what comes of it waits in `outcomes`."""

    def __init__(self, plan: Plan, feeding: Connection, scoring: list[Connection], total: int) -> None:
        options = plan.options
        self.plan = plan
        self._stop = threading.Event()
        self._ranges: queue.Queue[Any] = queue.Queue(2 * len(scoring))
        self.outcomes: queue.Queue[Outcome | Exception | None] = queue.Queue()
        # Without an index each batch reads the whole table: then few batches
        floor = 0 if plan.ordered else total // PARTS
        self._pace = Pace(options.batch, floor, total, len(scoring), max(1, plan.platform.segments))
        most = 0 if options.on_error == "error" else options.max_errors
        self.limit = Limit(most)
        self._conns = [feeding, *scoring]
        feeder = Feeder(feeding, plan, self._pace, self._stop.is_set, self._settle)
        self._threads = [threading.Thread(target=self._guard, args=(self._feed, feeder), daemon=True)]
        self._threads += [
            threading.Thread(target=self._guard, args=(self._work, c), daemon=True) for c in scoring
        ]

    def start(self) -> None:
        """Let all threads begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let everybody end after the batch that they are at."""
        self._stop.set()

    def end(self, at_once: bool = False) -> None:
        """Wait for all; `at_once` cancels the batches that they are at."""
        self.stop()
        for conn in self._conns if at_once else ():
            with suppress(psycopg2.Error):
                conn.cancel()
        for thread in self._threads:
            thread.join()

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
            # The workers' sign to go home
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
        while not self._stop.is_set():
            try:
                batch = self._ranges.get(timeout=0.1)
            except queue.Empty:
                continue
            if batch is None:
                return
            begin = time.monotonic()
            outcome = score_batch(conn, self.plan, batch[0], retry=batch[1], limit=self.limit)
            self._pace.measured(batch[0].rows, time.monotonic() - begin)
            self.outcomes.put(outcome)
            if self.limit.passed:
                self.stop()
            self._ranges.task_done()


def processes(cur: Cursor, plan: Plan, total: int) -> int:
    """Return how many connections score at once: as many as a parallel plan has processes; segments share alone."""
    # Loading the libraries takes a process longer than scoring a few images
    if plan.platform.mpp or (total * plan.milliseconds < LITTLE and not plan.options.watch):
        return 1
    cur.execute("SELECT pg_catalog.current_setting('max_parallel_workers_per_gather')::pg_catalog.int4")
    return int(one(cur)) + 1


def open_more(stack: ExitStack, dsn: str | None, wanted: int) -> list[Connection]:
    """Open up to so many connections, at least two."""
    found: list[Connection] = []
    while len(found) < wanted:
        try:
            conn = connect(dsn)
        except ServerError as err:
            if len(found) >= 2:
                break
            raise DataError(
                f"the server has no free connection for this job, which needs three: {err.message}",
                "Wait for others to end, raise max_connections, or use --atomic, which needs one.",
            ) from err
        stack.callback(conn.close)
        conn.set_client_encoding("UTF8")
        found.append(conn)
    return found
