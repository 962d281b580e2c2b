"""Whether a table of results that is there has the columns and the unique index of a job."""

from __future__ import annotations

import re

from psycopg2.extensions import cursor as Cursor

from dbinfer.errors import DataError
from dbinfer.score.key import Key, columns_of, indexes
from dbinfer.score.plan import Plan

OURS = ("model", "version", "scored_at")
# What ALTER TABLE may call a type, and what the catalog calls it
CATALOG = {"float4": "real", "int4": "integer", "int8": "bigint", "timestamptz": "timestamp with time zone"}


def check_shape(cur: Cursor, plan: Plan) -> None:
    """Raise DataError where a table of results is there that this job cannot fill."""
    there = columns_of(cur, plan.into)
    if not there:
        return
    wanted = {c.name: c.type for c in plan.key.columns} | {"model": "text", "version": "integer"}
    wanted |= dict(zip(plan.function.columns, plan.function.types, strict=True))
    for name, kind in (wanted | {"scored_at": "timestamptz"}).items():
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


def _plain(kind: str) -> str:
    kind = kind.replace("pg_catalog.", "")
    base = re.sub(r"\(\d+\)|\[\]", "", kind)
    return kind.replace(base, CATALOG.get(base, base))
