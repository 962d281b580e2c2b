"""usage: who scored how many rows with which version, and when last; what drop looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one, session
from dbinfer.errors import RegistryError
from dbinfer.report import Report
from dbinfer.sqlfiles import read

UNUSED_DAYS = 30
MAY_KEEP = "SELECT pg_catalog.has_function_privilege('dbinfer._keep_usage()', 'EXECUTE')"


@dataclass(frozen=True)
class UsageReport(Report):
    """Who used what.

    Attributes:
        since: from when on rows are counted, as ISO 8601; None where they are not.
        usage: one dict per model, version and role, with the columns of dbinfer.usage; for administrators also one per
            version that nobody has used, with role and last_used None.
    """

    since: str | None
    usage: tuple[dict[str, Any], ...]


def usage(model: str | None = None, dsn: str | None = None) -> UsageReport:
    """List who used what: the caller's own use, for an administrator all; who may also keeps a copy in the database.

    Args:
        model: its name; None: all models.
    """
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(MAY_KEEP)
        if one(cur):
            cur.execute("SELECT dbinfer._keep_usage()")
        cur.execute("SELECT dbinfer._usage_since()")
        since = one(cur)
        cur.execute(read("client/usage.sql"), {"model": model})
        rows = tuple(row[0] for row in cur.fetchall())
        return UsageReport(since.isoformat() if since else None, rows)


def check_unused(cur: Cursor, model: str, version: int | None, days: int = UNUSED_DAYS) -> None:
    """Raise where somebody has used a version, or any of the model, within so many days.

    Raises:
        RegistryError: says who, when and how much.
    """
    cur.execute(read("client/usage_recent.sql"), {"model": model, "version": version, "days": days})
    found = cur.fetchall()
    if found:
        told = ", ".join(
            f"{role} ({rows} rows of {model}@{number}, last on {day})" for number, role, rows, day in found
        )
        name = model if version is None else f"{model}@{version}"
        raise RegistryError(
            f"{name} was used in the last {days} days: by {told}",
            f"To drop it all the same: dbinfer drop {name} --force. Who used what: dbinfer usage --model {model}",
        )
