"""Lists models and moves names between versions; each verb calls the SQL function of the same meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dbinfer.connection import session
from dbinfer.errors import RegistryError
from dbinfer.registry.usage import check_unused
from dbinfer.report import Report
from dbinfer.sqlfiles import read


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
    """Make a model the one that calls without a name use."""
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
