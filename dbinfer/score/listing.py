"""jobs and cancel_job: the jobs of dbinfer score, as the database knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbinfer.connection import session
from dbinfer.report import Report
from dbinfer.sqlfiles import read


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
