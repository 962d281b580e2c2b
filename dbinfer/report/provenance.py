"""What is known of a model and of the jobs that ran it: from the registry and the view of jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.database.sql import TableName, read
from dbinfer.report.sections import moment, size
from dbinfer.report.tables import Source, Version, columns

JOBS = 5


@dataclass(frozen=True)
class ModelFacts:
    """A version of a model.

    Attributes:
        labels: names of its classes; facts: (term, value) as the page shows them.
    """

    name: str
    labels: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


class Job(NamedTuple):
    """One run of a job, in words; rows are those that it scored."""

    name: str
    detail: str
    rows: int
    rate: str
    seconds: str


def model_facts(cur: Cursor, name: str, number: int | None = None, alias: str = "") -> ModelFacts | None:
    """Return what the registry says of a version: of the number, the alias, else the active one; None if it is gone."""
    cur.execute(read("client/report_model.sql"), {"name": name})
    for version, active, aliases, manifest, *rest in cur.fetchall():
        if version == number if number is not None else alias in aliases if alias else active:
            # an older version has stored what it was given
            found = manifest if isinstance(manifest, dict) else {}
            labels = found.get("labels")
            facts = tuple(_facts(found, active, aliases, rest))
            return ModelFacts(
                f"{name}@{version}", tuple(map(str, labels)) if isinstance(labels, list) else (), facts
            )
    return None


def named_facts(cur: Cursor, reference: str) -> ModelFacts:
    """Return the facts of `name`, `name@3` or `name@alias`.

    Raises:
        DataError: there is no such model.
    """
    name, _, rest = reference.partition("@")
    facts = model_facts(cur, name, int(rest) if rest.isdecimal() else None, rest)
    if facts is None:
        raise DataError(f"model {reference!r} does not exist", "'dbinfer models' lists all models.")
    return facts


def _facts(
    manifest: dict[str, Any], active: bool, aliases: list[str], rest: list[Any]
) -> Iterator[tuple[str, str]]:
    created_at, created_by, length, digest = rest
    if manifest:
        yield "task", str(manifest.get("task"))
        sides = f"{manifest.get('height')} x {manifest.get('width')} (height x width)"
        yield "input", f"{sides}, {manifest.get('color')}"
        yield "precision", str(manifest.get("precision"))
    yield "state", "active" if active else "not active"
    if aliases:
        yield "aliases", ", ".join(aliases)
    yield "deployed", f"{moment(created_at)} by {created_by}"
    yield "size", size(length)
    if digest:
        yield "sha256", digest
    for part in ("metrics", "provenance"):
        told = manifest.get(part)
        for term, value in told.items() if isinstance(told, dict) else ():
            yield str(term).replace("_", " "), _plain(value)


def _plain(value: Any, inner: bool = False) -> str:
    """Return a JSON value as people write it: names and values with commas between them."""
    if isinstance(value, dict):
        text = ", ".join(f"{term} {_plain(part, True)}" for term, part in value.items())
        return f"({text})" if inner else text
    if isinstance(value, list):
        return ", ".join(_plain(part, True) for part in value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def jobs(cur: Cursor, source: Source, version: Version) -> list[Job]:
    """Return the last jobs that wrote these results; where none is known, what the times of the rows say."""
    found = []
    if columns(cur, TableName("dbinfer", "jobs"), missing=True):
        cur.execute(
            sql.SQL(read("client/report_jobs.sql")).format(
                target=sql.Literal(str(source.predictions)),
                model=sql.Literal(version.model),
                number=sql.Literal(version.number),
                limit=sql.Literal(JOBS),
            )
        )
        found = [_job(row) for row in cur.fetchall()]
    return found or _by_times(version)


def _job(row: tuple[Any, ...]) -> Job:
    number, role, state, done, errors, rate, seconds, started = row
    detail = f"{state}, {errors:,} bad rows, started {moment(started)} by {role}"
    return Job(f"job {number}", detail, done, f"{rate or 0:,.0f}", f"{seconds or 0:,.1f}")


def _by_times(version: Version) -> list[Job]:
    if version.first is None or version.last is None or version.last == version.first:
        return []
    seconds = (version.last - version.first).total_seconds()
    rate = f"{version.rows / seconds:,.0f}"
    return [
        Job(
            "by the times of the rows", f"from {moment(version.first)}", version.rows, rate, f"{seconds:,.1f}"
        )
    ]
