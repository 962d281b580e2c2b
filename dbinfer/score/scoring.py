"""score: a table of images into a table of results, in batches that can be killed at any moment, or in one
transaction; and the list of such jobs, as the database knows them.
"""

from __future__ import annotations

import json
import queue
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2 import errors, sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, DbinferError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import execute_patiently, one, sentence, session
from dbinfer.database.platform import Platform, detect
from dbinfer.database.sql import TableName, column, read
from dbinfer.images.stores import image_of
from dbinfer.score import shared
from dbinfer.score.files import IMAGE_STATES
from dbinfer.score.options import Arguments, ScoreOptions, ScoreReport, choose
from dbinfer.score.shared import facts_of
from dbinfer.score.statements import Plan, columns_of
from dbinfer.score.tables import ask_once, errors_name, make_tables, prepare, target_kind
from dbinfer.score.workers import Crew, Outcome, never_merge, open_more, processes, too_many
from dbinfer_udf.host.limits import cores

BEAT = 1.0  # seconds between two updates of the ledger


@dataclass
class Tally:
    """How far a job has come: rows done (bad ones included), rows in all, bad rows, and the last reason.

    Attributes:
        outdated, removed, reused: see ScoreReport.
    """

    done: int = 0
    total: int = 0
    errors: int = 0
    last_error: str | None = None
    outdated: int = 0
    removed: int = 0
    reused: int = 0


class Ledger:
    """The row of one job in the database, on a connection of its own; each update is a transaction."""

    def __init__(self, conn: Connection, plan: Plan, connections: int) -> None:
        self._conn = conn
        facts = facts_of(plan) | {"connections": connections}
        with conn.cursor() as cur:
            cur.execute(read("client/job_begin.sql"), {"facts": json.dumps(facts)})
            number, began = cur.fetchone() or (0, None)
        self.job = int(number)
        self.began = str(began)
        self.connections = connections

    def tell(self, tally: Tally, state: str = "running") -> bool:
        """Record how far the job has come; return whether it should end."""
        values = {"job": self.job, "state": state} | vars(tally)
        with self._conn.cursor() as cur:
            cur.execute(read("client/job_tell.sql"), values)
            return bool((cur.fetchone() or (False,))[0])


class Scoring:
    """A job to iterate over: one item for each row, as it is scored; `len` is the number of rows.

    The job begins with the first item. Leaving the loop ends it after the current batch. Afterwards `report` says what
    it did.
    """

    def __init__(
        self,
        table: str = "images",
        predictions: str = "predictions",
        options: ScoreOptions | None = None,
        dsn: str | None = None,
    ) -> None:
        self._options = options or ScoreOptions()
        self._options.check()
        self._names, self._dsn = (table, predictions), dsn
        self.report: ScoreReport | None = None

    def __len__(self) -> int:
        with session(self._dsn) as conn, conn.cursor() as cur:
            return self._prepare(cur)[1]

    def _prepare(self, cur: Cursor) -> tuple[Plan, int, str]:
        """Make the tables; return the plan, the number of rows to score, and a note."""
        plan = prepare(cur, *self._names, self._options, detect(cur.connection))
        note = make_tables(cur, plan)
        never_merge(cur, plan)
        cur.execute(plan.total(self._options.retry_errors))
        return plan, int(one(cur)), note

    def __iter__(self) -> Iterator[Progress]:
        before = 0
        for progress in self.batches():
            yield from (progress for _ in range(progress.done - before))
            before = progress.done

    def batches(self) -> Iterator[Progress]:
        """Yield the progress after each batch; at the end, set `report`."""
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
            if plan.platform.tables_only:
                yield from self._share(conn, plan, total)
                return
            feeding, *scoring = open_more(stack, self._dsn, wanted + 1)
            for each in (feeding, *scoring):
                with each, each.cursor() as cur:
                    never_merge(cur, plan)
            ledger = Ledger(conn, plan, len(scoring))
            yield from self._run(conn, ledger, Crew(plan, feeding, scoring, total), Tally(total=total))

    def _share(self, conn: Connection, plan: Plan, total: int) -> Iterator[Progress]:
        """Let workers score: one on this host, and whatever others this role runs."""
        job, began, own = begin_or_join(conn, plan, self._options.connections or cores(), total)
        begin, tally = time.monotonic(), Tally(total=total)
        try:
            with shared.ending_with(job if own else None, self._dsn):
                for progress in shared.wait_for(conn, job, self._dsn, self._options.connections):
                    tally = Tally(progress.done, progress.total or 0, progress.errors, progress.note or None)
                    yield progress
        except (KeyboardInterrupt, GeneratorExit):
            shared.cancel(conn, job)
            raise
        state, _ = shared.look(conn, job)
        if state == "failed":
            reason, most = tally.last_error or "", self._options.most_errors
            passed = most is not None and tally.errors > most
            raise too_many(plan, reason, tally.errors) if passed else DataError(reason)
        self.report = _report(conn, plan, (job, began), tally, (state, time.monotonic() - begin))

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
            # what was written since the last look
            for outcome in crew.left():
                _count(tally, outcome)
            with suppress(psycopg2.Error):
                ledger.tell(tally, state)
        job = ledger.job, ledger.began
        self.report = _report(conn, plan, job, tally, (state, time.monotonic() - begin))


TRIES, PAUSE = 20, 0.2


def begin_or_join(conn: Connection, plan: Plan, connections: int, total: int) -> tuple[int, str, bool]:
    """Begin a job that workers share, or join the one of this role that does the same.

    Args:
        conn: in autocommit mode.

    Returns:
        Its number, the moment, and whether it is this client's: begun, or lost by whoever had begun it.
    """
    for left in reversed(range(TRIES)):
        with conn.cursor() as cur:
            cur.execute("SELECT pg_catalog.clock_timestamp()")
            now = str(one(cur))
        if (found := shared.running(conn, plan)) is not None:
            return found, now, shared.look(conn, found)[0] == "lost"
        try:
            ledger = Ledger(conn, plan, connections)
        except errors.ObjectInUse:
            # of another kind; or one that begins at this moment
            if not left:
                raise
            time.sleep(PAUSE)
            continue
        shared.share(conn, ledger.job, plan, total)
        return ledger.job, ledger.began, True
    raise AssertionError


def _listen(ledger: Ledger, crew: Crew, tally: Tally) -> Any:
    """Yield the progress until all threads are done; return whether the job was cancelled."""
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
    # Rows may have been added meanwhile
    tally.total = max(tally.total, tally.done)
    tally.errors += event.errors
    tally.outdated += event.outdated
    tally.removed += event.removed
    tally.reused += event.reused
    tally.last_error = event.reason or tally.last_error


def _report(
    conn: Connection, plan: Plan, job: tuple[int, str], tally: Tally, ended: tuple[str, float]
) -> ScoreReport:
    (number, began), (state, seconds) = job, ended
    with conn.cursor() as cur:
        cur.execute(plan.end(began))
        gone, changed, nulls = cur.fetchone() or (0, 0, 0)
        if tally.done:
            cur.execute("ANALYZE " + plan.into.identifier.as_string(cur))
    return ScoreReport(
        table=str(plan.table),
        into=str(plan.into),
        function=plan.function.name,
        model=plan.options.model,
        rows=tally.done - tally.errors,
        nulls=nulls,
        seconds=seconds,
        version=plan.version,
        errors=tally.errors,
        gone=gone,
        changed=changed,
        outdated=tally.outdated,
        removed=tally.removed,
        reused=tally.reused,
        state=state,
        job=number,
    )


def score_at_once(
    table: str,
    into: str,
    options: ScoreOptions,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> ScoreReport:
    """Score the rows of a table in one transaction; the images stay in the database, all its cores share the work.

    The result is made in a scratch table that takes the name at the end, so readers of the old table need not wait.

    Args:
        table, into: names of tables as a user writes them.

    Raises:
        DataError: `into` exists (without replace or append), or the server refused: a bad image, an unknown model.
        UsageError: names that are none, or values that do not fit.
    """
    # Not catalog_only: `where` is the user's SQL, which means what their search_path says
    with session(dsn) as conn, conn.cursor() as cur:
        platform = detect(conn)
        if platform.tables_only:
            raise DataError(
                "workers score a batch a transaction, and no table at once",
                "Leave out --atomic, --replace and --append.",
            )
        job = _Job(cur, table, into, options, platform)
        progress(Progress("scoring"))
        begin = time.monotonic()
        job.run()
        rows, seconds = cur.rowcount, time.monotonic() - begin
        cur.execute(job.format("SELECT pg_catalog.count(*) FROM {scratch} WHERE {first} IS NULL"))
        nulls = one(cur)
        job.move()
        names = str(job.table), str(job.into), job.function.name
        return ScoreReport(*names, options.model, rows, nulls, seconds)


class _Job:
    """One scoring: its names, checked, and its statements."""

    def __init__(self, cur: Cursor, table: str, into: str, options: ScoreOptions, platform: Platform) -> None:
        self.cur, self.options, self.platform = cur, options, platform
        self.table = TableName.parse(table).resolve(cur)
        self.into = TableName.parse(into).resolve(cur)
        # Random, because two clients may score into one table; in its schema, because a rename does not move it
        self.scratch = TableName(self.into.schema, f"dbinfer_score_{uuid.uuid4().hex[:12]}")
        self.key, self.img = sql.Identifier(column(options.key)), sql.Identifier(column(options.column))
        self.function = choose(cur, options.function, options.model)
        self.arguments = Arguments(options.model, options.on_error or "error", options.top)
        img = columns_of(cur, self.table).get(column(options.column))
        # If the column is missing, the statement itself says so
        self.kind = img.type if img is not None else "bytea"
        if img is not None:
            ask_once(cur, self.table, img, self.function, self.arguments)
        self.exists = target_kind(cur, self.table, self.into) is not None
        self.append = self.exists and options.append
        if self.exists and not (options.append or options.replace):
            raise DataError(
                f"table {self.into} already exists",
                "Use --replace to replace it, --append to add the missing rows, or --predictions for another table.",
            )

    def format(self, text: str, **more: sql.Composable) -> sql.Composed:
        """Return SQL with this scoring's names filled in."""
        names: dict[str, sql.Composable] = {
            "table": self.table.identifier,
            "into": self.into.identifier,
            "scratch": self.scratch.identifier,
            "name": sql.Identifier(self.into.name),
            "first": sql.Identifier(self.function.columns[0]),
            "key": self.key,
        }
        return sql.SQL(text).format(**(names | more))

    def statement(self) -> sql.Composed:
        """Return the statement that scores into the scratch table."""
        return self.format(
            self.platform.adapt(read("client/score.sql")),
            columns=self.function.parts(sql.SQL("result")),
            call=self.function.call(
                image_of(self.kind, sql.SQL("source.{}").format(self.img), self.arguments.on_error),
                self.arguments,
            ),
            where=sql.SQL(self.options.where),
            missing=self.format(read("client/score_missing.sql") if self.append else "true"),
        )

    def run(self) -> None:
        """Score all rows.

        Raises:
            DataError: an image is bad.
        """
        try:
            execute_patiently(self.cur, self.statement())
        except psycopg2.Error as err:
            if err.pgcode not in IMAGE_STATES:
                raise
            raise DataError(
                sentence(err).message,
                "Use --on-error null to store NULL for such images. Without --atomic and --replace "
                f"they go into the table {errors_name(self.into.name)}, with their keys and reasons.",
            ) from err

    def move(self) -> None:
        """Give the result its name, or add its rows to the table of that name."""
        if self.append:
            self.into.require_own(self.cur)
            columns = sql.SQL(", ").join([self.key, *map(sql.Identifier, self.function.columns)])
            self.cur.execute(self.format(read("client/score_append.sql"), columns=columns))
            return
        if self.exists:
            self._drop()
        self.cur.execute(self.format("ALTER TABLE {scratch} RENAME TO {name}"))
        self.cur.execute(self.format("ANALYZE {into}"))

    def _drop(self) -> None:
        try:
            self.cur.execute(self.format("DROP TABLE {into}"))
        except errors.DependentObjectsStillExist as err:
            raise DataError(
                f"table {self.into} cannot be replaced: {err.diag.message_detail}",
                "Drop the objects that depend on it, or add to it with --append.",
            ) from err


def score(
    table: str = "images",
    predictions: str = "predictions",
    options: ScoreOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> ScoreReport:
    """Score the rows of a table that this version of the model has not scored; the images stay in the database.

    Each batch is a transaction: scored rows stay, whatever happens, and the next call continues. Two tables are made:
    `predictions` (key, model, version, result, scored_at), and `predictions`_errors with the reasons of bad images.

    Args:
        table, predictions: names of tables as a user writes them.

    Raises:
        DataError: `predictions` has another shape, rows have no key, too many are bad, or the server refused.
        UsageError: names that are none, or values that do not fit.
    """
    options = options or ScoreOptions()
    options.check()
    if options.at_once or _appends(table, predictions, options, dsn):
        return score_at_once(table, predictions, options, dsn, progress)
    scoring = Scoring(table, predictions, options, dsn)
    for event in scoring.batches():
        progress(event)
    assert scoring.report is not None
    return scoring.report


def _appends(table: str, into: str, options: ScoreOptions, dsn: str | None) -> bool:
    """Return whether to append to a table that no job made: one of 0.1.0, or a user's own."""
    with session(dsn) as conn, conn.cursor() as cur:
        names = (TableName.parse(name).resolve(cur) for name in (table, into))
        return target_kind(cur, *names) == "other" and options.append


@dataclass(frozen=True)
class JobsReport(Report):
    """Jobs, the latest first.

    Attributes:
        jobs: one dict per job, with the columns of dbinfer.jobs.
    """

    jobs: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class CancelReport(Report):
    """A job that was told to end.

    Attributes:
        job: its number.
    """

    job: int


def jobs(limit: int = 20, dsn: str | None = None) -> JobsReport:
    """List the jobs that the caller may see: their own, or all of them for an administrator."""
    with session(dsn, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(read("client/jobs.sql"), {"limit": limit})
        return JobsReport(tuple(row[0] for row in cur.fetchall()))


def cancel_job(job: int, dsn: str | None = None) -> CancelReport:
    """End a job after its current batch; scored rows stay.

    Raises:
        DataError: there is no such job, or it is not running.
    """
    with session(dsn, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute("SELECT dbinfer.cancel_job(%s)", (job,))
        return CancelReport(job)
