"""Short words for the tests: ask a query, expect an error, become another role, make the table of images."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import connection as Connection


def answers_again(dsn: str) -> bool:
    """Return whether a server that was broken has recovered."""
    try:
        with closing(psycopg2.connect(dsn)) as connection:
            return bool(ask(connection, "SELECT NOT pg_is_in_recovery()"))
    except psycopg2.OperationalError:
        return False


def ask(db: Connection, query: str, *values: Any) -> Any:
    """Return the first column of the first row; None without rows."""
    found = rows(db, query, *values)
    return found[0][0] if found else None


def rows(db: Connection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return all rows; the empty list for a command."""
    with db.cursor() as cursor:
        cursor.execute(query, values or None)
        return [_plain(row) for row in cursor.fetchall()] if cursor.description else []


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)


def without_timeout(db: Connection) -> None:
    """Set no statement timeout; one of a millisecond may end this command, too, so ask until it is heard."""
    for _ in range(1000):
        with suppress(psycopg2.errors.QueryCanceled):
            rows(db, "SET statement_timeout = 0")
            return
    raise AssertionError("a thousand times out of time")


def refused(db: Connection, sqlstate: str, query: str, *values: Any) -> psycopg2.extensions.Diagnostics:
    """Run what must fail with this SQLSTATE, see that the session goes on, and return the error's parts."""
    with pytest.raises(psycopg2.Error) as caught:
        rows(db, query, *values)
    diag = caught.value.diag
    assert diag.sqlstate == sqlstate, f"{diag.sqlstate}: {caught.value}"
    assert ask(db, "SELECT 1") == 1
    return diag


def on_server(db: Connection, script: str, text: str = "") -> None:
    """Run a shell script as the server's user; `text` is its standard input."""
    # an input that nobody reads would be an error
    rows(db, f"COPY (SELECT %s) TO PROGRAM $dollar${{ {script}; }} && cat > /dev/null$dollar$", text)


@contextmanager
def role(db: Connection, *member_of: str) -> Iterator[str]:
    """Yield the name of a new role without any right, which the session then is; back and gone at the end."""
    name = f"tester_{uuid.uuid4().hex[:8]}"
    rows(db, f"CREATE ROLE {name} NOLOGIN")
    for group in member_of:
        rows(db, f"GRANT {group} TO {name}")
    try:
        rows(db, f"SET ROLE {name}")
        yield name
    finally:
        rows(db, "RESET ROLE")
        rows(db, f"DROP OWNED BY {name}")
        rows(db, f"DROP ROLE {name}")


def make_images(
    db: Connection, table: str, images: list[bytes | None], copies: int = 1, equal: bool = False
) -> None:
    """Make a table (id, img) of these images, each `copies` times, readable by everybody.

    Unless they shall be `equal`, each copy ends with its number: the same image again would be scored once.
    """
    table = f"public.{table}"
    rows(db, f"DROP TABLE IF EXISTS {table}")
    rows(db, f"CREATE TABLE {table} (id integer, img bytea)")
    with db.cursor() as cursor:
        for place, img in enumerate(images):
            cursor.execute(
                f"INSERT INTO {table} SELECT %s + n * %s, "
                "%s::bytea || CASE WHEN %s OR n = 0 THEN '' ELSE int4send(n) END FROM generate_series(0, %s) n",
                (place, len(images), img, equal, copies - 1),
            )
    rows(db, f"GRANT SELECT ON {table} TO PUBLIC")
    rows(db, f"ANALYZE {table}")


PARALLEL = {
    "min_parallel_table_scan_size": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "max_parallel_workers_per_gather": "2",
}

FORCED_WHOLE = 150000

PLANS = ("standard plan", "parallel plan")


def plan_parallel(db: Connection) -> None:
    """Let the planner of this session find parallel plans worth while for tables of any size."""
    for name, value in PARALLEL.items():
        rows(db, f"SET {name} = {value}")


def planned_as(db: Connection, plan: str) -> Connection:
    """Return the session with one of PLANS; a parallel one is skipped where there is none."""
    if plan == "parallel plan":
        if ask(db, "SELECT to_regclass('pg_catalog.gp_segment_configuration')"):
            pytest.skip("Greenplum has no parallel workers; its segments are parallel in every plan")
        plan_parallel(db)
    return db


def force_parallel(db: Connection) -> None:
    """Make every plan of this session that may be parallel parallel."""
    plan_parallel(db)
    # before 15 this setting sends the body of an SQL function (on 14 of one that is not inlined) to a worker of its
    # own, whose token nobody else knows; without the setting no server does
    if db.server_version >= FORCED_WHOLE:
        old = ask(db, "SELECT count(*) FROM pg_settings WHERE name = 'force_parallel_mode'")
        rows(db, f"SET {'force_parallel_mode' if old else 'debug_parallel_query'} = on")


def workers(db: Connection, query: str) -> int:
    """Return how many parallel workers EXPLAIN ANALYZE saw starting."""
    plan = "\n".join(row[0] for row in rows(db, f"EXPLAIN (ANALYZE, VERBOSE) {query}"))
    launched = [line.split(":")[1] for line in plan.splitlines() if "Workers Launched" in line]
    return sum(int(number) for number in launched)
