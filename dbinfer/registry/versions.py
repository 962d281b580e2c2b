"""Lists models and moves names between versions; all of it are calls of the SQL functions of the same names."""

from __future__ import annotations

import re
from typing import Any

from dbinfer.errors import RegistryError
from dbinfer.registry.session import registry_session
from dbinfer.sqlfiles import read


def models(dsn: str | None = None) -> list[dict[str, Any]]:
    """Return one dict per model: its active version, task, aliases, grants, and all versions under `history`."""
    with registry_session(dsn) as cur:
        cur.execute(read("client/models.sql"))
        return [row[0] for row in cur.fetchall()]


def split(reference: str) -> tuple[str, int]:
    """Split NAME@VERSION.

    Raises:
        RegistryError: it is not of that form.
    """
    name, _, version = reference.partition("@")
    if not name or not re.fullmatch("[0-9]{1,9}", version):
        raise RegistryError(
            f"{reference!r} names no version.",
            "Write NAME@VERSION, e.g. digits@2; dbinfer models lists them.",
        )
    return name, int(version)


def _call(dsn: str | None, sql: str, *values: Any) -> None:
    with registry_session(dsn) as cur:
        cur.execute(sql, values)


def activate(reference: str, dsn: str | None = None) -> None:
    """Make NAME@VERSION the version that NAME means."""
    name, version = split(reference)
    _call(dsn, "SELECT dbinfer.activate(%s, %s)", name, version)


def set_default(name: str, dsn: str | None = None) -> None:
    """Make a model the one that calls without a name use."""
    _call(dsn, "SELECT dbinfer.set_default(%s)", name)


def set_alias(reference: str, alias: str, dsn: str | None = None) -> None:
    """Give NAME@VERSION a second name."""
    name, version = split(reference)
    _call(dsn, "SELECT dbinfer.set_alias(%s, %s, %s)", name, alias, version)


def drop(reference: str, force: bool = False, dsn: str | None = None) -> None:
    """Remove NAME@VERSION, or with NAME alone the whole model; refuses the active version unless forced."""
    if "@" in reference:
        name, version = split(reference)
        _call(dsn, "SELECT dbinfer.drop_model(%s, %s, %s)", name, version, force)
    else:
        _call(dsn, "SELECT dbinfer.drop_model(%s, NULL, %s)", reference, force)


def grant(name: str, role: str, dsn: str | None = None) -> None:
    """Let a role (`public`: everybody) run a model."""
    _call(dsn, "SELECT dbinfer.grant_model(%s, %s)", name, role)


def revoke(name: str, role: str, dsn: str | None = None) -> None:
    """Take a grant back."""
    _call(dsn, "SELECT dbinfer.revoke_model(%s, %s)", name, role)
