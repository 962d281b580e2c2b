"""Jobs whose batches workers claim: what a worker asks of the database, and a client that waits for the workers.

Each question is one statement and one transaction, without a state of the session, so a pooler may stand between.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, DbinferError
from dbinfer.base.progress import Progress
from dbinfer.database.connection import one, resolve, sentence, session
from dbinfer.database.sql import read
from dbinfer.score.options import ScoreOptions
from dbinfer.score.statements import Plan, Range
from dbinfer.score.workers import next_range

# Options of a job that are its client's alone
OF_THE_CLIENT = ("connections", "replace", "append", "atomic", "model")
ASK = "dbinfer._ask('dbinfer worker')"


@dataclass(frozen=True)
class SharedJob:
    """A job on which workers of its role work: its number, and what they make the plan of."""

    number: int
    table: str
    predictions: str
    options: ScoreOptions


def facts_of(plan: Plan) -> dict[str, Any]:
    """Return what the list of jobs says of a job."""
    return {
        "source": str(plan.table),
        "target": str(plan.into),
        "function": plan.function.name,
        "model": plan.model,
        "version": plan.version,
    }


def running(conn: Connection, plan: Plan) -> int | None:
    """Return the job of this role that workers share and that does what this plan says; None where there is none."""
    wanted = facts_of(plan)
    for job, facts, _, cancelled in _listed(conn):
        if not cancelled and all(facts.get(name) == value for name, value in wanted.items()):
            return job
    return None


def share(conn: Connection, job: int, plan: Plan, total: int) -> None:
    """Let workers claim the batches of a job that has just begun."""
    options = {f.name: getattr(plan.options, f.name) for f in fields(plan.options)}
    said = {name: value for name, value in options.items() if name not in OF_THE_CLIENT}
    # by their names: another client's default may be another
    said |= {"function": plan.function.name, "model": plan.reference}
    with conn.cursor() as cur:
        cur.execute(
            f"SELECT dbinfer._share_job(%s, %s::pg_catalog.jsonb, %s, %s, {ASK})",
            (job, json.dumps(said), plan.options.most_errors, total),
        )


def shared_jobs(conn: Connection) -> list[SharedJob]:
    """Return the running jobs of this role, the first one first."""
    return [
        SharedJob(job, facts["source"], facts["target"], ScoreOptions(**options))
        for job, facts, options, _ in _listed(conn)
    ]


def _listed(conn: Connection) -> Iterator[tuple[int, dict[str, Any], dict[str, Any], bool]]:
    with conn.cursor() as cur:
        cur.execute(f"SELECT dbinfer._shared_jobs({ASK})")
        for (text,) in cur.fetchall():
            each = json.loads(text)
            yield each["job"], each["facts"], each["options"], each["cancelled"]


@dataclass(frozen=True)
class Claim:
    """A batch that a worker holds as long as nobody else has its token; `tries`: how many workers have had it."""

    job: int
    number: int
    token: str
    keys: Range
    retry: bool
    tries: int


class Claims:
    """What one thread of a worker asks about one job.

    Args:
        conn: in autocommit mode.
        lease: seconds after which others take a batch over, unless it is kept.
    """

    def __init__(self, conn: Connection, job: int, lease: float) -> None:
        self._conn, self._job, self._lease = conn, job, lease

    def next(self, plan: Plan, size: Any, look: bool = False) -> Claim | str:
        """Return a batch; or `again`, `wait`, or how the job has ended.

        Args:
            look: a job that watches is to look now, whatever its interval.
            size: returns how many rows the next batch is to have, given how many are open.
        """
        token = secrets.token_hex(16)
        found = json.loads(
            self._ask("dbinfer._claim_batch(%s, %s, %s, %s, {})", (self._job, token, self._lease, look))
        )
        if found["state"] == "batch":
            keys = Range(found["low"], found["high"], found["rows"])
            return Claim(self._job, found["number"], token, keys, retry=found["retry"], tries=found["tries"])
        if found["state"] != "cut":
            return str(found["state"])
        return self._cut(plan, found, size((found["total"] or 0) - found["done"]), token)

    def _cut(self, plan: Plan, found: dict[str, Any], size: int, token: str) -> Claim | str:
        low, retry = found["low"], found["pass"] == 0 and plan.options.retry_errors
        begin = time.monotonic()
        keys = next_range(self._conn, plan, low, size, retry)
        if keys is None:
            looked = time.monotonic() - begin
            return str(
                self._ask(
                    "dbinfer._end_pass(%s, %s, %s::text[], %s, {})", (self._job, found["pass"], low, looked)
                )
            )
        number = self._ask(
            "dbinfer._cut_batch(%s, %s, %s::text[], %s::text[], %s, %s, %s, {})",
            (self._job, found["pass"], low, list(keys.high or ()), keys.rows, token, self._lease),
        )
        return "again" if number is None else Claim(self._job, number, token, keys, retry=retry, tries=1)

    def keep(self, claim: Claim) -> bool:
        """Go on with a batch; return whether it is still this worker's."""
        values = claim.job, claim.number, claim.token, self._lease
        return bool(self._ask("dbinfer._keep_batch(%s, %s, %s, %s, {})", values))

    def _ask(self, call: str, values: tuple[Any, ...]) -> Any:
        with self._conn.cursor() as cur:
            cur.execute("SELECT " + call.format(ASK), values)
            return one(cur)


END = "SELECT dbinfer._end_batch(%s, %s, %s, %s, %s, %s, %s, dbinfer._ask('dbinfer worker'))"
BEAT = 0.3  # seconds between two looks at a job


def wait_for(conn: Connection, job: int, dsn: str | None, connections: int | None) -> Iterator[Progress]:
    """Start a worker on this host, and yield the progress of all workers until the job has ended.

    Raises:
        DataError: the worker has ended before the job.
    """
    words = ["worker", "--job", str(job)]
    words += ["--concurrency", str(connections)] if connections else []
    with tempfile.TemporaryFile() as said, started(words, dsn, said) as worker:
        try:
            while True:
                done = worker.poll() is not None
                state, progress = look(conn, job)
                yield progress
                if state not in ("running", "lost"):
                    return
                if done:
                    raise _ended(said)
                time.sleep(BEAT)
        finally:
            # a client that is told to end has cancelled the job; the worker writes its batches and ends
            with suppress(ProcessLookupError):
                worker.terminate()
            worker.wait()


def started(words: list[str], dsn: str | None, said: Any) -> subprocess.Popen[bytes]:
    """Start a command of ours on the same database, in a process group of its own: a Ctrl-C is this process's."""
    environment = os.environ | {"DBINFER_DSN": resolve(dsn)}
    return subprocess.Popen(
        [sys.executable, "-m", "dbinfer", *words],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
    )  # fmt: skip


def _ended(said: Any) -> DataError:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    first = next(
        (line for line in lines if line.startswith("dbinfer: ")), lines[-1] if lines else "it says nothing"
    )
    hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), "")
    return DataError(f"the worker has ended before the job: {first.removeprefix('dbinfer: ')}", hint)


def look(conn: Connection, job: int) -> tuple[str, Progress]:
    """Return the state of a job, and how far it is; `note`: its last error, once it has failed."""
    with conn.cursor() as cur:
        cur.execute(
            "SELECT state, done, total, errors, last_error FROM dbinfer.jobs WHERE id OPERATOR(pg_catalog.=) %s",
            (job,),
        )
        state, done, total, errors, last = cur.fetchone() or ("lost", 0, None, 0, None)
    return state, Progress("scoring", done, total or None, "images", errors=errors, note=_note(state, last))


def _note(state: str, last: str | None) -> str:
    return last or "" if state == "failed" else ""


@contextmanager
def ending_with(job: int | None, dsn: str | None) -> Iterator[None]:
    """Where an error ends this client, end its job as failed, for all who work on it; None: the job is another's."""
    try:
        yield
    except (DbinferError, psycopg2.Error) as err:
        told = sentence(err) if isinstance(err, psycopg2.Error) else err
        if job is not None:
            with suppress(DbinferError), session(dsn, autocommit=True) as conn, conn.cursor() as cur:
                _, seen = look(conn, job)
                counts = {"done": seen.done, "total": seen.total, "errors": seen.errors, "reused": 0}
                said = {"job": job, "state": "failed", "last_error": told.message}
                cur.execute(read("client/job_tell.sql"), said | counts)
        raise


def cancel(conn: Connection, job: int) -> None:
    """End a job, whatever has become of the connection; batches of other hosts are still written."""
    with suppress(psycopg2.Error), conn.cursor() as cur:
        cur.execute("SELECT dbinfer.cancel_job(%s)", (job,))
        # a cancelled job gives no batch away: its state is set by whoever asks last
        cur.execute(f"SELECT dbinfer._claim_batch(%s, %s, 1, false, {ASK})", (job, secrets.token_hex(16)))
