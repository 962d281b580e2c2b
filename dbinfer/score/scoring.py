"""score in batches: several connections, each batch a transaction; killed at any moment, the next run goes on."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one, session
from dbinfer.errors import DbinferError
from dbinfer.platform import detect
from dbinfer.progress import Progress
from dbinfer.score.crew import Crew, open_more, processes
from dbinfer.score.ledger import Ledger, Tally
from dbinfer.score.options import ScoreOptions, ScoreReport
from dbinfer.score.plan import Plan
from dbinfer.score.prepare import prepare
from dbinfer.score.tables import make_tables
from dbinfer.score.worker import Outcome, too_many

BEAT = 1.0  # seconds between two words to the ledger


class Scoring:
    """A job as something to go through: one item for each row, as it is scored; `len` is the number of rows.

    The job begins with the first item, and ends after the current batch where the loop is left. Afterwards `report`
    says what it did.
    """

    def __init__(
        self,
        table: str = "images",
        into: str = "predictions",
        options: ScoreOptions | None = None,
        dsn: str | None = None,
    ) -> None:
        self._options = options or ScoreOptions()
        self._options.check()
        self._names, self._dsn = (table, into), dsn
        self.report: ScoreReport | None = None

    def __len__(self) -> int:
        with session(self._dsn) as conn, conn.cursor() as cur:
            return self._prepare(cur)[1]

    def _prepare(self, cur: Cursor) -> tuple[Plan, int, str]:
        """Return the plan, the number of open rows and a note; the tables are there afterwards."""
        plan = prepare(cur, *self._names, self._options, detect(cur.connection))
        note = make_tables(cur, plan)
        cur.execute(plan.total(self._options.retry_errors))
        return plan, int(one(cur)), note

    def __iter__(self) -> Iterator[Progress]:
        before = 0
        for progress in self.batches():
            yield from (progress for _ in range(progress.done - before))
            before = progress.done

    def batches(self) -> Iterator[Progress]:
        """Yield the progress after each batch, or each second; at the end `report` is there."""
        with ExitStack() as stack:
            conn = stack.enter_context(session(self._dsn))
            yield Progress("counting the rows")
            with conn.cursor() as cur:
                plan, total, note = self._prepare(cur)
                wanted = self._options.connections or processes(cur, plan, total)
            conn.commit()
            if note:
                yield Progress("counting the rows", note=note)
            conn.set_session(autocommit=True)
            feeding, *scoring = open_more(stack, self._dsn, wanted + 1)
            ledger = Ledger(conn, plan, len(scoring))
            yield from self._run(conn, ledger, Crew(plan, feeding, scoring, total), Tally(total=total))

    def _run(self, conn: Connection, ledger: Ledger, crew: Crew, tally: Tally) -> Iterator[Progress]:
        begin, state, plan = time.monotonic(), "failed", crew.plan
        crew.start()
        try:
            cancelled = yield from _listen(ledger, crew, tally)
            state = "cancelled" if cancelled else "done"
        except (KeyboardInterrupt, GeneratorExit) as err:
            state = "cancelled"
            crew.end(at_once=isinstance(err, KeyboardInterrupt))
            raise
        except DbinferError as err:
            tally.last_error = err.message
            raise
        finally:
            crew.end()
            with suppress(psycopg2.Error):
                ledger.tell(tally, state)
        self.report = _report(conn, plan, ledger, tally, (state, time.monotonic() - begin))


def _listen(ledger: Ledger, crew: Crew, tally: Tally) -> Any:
    """Yield the progress until all threads are done; return whether somebody has cancelled the job."""
    cancelled, beat, here = False, time.monotonic(), True
    first: Exception | None = None
    living = 1 + ledger.connections
    while living:
        here = True
        try:
            event = crew.outcomes.get(timeout=BEAT)
        except queue.Empty:
            here = False
        if here:
            if event is None:
                living -= 1
                continue
            if isinstance(event, Exception):
                first = first or event
                continue
            _count(tally, event)
            yield Progress("scoring", tally.done, tally.total or None, "images", errors=tally.errors)
        if time.monotonic() >= beat + BEAT:
            beat = time.monotonic()
            cancelled = ledger.tell(tally) or cancelled
        if cancelled or crew.limit.passed:
            crew.stop()
    if first is not None:
        raise first
    if crew.limit.passed:
        raise too_many(crew.plan, tally.last_error or "", tally.errors)
    return cancelled


def _count(tally: Tally, event: Outcome) -> None:
    tally.done += event.rows + event.errors
    # Rows that came meanwhile
    tally.total = max(tally.total, tally.done)
    tally.errors += event.errors
    tally.last_error = event.reason or tally.last_error


def _report(
    conn: Connection, plan: Plan, ledger: Ledger, tally: Tally, ended: tuple[str, float]
) -> ScoreReport:
    state, seconds = ended
    with conn.cursor() as cur:
        cur.execute(plan.end(ledger.began))
        gone, changed, nulls = cur.fetchone() or (0, 0, 0)
        if tally.done:
            cur.execute("ANALYZE " + plan.into.identifier.as_string(cur))
    return ScoreReport(
        str(plan.table),
        str(plan.into),
        plan.function.name,
        plan.options.model,
        tally.done - tally.errors,
        nulls,
        seconds,
        plan.version,
        tally.errors,
        gone,
        changed,
        state,
        ledger.job,
    )
