"""The demo's questions to the database."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from dbinfer.connection import session
from dbinfer.platform import detect
from dbinfer.sqlfiles import read

SPEED = "SELECT count(dbinfer.classify(img, 'digits')) FROM many_images"


def ask(dsn: str | None, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of sql/demo/NAME.sql; bytea as bytes."""
    with session(dsn) as conn, conn.cursor() as cur:
        cur.execute(detect(conn).adapt(read(f"demo/{name}.sql")))
        if cur.description is None:
            return []
        return [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in cur.fetchall()]


@dataclass(frozen=True)
class Speed:
    """One measured statement.

    Attributes:
        images: rows scored; seconds: of the statement, processes starting included.
        shares: rows that each process scored.
    """

    images: int
    seconds: float
    shares: list[int]


def speed(dsn: str | None) -> Speed:
    """Score many_images and say how long it took and how many processes shared the rows."""
    with session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        cur.execute(detect(conn).adapt(read("demo/many.sql")))
        cur.execute("ANALYZE many_images")
        shares = _segment_shares(cur) if detect(conn).mpp else _process_shares(cur)
        begin = time.monotonic()
        cur.execute(SPEED)
        row = cur.fetchone()
        return Speed(row[0] if row else 0, time.monotonic() - begin, shares)


def _segment_shares(cur: Any) -> list[int]:
    cur.execute("SELECT count(*) FROM many_images GROUP BY gp_segment_id ORDER BY gp_segment_id")
    return [int(row[0]) for row in cur.fetchall()]


def _process_shares(cur: Any) -> list[int]:
    """Return the rows of the scan that each process took, the leader's first; as EXPLAIN ANALYZE counts them."""
    cur.execute(f"EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {SPEED}")
    explained = cur.fetchone()[0]
    return _shares(json.loads(explained) if isinstance(explained, str) else explained)


def _shares(explained: list[dict[str, Any]]) -> list[int]:
    plan = explained[0]["Plan"]
    while plan.get("Plans"):
        plan = plan["Plans"][0]
    workers = [int(worker["Actual Rows"]) for worker in plan.get("Workers", [])]
    # Actual Rows is the mean over the loops, and each process counts as one
    total = round(plan["Actual Rows"] * plan["Actual Loops"])
    return [share for share in [total - sum(workers), *workers] if share]
