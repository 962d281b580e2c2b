"""Lists models, moves names between versions, grants, and tells who used what; each verb calls the SQL function of
its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import RegistryError
from dbinfer.base.report import Report
from dbinfer.database.connection import one, session
from dbinfer.database.sql import read

# For whoever may have the files of a version; worker and training fetch them part by part
FILES = "SELECT dbinfer._model_files(%s, dbinfer._ask('dbinfer worker'))"
PART = "SELECT dbinfer._model_part(%s, %s, %s, dbinfer._ask('dbinfer worker'))"
UNUSED_DAYS = 30
MAY_KEEP = "SELECT pg_catalog.has_function_privilege('dbinfer._keep_usage()', 'EXECUTE')"


def parts(cur: Cursor, version_id: int, wanted: Iterable[tuple[str, int]]) -> Iterator[tuple[str, bytes]]:
    """Yield kind and content of parts of a version's files, one fetched after the other.

    Args:
        wanted: kind and number of each, as FILES tells them.
    """
    for kind, number in wanted:
        cur.execute(PART, (version_id, kind, number))
        yield kind, bytes(one(cur))


@dataclass(frozen=True)
class UsageReport(Report):
    """Who used what.

    Attributes:
        since: from when on rows are counted, as ISO 8601; None where they are not.
        usage: one dict per model, version and role, with the columns of dbinfer.usage; for administrators also one per
            version that was never used, with role and last_used None.
    """

    since: str | None
    usage: tuple[dict[str, Any], ...]


def usage(model: str | None = None, dsn: str | None = None) -> UsageReport:
    """List who used what: the caller's own use; for an administrator all of it, and a copy is kept in the database.

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
    """Raise where a version, or any version of the model, was used within so many days.

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
            f"To drop it anyway: dbinfer drop {name} --force. Who used what: dbinfer usage --model {model}",
        )


@dataclass(frozen=True)
class ModelsReport(Report):
    """The deployed models.

    Attributes:
        models: one dict per model: its active version, task, aliases, grants, metrics, and all versions
            under `history`; the keys are those of sql/client/models.sql.
    """

    models: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RegistryReport(Report):
    """What was done to a model.

    Attributes:
        action: the verb, `activate` for example.
        version: None where the model as a whole is meant.
        alias, role: that were given or taken; "" where the verb has none.
    """

    action: str
    model: str
    version: int | None = None
    alias: str = ""
    role: str = ""


def models(dsn: str | None = None) -> ModelsReport:
    """List the deployed models."""
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(read("client/models.sql"))
        return ModelsReport(tuple(row[0] for row in cur.fetchall()))


def split(reference: str) -> tuple[str, int]:
    """Split NAME@VERSION.

    Raises:
        RegistryError: it is not of that form.
    """
    name, _, version = reference.partition("@")
    # Nine digits always fit the column's int4
    if not name or not re.fullmatch("[0-9]{1,9}", version):
        raise RegistryError(
            f"{reference!r} does not name a version",
            "Write NAME@VERSION, for example digits@2. 'dbinfer models' lists all versions.",
        )
    return name, int(version)


def _call(dsn: str | None, sql: str, *values: Any) -> None:
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(sql, values)


def activate(reference: str, dsn: str | None = None) -> RegistryReport:
    """Make NAME@VERSION the version that NAME means."""
    name, version = split(reference)
    _call(dsn, "SELECT dbinfer.activate(%s, %s)", name, version)
    return RegistryReport("activate", name, version)


def default(name: str, dsn: str | None = None) -> RegistryReport:
    """Make a model the default of calls that name none."""
    _call(dsn, "SELECT dbinfer.set_default(%s)", name)
    return RegistryReport("default", name)


def alias(reference: str, name: str, dsn: str | None = None) -> RegistryReport:
    """Give NAME@VERSION a second name."""
    model, version = split(reference)
    _call(dsn, "SELECT dbinfer.set_alias(%s, %s, %s)", model, name, version)
    return RegistryReport("alias", model, version, alias=name)


def drop(reference: str, force: bool = False, dsn: str | None = None) -> RegistryReport:
    """Remove NAME@VERSION, or with NAME the whole model; what is active or was used lately, only if forced."""
    name, version = split(reference) if "@" in reference else (reference, None)
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        if not force:
            check_unused(cur, name, version)
        cur.execute("SELECT dbinfer.drop_model(%s, %s, %s)", (name, version, force))
    return RegistryReport("drop", name, version)


def grant(name: str, role: str, dsn: str | None = None) -> RegistryReport:
    """Let a role (`public`: everybody) run a model."""
    _call(dsn, "SELECT dbinfer.grant_model(%s, %s)", name, role)
    return RegistryReport("grant", name, role=role)


def revoke(name: str, role: str, dsn: str | None = None) -> RegistryReport:
    """Take a grant back."""
    _call(dsn, "SELECT dbinfer.revoke_model(%s, %s)", name, role)
    return RegistryReport("revoke", name, role=role)
