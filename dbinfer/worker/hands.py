"""A hand claims a batch of a job, reads its images, scores them, and writes what came out in one transaction."""

from __future__ import annotations

import time
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.database.connection import sentence
from dbinfer.database.copy import Decoder
from dbinfer.database.platform import detect
from dbinfer.images import stores
from dbinfer.score.shared import END, Claim, Claims, SharedJob, look, shared_jobs
from dbinfer.score.statements import Bound, Plan, Range
from dbinfer.score.tables import prepare
from dbinfer.score.workers import BY_INDEX, ONE_BY_ONE, PARTS, Pace, never_merge
from dbinfer.worker.lane import Lane, gone, heard, hears, listen
from dbinfer_udf.errors import UdfError
from dbinfer_udf.session.outside import Fetched
from dbinfer_udf.store.reader import Reader

IDLE = 0.5  # seconds between two looks for work
AGAIN = 30.0  # seconds until a job is tried again that could not be worked on
MOST_BYTES = 64 << 20  # of images that are read at once
FIRST_ROWS = 64
TURN = 0.02  # seconds of a turn in scoring, after which a request may come first
MOST_PLANS = 16
MOST_ROWS = 256  # of a turn
SUSPECT = 3  # a batch that so many workers have had is scored in the engine, which survives any image

# What marks the row, its key, the image or the text of its reference
Row = tuple[str | None, Bound, bytes | None]


class LostError(Exception):
    """Another worker has the batch now."""


class Hand:
    """Works on one batch after another."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._plans: dict[int, tuple[Plan, Pace]] = {}
        self._shunned: dict[int, float] = {}
        self._bytes = float(MOST_BYTES / FIRST_ROWS)  # of an image, as they came lately
        self._seconds = TURN  # of a row
        self._kept = 0.0
        self._reader = Reader()
        self._heard: set[str] = set()

    def serve(self, conn: Connection) -> None:
        """Work until told to stop, or until the lane's job has ended."""
        listening, listens = set[str](), hears(conn)
        self._heard = set()
        while not self._lane.stop.is_set():
            jobs = [job for job in shared_jobs(conn) if self._lane.job in (None, job.number)]
            if not jobs and self._lane.job is not None and look(conn, self._lane.job)[0] != "running":
                return
            # a step of each, so that no job waits for another to end
            worked = [self._work(conn, job) for job in jobs]
            for channel in {job.options.channel for job in jobs if listens and job.options.watch} - listening:
                listen(conn, channel)
                listening.add(channel)
            self._heard = set() if any(worked) else heard(conn, IDLE, self._lane.stop)

    def _work(self, conn: Connection, job: SharedJob) -> bool:
        """Do one step of a job; return whether there may be more to do at once."""
        if self._shunned.get(job.number, 0.0) > time.monotonic():
            return False
        try:
            plan, pace = self._planned(conn, job)
            claims = Claims(conn, job.number, self._lane.lease)

            def size(left: int) -> int:
                pace.left(left)
                return pace.size

            claim = claims.next(plan, size, job.options.channel in self._heard)
            if isinstance(claim, str):
                return claim == "again"
            self._kept, begin = time.monotonic(), time.monotonic()
            self._score(conn, plan, claims, claim)
            pace.measured(claim.keys.rows, time.monotonic() - begin)
        except LostError:
            self._lane.say(lost=1)
        except (DataError, UdfError, psycopg2.Error) as err:
            # of the only job: the worker ends with this reason. Of one among many: others go on
            if self._lane.job is not None or gone(err):
                raise
            told = sentence(err) if isinstance(err, psycopg2.Error) else err
            self._lane.say(note=f"job {job.number}: {told.message}")
            self._shunned[job.number] = time.monotonic() + AGAIN
            self._plans.pop(job.number, None)
            return False
        return True

    def _planned(self, conn: Connection, job: SharedJob) -> tuple[Plan, Pace]:
        if job.number not in self._plans:
            with conn, conn.cursor() as cur:
                plan = prepare(cur, job.table, job.predictions, job.options, detect(conn))
                if plan.marks:
                    raise DataError(
                        f"{plan.into} is a table of a job that follows, for which workers cannot score",
                        "Run dbinfer score --follow, or name another table with --predictions.",
                    )
                never_merge(cur, plan, local=True)
                cur.execute(plan.total(False))
                (total,) = cur.fetchone() or (0,)
            floor = 0 if plan.ordered else total // PARTS
            hands = 2 * self._lane.concurrency
            pace = Pace(job.options.batch, floor, total, hands, max(1, plan.platform.segments))
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[job.number] = plan, pace
        return self._plans[job.number]

    def _score(self, conn: Connection, plan: Plan, claims: Claims, claim: Claim) -> None:
        spec = self._lane.spec(conn, str(plan.reference), claim.tries >= SUSPECT)
        scored: list[Any] = []
        bad: list[tuple[Bound, str]] = []
        begin, low, ends = time.monotonic(), claim.keys.low, False
        while not ends:
            most = max(1, int(MOST_BYTES / self._bytes))
            found = read(conn, plan, plan.images(Range(low, claim.keys.high), most, claim.retry))
            ends = len(found) < most
            if found:
                low = found[-1][1]
                self._bytes = max(1.0, sum(len(img or b"") for *_, img in found) / len(found))
            images = self._images(conn, plan, found)
            for row, result, problem in self._results(spec, plan, (claims, claim), found, images):
                mark, key, img = row
                if problem and plan.options.on_error != "null":
                    bad.append((key, problem))
                    if plan.options.on_error == "error":
                        ends = True
                        break
                else:
                    scored.append((key, mark, img is None, as_text(result)))
        write(conn, plan, claim, (scored, bad, time.monotonic() - begin, self._lane.lease))
        self._lane.say(rows=len(scored), errors=len(bad))

    def _images(self, conn: Connection, plan: Plan, found: list[Row]) -> Fetched | None:
        """Let the images be fetched to which the rows refer; None where the rows have them."""
        if not plan.refers:
            return None
        with conn.cursor() as cur:
            settings = stores.here(cur)
        references = [None if text is None else str(bytes(text), "utf-8") for *_, text in found]
        return Fetched(self._reader, settings, references)

    def _results(
        self,
        spec: Any,
        plan: Plan,
        held: tuple[Claims, Claim],
        found: list[Row],
        fetched: Fetched | None,
    ) -> Any:
        """Yield each row with its result and what is wrong with it, scored in turns with the other hands."""
        lane, word = self._lane, plan.function.word
        k = plan.options.top if plan.function.k else None
        images = [img for *_, img in found]
        if fetched is not None and found:
            first = fetched.take(0)[0]
        else:
            first = next((img for img in images if img is not None), None)

        def keep() -> None:
            self._keep(*held)

        with lane.turn(keep):
            together = lane.outside.rows_at_once(spec, word, first)
        done = 0
        while done < len(images):
            keep()
            count = max(together, min(MOST_ROWS, int(TURN / self._seconds)) // together * together)
            part, wrong = images[done : done + count], [""] * count
            if fetched is not None:
                for place in range(len(part)):
                    keep()
                    part[place], wrong[place] = fetched.take(done + place)
                    fetched.drop(done + place)
            with lane.turn(keep):
                begin = time.monotonic()
                results = lane.outside.score(spec, word, part, k)
                self._seconds = max(1e-6, (time.monotonic() - begin) / len(results))
            for row, (result, problem), missing in zip(found[done:], results, wrong, strict=False):
                yield row, result, missing or problem
            done += count

    def _keep(self, claims: Claims, claim: Claim) -> None:
        if time.monotonic() - self._kept < self._lane.lease / 3:
            return
        self._kept = time.monotonic()
        if not claims.keep(claim):
            raise LostError


def as_text(result: Any) -> str | None:
    """Return a result as the input function of its type takes it."""
    return "\\x" + result.hex() if isinstance(result, bytes) else result


def read(conn: Connection, plan: Plan, query: sql.Composable) -> list[Row]:
    """Return the rows of plan.images; in the binary form of COPY, which neither side turns into digits."""
    found: list[Row] = []

    def take(values: list[bytes | None]) -> None:
        mark, *key, img = values
        keys = [text.decode() for text in key if text is not None]
        found.append((None if mark is None else mark.decode(), keys, img))

    with conn, conn.cursor() as cur:
        if plan.platform.mpp:
            never_merge(cur, plan, local=True)
            cur.execute(query)
            return [(mark, key, _as_bytes(img)) for mark, *key, img in cur.fetchall()]
        if plan.ordered:
            cur.execute(BY_INDEX + ONE_BY_ONE)
        copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query).as_string(cur)
        cur.copy_expert(copy, Decoder(take))
    return found


def _as_bytes(img: memoryview | str | None) -> bytes | None:
    """Return an image, or the text of its reference, as COPY gives it."""
    if img is None:
        return None
    return img.encode() if isinstance(img, str) else bytes(img)


IDLE_SQL = "SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', %s, true)"
GONE = "another worker has batch"


def write(
    conn: Connection, plan: Plan, claim: Claim, found: tuple[list[Any], list[Any], float, float]
) -> None:
    """Write results, bad rows and progress in one transaction, if the batch is still this worker's.

    Raises:
        LostError: it is not; nothing is written.
    """
    scored, bad, seconds, lease = found
    try:
        with conn, conn.cursor() as cur:
            # a worker that is stopped in between must not keep others from these rows for ever
            cur.execute(IDLE_SQL, (f"{max(1, int(lease * 500))}ms",))
            never_merge(cur, plan, local=True)
            for name in plan.targets:
                name.require_own(cur, here=plan.platform.mpp)
            if claim.retry:
                cur.execute(plan.retry(claim.keys))
            rows = 0
            if scored:
                if plan.ordered and not plan.platform.mpp:
                    cur.execute(BY_INDEX + ONE_BY_ONE)
                cur.execute(plan.store(scored))
                rows = cur.rowcount
            for key, reason in bad:
                cur.execute(plan.bad(key, reason))
            reason = f"row {', '.join(bad[-1][0])}: {bad[-1][1]}" if bad else None
            cur.execute(END, (claim.job, claim.number, claim.token, rows, len(bad), reason, seconds))
    except psycopg2.errors.ObjectNotInPrerequisiteState as err:
        if GONE not in str(err):
            raise
        raise LostError from err
