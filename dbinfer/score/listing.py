"""Jobs as the database knows them: what a job says of itself, the list of all, and how to end one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import connection as Connection

from dbinfer.base.report import Report
from dbinfer.database.connection import session
from dbinfer.database.sql import read
from dbinfer.score.statements import Plan


@dataclass
class Tally:
    """How far a job is: rows done (with those that are bad), rows that there are, bad ones, the last reason."""

    done: int = 0
    total: int = 0
    errors: int = 0
    last_error: str | None = None


class Ledger:
    """The row of one job; the connection is its own, and every word is a transaction of its own."""

    def __init__(self, conn: Connection, plan: Plan, connections: int) -> None:
        self._conn = conn
        facts = {
            "source": str(plan.table),
            "target": str(plan.into),
            "function": plan.function.name,
            "model": plan.model,
            "version": plan.version,
            "connections": connections,
        }
        with conn.cursor() as cur:
            cur.execute(read("client/job_begin.sql"), {"facts": json.dumps(facts)})
            number, began = cur.fetchone() or (0, None)
        self.job = int(number)
        self.began = str(began)
        self.connections = connections

    def tell(self, tally: Tally, state: str = "running") -> bool:
        """Write down how far the job is; return whether it shall end."""
        values = {"job": self.job, "state": state} | vars(tally)
        with self._conn.cursor() as cur:
            cur.execute(read("client/job_tell.sql"), values)
            return bool((cur.fetchone() or (False,))[0])


@dataclass(frozen=True)
class JobsReport(Report):
    """Jobs, the last one first.

    Attributes:
        jobs: one dict a job, with the columns of dbinfer.jobs.
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
    """List the jobs that the caller may see: his own, for an administrator all."""
    with session(dsn, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(read("client/jobs.sql"), {"limit": limit})
        return JobsReport(tuple(row[0] for row in cur.fetchall()))


def cancel_job(job: int, dsn: str | None = None) -> CancelReport:
    """Let a job end after its current batch; what is scored stays.

    Raises:
        DataError: there is no such job, or it is not running.
    """
    with session(dsn, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute("SELECT dbinfer.cancel_job(%s)", (job,))
        return CancelReport(job)
