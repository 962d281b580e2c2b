"""Whether a job can go on in a table of results that is there: one of a job, or one of 0.1.0, which it takes over."""

from __future__ import annotations

import re

from psycopg2.extensions import cursor as Cursor

from dbinfer.errors import DataError
from dbinfer.score.key import Column, Key, columns_of, indexes
from dbinfer.score.plan import Plan

OURS = ("model", "version", "scored_at")
# What ALTER TABLE may call a type, and what the catalog calls it
CATALOG = {"float4": "real", "int4": "integer", "int8": "bigint", "timestamptz": "timestamp with time zone"}


def check_shape(cur: Cursor, plan: Plan) -> None:
    """Raise DataError where a table of results is there that this job cannot fill."""
    there = columns_of(cur, plan.into)
    if not there:
        return
    if of_a_job(there):
        _check_job(cur, plan, there)
    else:
        _check_old(cur, plan, there)


def of_a_job(there: dict[str, Column]) -> bool:
    """Return whether a table of these columns is one that a job has made."""
    return set(OURS) <= set(there)


def _results(plan: Plan) -> dict[str, str]:
    """Return names and types of the columns that all tables of results have: the key's and the function's."""
    key = {c.name: c.type for c in plan.key.columns}
    return key | dict(zip(plan.function.columns, plan.function.types, strict=True))


def _check_job(cur: Cursor, plan: Plan, there: dict[str, Column]) -> None:
    ours = {"model": "text", "version": "integer", "scored_at": "timestamptz"}
    for name, kind in (_results(plan) | ours).items():
        if name not in there or _plain(there[name].type) != _plain(kind):
            found = f"as {there[name].type}" if name in there else "not"
            raise DataError(
                f"{plan.into} has another shape: this job needs a column {name} of type {_plain(kind)}, "
                f"which it has {found}",
                "Choose another table with --into, or replace this one with --replace.",
            )
    full = Key((*plan.key.columns, there["model"], there["version"]))
    numbers = Key(tuple(there[name] for name in full.names))
    if not indexes(cur, plan.into, numbers)[0]:
        raise DataError(
            f"{plan.into} has no unique index on its key, model and version",
            f"Make one: ALTER TABLE {plan.into} ADD PRIMARY KEY ({', '.join(full.names)})",
        )


def _check_old(cur: Cursor, plan: Plan, there: dict[str, Column]) -> None:
    """Refuse a table that is none of 0.1.0 or of --atomic, and one that does not say which version has made it."""
    shape = {name: _plain(kind) for name, kind in _results(plan).items()}
    if {name: _plain(column.type) for name, column in there.items()} != shape:
        raise DataError(
            f"table {plan.into} already exists, and no job has made it",
            "Use --replace to replace it, --append to add the missing rows, or --into to choose another table.",
        )
    names = ", ".join(plan.key.names)
    if indexes(cur, plan.into, Key(tuple(there[name] for name in plan.key.names)))[0]:
        raise DataError(
            f"{plan.into} has a unique index on {names} alone, but will hold results of several versions",
            "Drop that index or constraint, then score again.",
        )
    cur.execute(
        "SELECT version FROM dbinfer.model_versions WHERE name OPERATOR(pg_catalog.=) %s ORDER BY 1",
        (plan.model,),
    )
    versions = [str(version) for (version,) in cur]
    if len(versions) > 1 and "@" not in (plan.options.model or ""):
        raise DataError(
            f"{plan.into} does not say which version of {plan.model} ({', '.join(versions)}) has made its results",
            f"Name that version this once, for example --model {plan.model}@{versions[-1]}",
        )


def _plain(kind: str) -> str:
    kind = kind.replace("pg_catalog.", "")
    base = re.sub(r"\(\d+\)|\[\]", "", kind)
    return kind.replace(base, CATALOG.get(base, base))
