"""The command: it begins or joins a job, starts its lanes, and restarts those that crash."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from os import environ
from typing import Any

import platformdirs
import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, UsageError
from dbinfer.base.options import check, documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import one, resolve, session
from dbinfer.database.platform import detect
from dbinfer.score.options import ScoreOptions
from dbinfer.score.scoring import PAUSE, TRIES, begin_or_join
from dbinfer.score.shared import ending_with, look
from dbinfer.score.statements import Plan
from dbinfer.score.tables import make_tables, prepare
from dbinfer.score.workers import never_merge
from dbinfer_udf.host.limits import cores

CRASHES = 5  # of a lane within this worker, after which it ends


@documented
@dataclass(frozen=True)
class WorkerOptions:
    """How a worker scores."""

    concurrency: int | None = option(None, "How many processes score at once. Default: one a core.", least=1)
    job: int | None = option(None, "Work on this job alone, and end with it.", least=1)
    lease: float = option(
        30.0,
        "After so many seconds without a sign of life another worker takes over what this one holds.",
        metavar="SECONDS",
        least=1.0,
    )
    cache_dir: str | None = option(None, "Folder for model files. Default: in the user's folder of caches.")
    engine_dir: str | None = option(None, "Folder of the engine's sockets. Default: below /run or /tmp.")

    def check(self) -> None:
        """Raise UsageError for a value that is wrong."""
        check(self)
        for name, folder in (("--cache-dir", self.cache_dir), ("--engine-dir", self.engine_dir)):
            if folder and not folder.startswith("/"):
                raise UsageError(f"{name} is {folder!r}, but must be an absolute path")

    @property
    def cache(self) -> str:
        """Return the folder for model files."""
        return self.cache_dir or str(platformdirs.user_cache_path("dbinfer") / "models")


@dataclass(frozen=True)
class WorkerReport(Report):
    """What a worker did.

    Attributes:
        job: on which it worked alone; state: how that has ended.
        rows, errors: that this worker has scored; answers: to requests.
        lost: batches that others had taken over when this worker wanted to write them.
    """

    derived = ("images_per_second",)

    rows: int
    errors: int
    answers: int
    lost: int
    seconds: float
    job: int | None = None
    state: str | None = None

    @property
    def images_per_second(self) -> float:
        """Return rows / seconds."""
        return self.rows / self.seconds if self.seconds else 0.0


def worker(
    table: str | None = None,
    predictions: str = "predictions",
    scoring: ScoreOptions | None = None,
    options: WorkerOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> WorkerReport:
    """Score outside of the database: all jobs and requests of this role until told to stop, or one job until it ends.

    Args:
        table, predictions: the job that scores this table into that one; it is begun where none runs.
        scoring: what that job does.

    Raises:
        DataError: the job cannot be begun, or a lane cannot score.
        UsageError: values that do not fit.
    """
    options = options or WorkerOptions()
    options.check()
    own = False
    if table is not None:
        progress(Progress("counting the rows"))
        job, own = _joined(table, predictions, scoring or ScoreOptions(), options, dsn)
        options = replace(options, job=job)
    begin, counts = time.monotonic(), Counts()
    with ending_with(options.job if own else None, dsn), _lanes(options, dsn, counts) as lanes:
        try:
            lanes.listen(progress)
        except KeyboardInterrupt:
            if options.job is not None:
                raise
    state = None
    if options.job is not None:
        with session(dsn) as conn:
            state = look(conn, options.job)[0]
    return WorkerReport(**counts.found, seconds=time.monotonic() - begin, job=options.job, state=state)


def _joined(
    table: str, into: str, scoring: ScoreOptions, options: WorkerOptions, dsn: str | None
) -> tuple[int, bool]:
    """Return the job that scores a table into another, one that runs or a new one, and whether it is this worker's."""
    if scoring.at_once:
        raise UsageError("workers score a batch a transaction: leave out atomic and replace")
    scoring.check()
    with session(dsn) as conn:
        plan, total = _prepared(conn, table, into, scoring)
        conn.commit()
        conn.set_session(autocommit=True)
        job, _, own = begin_or_join(conn, plan, options.concurrency or cores(), total)
        return job, own


def _prepared(conn: Connection, table: str, into: str, scoring: ScoreOptions) -> tuple[Plan, int]:
    """Make the tables; return the plan, and how many rows are to be scored."""
    for left in reversed(range(TRIES)):
        with conn.cursor() as cur:
            plan = prepare(cur, table, into, scoring, detect(conn))
            try:
                make_tables(cur, plan)
            except (psycopg2.errors.DuplicateTable, psycopg2.errors.UniqueViolation):
                # two workers that start at once make the same tables
                conn.rollback()
                if not left:
                    raise
                time.sleep(PAUSE)
                continue
            never_merge(cur, plan, local=True)
            cur.execute(plan.total(scoring.retry_errors))
            return plan, int(one(cur))
    raise AssertionError


class Counts:
    """What all lanes have done."""

    def __init__(self) -> None:
        self.found = {"rows": 0, "errors": 0, "answers": 0, "lost": 0}

    def add(self, event: dict[str, Any]) -> None:
        """Add what a lane says."""
        for name in self.found:
            self.found[name] += event.get(name, 0)


class Lanes:
    """The processes that score. Each reads nothing from its input, and ends when that ends: with this process, too."""

    def __init__(self, options: WorkerOptions, dsn: str | None, counts: Counts) -> None:
        self._options, self._dsn, self._counts = options, resolve(dsn), counts
        self._events: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self.running: dict[int, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []
        self._crashes = 0
        self._concurrency = options.concurrency or cores()

    def start_all(self) -> None:
        """Start every lane."""
        for number in range(self._concurrency):
            self._start(number)

    def _start(self, number: int) -> None:
        values = asdict(self._options) | {"cache": self._options.cache, "concurrency": self._concurrency}
        lane = subprocess.Popen(
            [sys.executable, "-c", "from dbinfer.worker.process import main; main()", json.dumps(values)],
            env=environ | {"DBINFER_DSN": self._dsn}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self.running[number] = lane
        reader = threading.Thread(target=self._read, args=(number, lane), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _read(self, number: int, lane: subprocess.Popen[str]) -> None:
        assert lane.stdout is not None
        with lane.stdout as lines:
            for line in lines:
                with suppress(ValueError):  # a library's own words
                    self._events.put((number, json.loads(line)))
        self._events.put((number, None))

    def listen(self, progress: OnProgress) -> None:
        """Count what the lanes do until all have ended; DataError where one cannot score."""
        progress(Progress("scoring", 0, None, "images"))
        while self.running:
            number, event = self._events.get()
            if event is None:
                self._ended(number)
            elif "problem" in event:
                raise DataError(event["problem"], event.get("hint", ""))
            else:
                self._counts.add(event)
                found = self._counts.found
                done = found["rows"] + found["errors"] + found["answers"]
                progress(
                    Progress(
                        "scoring", done, None, "images", errors=found["errors"], note=event.get("note", "")
                    )
                )

    def _ended(self, number: int) -> None:
        status = _closed(self.running.pop(number))
        if status == 0:
            return
        self._crashes += 1
        if self._crashes > CRASHES:
            raise DataError(
                f"processes of this worker have crashed {self._crashes} times, the last one with status {status}",
                "See what its host says of it: dmesg, or the journal.",
            )
        self._start(number)

    def stop(self) -> None:
        """Let every lane write the batch that it has, and wait."""
        for lane in self.running.values():
            _close(lane)
        for lane in self.running.values():
            lane.wait()
        for reader in self._readers:
            reader.join()


def _close(lane: subprocess.Popen[str]) -> None:
    """Close a lane's input, at which it ends."""
    with suppress(OSError):
        assert lane.stdin is not None
        lane.stdin.close()


def _closed(lane: subprocess.Popen[str]) -> int:
    _close(lane)
    return lane.wait()


@contextmanager
def _lanes(options: WorkerOptions, dsn: str | None, counts: Counts) -> Iterator[Lanes]:
    lanes = Lanes(options, dsn, counts)
    try:
        lanes.start_all()
        yield lanes
    finally:
        lanes.stop()
