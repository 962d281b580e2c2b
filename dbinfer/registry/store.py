"""A prepared model as rows: its files in parts, and the version that is made of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any, NamedTuple

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one
from dbinfer.progress import OnProgress, Progress
from dbinfer.registry.precision import Choice
from dbinfer.registry.prepare import PreparedModel
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.trial import Limits, Result

# A value holds less than 1 GiB, a model may be larger; and a part that is there is not sent again
PART_BYTES = 4 << 20


class NewVersion(NamedTuple):
    """A version to store.

    Attributes:
        digest: by which the same content is known again.
        activate: make it the version that the plain name means.
        trial: what it took when it was tried.
        choice: of its precision, where that was left open.
    """

    name: str
    digest: str
    manifest: Manifest
    activate: bool
    prepared: PreparedModel
    trial: Result
    choice: Choice | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of its trial."""
        chosen = {} if self.choice is None else {"precision": asdict(self.choice)}
        return {**asdict(self.trial), **chosen}


class Stored(NamedTuple):
    """A version in the registry: whether the plain name means it, its bytes, its precision and its parts."""

    version: int
    active: bool
    size: int
    precision: str
    parts: int = 0
    new_parts: int = 0


def read_limits(cur: Cursor) -> Limits:
    """Return what a model may take in this database."""
    cur.execute("SELECT dbinfer._limits()")
    return Limits.from_settings(json.loads(one(cur)))


def has_model(cur: Cursor, name: str) -> bool:
    """Return whether any version of a model is deployed."""
    cur.execute("SELECT EXISTS (SELECT FROM dbinfer.models WHERE name = %s)", (name,))
    return bool(one(cur))


def find_version(cur: Cursor, name: str, digests: list[str]) -> Stored | None:
    """Return the newest version of a model that has one of these digests, None where there is none."""
    cur.execute(
        "SELECT version, active, size, manifest->>'precision' FROM dbinfer.model_versions "
        "WHERE name = %s AND digest = ANY (%s) ORDER BY version DESC LIMIT 1",
        (name, digests),
    )
    row = cur.fetchone()
    return Stored(*row) if row else None


def store(cur: Cursor, version: NewVersion, progress: OnProgress) -> Stored:
    """Send the parts that the registry lacks and register the version."""
    prepared = version.prepared
    parts = {"xml": _split(prepared.xml), "bin": _split(prepared.bin)}
    sent = _send(cur, {digest: block for kind in parts for digest, block in parts[kind]}, progress)
    row = {
        "source_digest": version.digest,
        "manifest": version.manifest.to_dict(),
        "trial": version.facts,
        "xml_digest": prepared.xml_digest,
        "bin_digest": prepared.bin_digest,
        "size": prepared.size,
        **{f"{kind}_parts": [digest for digest, _ in parts[kind]] for kind in parts},
    }
    cur.execute(
        "SELECT dbinfer._add_version(%s, %s, %s, dbinfer._ask('dbinfer deploy'))",
        (version.name, json.dumps(row), version.activate),
    )
    count = sum(len(blocks) for blocks in parts.values())
    return Stored(one(cur), version.activate, prepared.size, version.manifest.precision, count, sent)


def _split(data: bytes) -> list[tuple[str, bytes]]:
    blocks = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
    return [(hashlib.sha256(block).hexdigest(), block) for block in blocks]


def _send(cur: Cursor, blocks: dict[str, bytes], progress: OnProgress) -> int:
    """Send the blocks that are not there yet; return how many those were."""
    cur.execute("SELECT dbinfer._missing_parts(%s)", (list(blocks),))
    # On Greenplum an ARRAY of no rows is NULL
    missing: list[str] = one(cur) or []
    total, done = sum(len(blocks[digest]) for digest in missing), 0
    for digest in missing:
        progress(Progress("sending", done, total, "bytes"))
        cur.execute("SELECT dbinfer._add_part(%s, %s)", (digest, psycopg2.Binary(blocks[digest])))
        done += len(blocks[digest])
    progress(Progress("sending", done, total, "bytes"))
    return len(missing)
