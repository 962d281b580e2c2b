"""Makes the two tables of a job, results and bad images with their reasons; or takes over a table of 0.1.0."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.names import MAX_BYTES, TableName
from dbinfer.score.key import columns_of
from dbinfer.score.plan import Plan
from dbinfer.score.shape import of_a_job
from dbinfer.sqlfiles import read

SUFFIX = "_errors"


def errors_name(name: str) -> str:
    """Return the name of the table of bad images."""
    room = MAX_BYTES - len(SUFFIX)
    return name.encode()[:room].decode(errors="ignore") + SUFFIX


def make_tables(cur: Cursor, plan: Plan) -> str:
    """Make the tables of results and of bad images where they are not there; return what is to be said of them."""
    results: list[sql.Composable] = [
        sql.SQL("ADD COLUMN {} {}").format(sql.Identifier(name), sql.SQL(kind))
        for name, kind in zip(plan.function.columns, plan.function.types, strict=True)
    ]
    results.append(sql.SQL("ADD COLUMN scored_at pg_catalog.timestamptz NOT NULL"))
    reasons = [
        sql.SQL("ADD COLUMN reason pg_catalog.text NOT NULL"),
        sql.SQL("ADD COLUMN at pg_catalog.timestamptz NOT NULL"),
    ]
    there = columns_of(cur, plan.into)
    for name, columns in ((plan.into, results), (plan.errors, reasons)):
        if not columns_of(cur, name):
            _make(cur, plan, name, columns)
    return _adopt(cur, plan) if there and not of_a_job(there) else ""


def _adopt(cur: Cursor, plan: Plan) -> str:
    """Give a table of 0.1.0, which `check_shape` has looked at, the columns and the index of a job."""
    names = {
        "into": plan.into.identifier,
        "keys": plan.key.listed(),
        "model": sql.Literal(plan.model),
        "version": sql.Literal(plan.version),
    }
    cur.execute(sql.SQL(read("client/job_adopt.sql")).format(**names))
    return f"{plan.into}: what 0.1.0 or --atomic left there counts as {plan.reference or plan.function.name}"


def _make(cur: Cursor, plan: Plan, name: TableName, columns: Sequence[sql.Composable]) -> None:
    text = plan.platform.adapt(read("client/job_create.sql"))
    names = {
        "into": name.identifier,
        "table": plan.table.identifier,
        "keys": plan.key.listed(),
        "columns": sql.SQL(", ").join(columns),
        "distribution": sql.SQL(", ").join(map(sql.Identifier, _distribution(cur, plan))),
    }
    cur.execute(sql.SQL(text).format(**names))


def spread_by(cur: Cursor, table: TableName) -> list[str]:
    """Return by which columns Greenplum spreads a table; none where it spreads it at random, or is a view."""
    cur.execute(read("client/job_distribution.sql"), {"table": table.identifier.as_string(cur)})
    return [row[0] for row in cur.fetchall()]


def _distribution(cur: Cursor, plan: Plan) -> list[str]:
    """Return by which columns Greenplum spreads the results: those of the images, where the key has them."""
    if not plan.platform.mpp:
        return []
    found = spread_by(cur, plan.table)
    return found if found and set(found) <= set(plan.key.names) else plan.key.names
