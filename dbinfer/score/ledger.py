"""What a job says of itself in the database (dbinfer.jobs), and whether somebody wants it to end."""

from __future__ import annotations

import json
from dataclasses import dataclass

from psycopg2.extensions import connection as Connection

from dbinfer.score.plan import Plan
from dbinfer.sqlfiles import read


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
