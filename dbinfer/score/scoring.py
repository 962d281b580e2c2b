"""score: a table of images into a table of results, in batches that can be killed at any moment, or in one
transaction.
"""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psycopg2
from psycopg2 import errors, sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, DbinferError, UsageError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.database.connection import execute_patiently, one, sentence, session
from dbinfer.database.platform import Platform, detect
from dbinfer.database.sql import TableName, column, read
from dbinfer.score.files import IMAGE_STATES
from dbinfer.score.listing import Ledger, Tally
from dbinfer.score.options import Arguments, ScoreOptions, ScoreReport, choose
from dbinfer.score.statements import Plan, columns_of
from dbinfer.score.tables import ask_once, errors_name, make_tables, prepare, target_kind
from dbinfer.score.workers import Crew, Outcome, open_more, processes, too_many

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


def score_at_once(
    table: str,
    into: str,
    options: ScoreOptions,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> ScoreReport:
    """Score the rows of a table in one transaction; the images stay in the database, all its cores share the work.

    The result is made beside `into` and takes its name at the end, so that readers of an old one need not wait.

    Args:
        table, into: names of tables as a user writes them.

    Raises:
        DataError: `into` exists (with existing='refuse'), or the server refused: a bad image, an unknown model.
        UsageError: names that are none, or values that do not fit.
    """
    # Not catalog_only: `where` is the user's SQL, which means what their search_path says
    with session(dsn) as conn, conn.cursor() as cur:
        job = _Job(cur, table, into, options, detect(conn))
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
        # Random, because two may score into one table; in its schema, because a rename does not move it
        self.scratch = TableName(self.into.schema, f"dbinfer_score_{uuid.uuid4().hex[:12]}")
        self.key, self.img = sql.Identifier(column(options.key)), sql.Identifier(column(options.column))
        self.function = choose(cur, options.function, options.model)
        self.arguments = Arguments(options.model, options.on_error or "error", options.top)
        img = columns_of(cur, self.table).get(column(options.column))
        # What is not there the statement itself says
        if img is not None:
            ask_once(cur, self.table, img, self.function, self.arguments)
        self.exists = self._target_exists()
        self.append = self.exists and options.existing == "append"

    def _target_exists(self) -> bool:
        names = {"into": self.into, "table": self.table}
        self.cur.execute(
            read("client/target.sql"),
            {key: name.identifier.as_string(self.cur) for key, name in names.items()},
        )
        kind, source = self.cur.fetchone() or (None, False)
        if source:
            raise UsageError(
                f"--into names {self.into}, which is the table of images", "Choose another table."
            )
        # An ordinary table or a partitioned one
        if kind is not None and kind not in "rp":
            raise DataError(f"{self.into} is not a table", "Choose another name with --into.")
        if kind is not None and self.options.existing == "refuse":
            raise DataError(
                f"table {self.into} already exists",
                "Use --replace to replace it, --append to add the missing rows, or --into to choose another table.",
            )
        return kind is not None

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
            call=self.function.call(sql.SQL("source.{}").format(self.img), self.arguments),
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
    into: str = "predictions",
    options: ScoreOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> ScoreReport:
    """Score the rows of a table that this version of the model has not scored; the images stay in the database.

    Each batch is a transaction: what is scored stays, whatever happens, and the next call goes on. Two tables are made:
    `into` (key, model, version, result, scored_at), and `into`_errors with the reasons of bad images.

    Args:
        table, into: names of tables as a user writes them.

    Raises:
        DataError: `into` has another shape, rows have no key, too many are bad, or the server refused.
        UsageError: names that are none, or values that do not fit.
    """
    options = options or ScoreOptions()
    options.check()
    if options.at_once or _appends(table, into, options, dsn):
        return score_at_once(table, into, options, dsn, progress)
    scoring = Scoring(table, into, options, dsn)
    for event in scoring.batches():
        progress(event)
    assert scoring.report is not None
    return scoring.report


def _appends(table: str, into: str, options: ScoreOptions, dsn: str | None) -> bool:
    """Return whether to append to a table that no job has made: one of 0.1.0, or a user's own."""
    with session(dsn) as conn, conn.cursor() as cur:
        return target_kind(cur, table, into) == "other" and options.existing == "append"
