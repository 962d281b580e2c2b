"""Which planner planned: a test that names one asserts it, because ORCA silently leaves to the other what it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from asking import ask, rows
from psycopg2.extensions import connection as Connection

PLANNERS = {"ORCA": "on", "PostgreSQL-based": "off"}


class Shape(NamedTuple):
    """A statement of shapes.sql: its name, the one value that it gives, whether ORCA plans it."""

    name: str
    value: float
    orca: bool
    query: str


def shapes() -> list[Shape]:
    """Return the statements of shapes.sql."""
    parts = Path(__file__).with_name("shapes.sql").read_text().split("-- name: ")[1:]
    return [_shape(*part.split("\n", 1)) for part in parts]


def _shape(head: str, query: str) -> Shape:
    name, _, rest = head.partition(" -> ")
    value, _, note = rest.partition(" ")
    return Shape(name, float(value), not note, query.strip().rstrip(";"))


def planner(session: Connection, query: str) -> str:
    """Return who plans the query in this session."""
    last = rows(session, f"EXPLAIN {query}")[-1][0]
    assert last.startswith("Optimizer:"), last
    return "ORCA" if "ORCA" in last else "PostgreSQL-based"


def asked_for(session: Connection) -> str:
    """Return the planner that the session's `optimizer` asks for."""
    wanted = ask(session, "SHOW optimizer")
    return next(name for name, value in PLANNERS.items() if value == wanted)


def assert_planned(session: Connection, query: str) -> None:
    """Fail unless the planner that the session asks for plans the query."""
    plan = "\n".join(row[0] for row in rows(session, f"EXPLAIN (VERBOSE, COSTS OFF) {query}"))
    assert planner(session, query) == asked_for(session), f"{query}\n{plan}"
