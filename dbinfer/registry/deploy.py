"""Puts a model into the database: parts, manifest and version in one transaction."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer.errors import RegistryError
from dbinfer.registry.describe import describe
from dbinfer.registry.prepare import PreparedModel, prepare
from dbinfer.registry.session import registry_session
from dbinfer.registry.source import read_source
from dbinfer_udf.manifest import Manifest

PART_BYTES = 4 << 20
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class DeployOptions:
    """What the user said beside the file.

    Attributes:
        name: of the model; default: the manifest's, else the file's.
        alias: a second name for the new version.
        activate: make the new version the one that the plain name means.
        default: make the model the one that calls without a name use.
        private: grant it to nobody (otherwise a new model may be run by everybody).
        manifest: manifest keys that override what the IR says; also `layout`, `input_size`.
    """

    name: str | None = None
    alias: str | None = None
    activate: bool = True
    default: bool = False
    private: bool = False
    manifest: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployed:
    """What deploy did.

    Attributes:
        new: False where the same content was there already.
        active: whether the plain name means this version now.
        parts, new_parts: parts of the version, and those that had to be sent.
        assumed: what was not said anywhere and was assumed.
    """

    name: str
    version: int
    new: bool
    active: bool
    size: int
    parts: int
    new_parts: int
    manifest: Manifest
    assumed: list[str]


def deploy(
    path: Path, options: DeployOptions | None = None, dsn: str | None = None, progress: Progress | None = None
) -> Deployed:
    """Deploy an IR.

    Args:
        path: of the .xml file; the .bin lies beside it.
        options: name, alias, what the IR does not say.
        dsn: the database; see dbinfer.dsn.
        progress: called with (bytes sent, bytes to send).

    Raises:
        ModelFileError: the files cannot be used; nothing was written.
        RegistryError: the name is not allowed, or the role may not deploy.
    """
    options = options or DeployOptions()
    source = read_source(path)
    manifest, assumed = describe(source, options.manifest)
    name = _name(options.name or manifest.name or path.stem)
    digest = hashlib.sha256(f"{source.digest}\0{manifest.to_json()}".encode()).hexdigest()
    with registry_session(dsn) as cur:
        cur.execute("SELECT dbinfer_private.lock_registry()")
        there = _same(cur, name, digest)
        if there is not None:
            _names(cur, name, there[0], options)
            return Deployed(name, there[0], False, there[1], there[2], 0, 0, manifest, assumed)
        prepared = prepare(source, manifest, options.manifest.get("layout"))
        facts, new_parts = _store(cur, prepared, progress or (lambda done, total: None))
        facts.update(source_digest=digest, manifest=manifest.to_dict())
        cur.execute(
            "SELECT dbinfer_private.add_version(%s, %s, %s)", (name, json.dumps(facts), options.activate)
        )
        version = _int(cur)
        if version == 1 and not options.private:
            cur.execute("SELECT dbinfer.grant_model(%s, 'public')", (name,))
        _names(cur, name, version, options)
        parts = len(facts["xml_parts"]) + len(facts["bin_parts"])
        return Deployed(
            name, version, True, options.activate, facts["size"], parts, new_parts, manifest, assumed
        )


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise RegistryError(
            f"{name!r} cannot be a model's name.",
            "Start with a letter; use letters, digits, _ . and - (63 at most): --name.",
        )
    return name


def _int(cur: Cursor) -> int:
    row = cur.fetchone()
    assert row is not None
    return int(row[0])


def _same(cur: Cursor, name: str, digest: str) -> tuple[int, bool, int] | None:
    cur.execute(
        "SELECT version, active, size FROM dbinfer.model_versions "
        "WHERE name = %s AND digest = %s ORDER BY version DESC",
        (name, digest),
    )
    return cur.fetchone()


def _names(cur: Cursor, name: str, version: int, options: DeployOptions) -> None:
    if options.alias:
        cur.execute("SELECT dbinfer.set_alias(%s, %s, %s)", (name, options.alias, version))
    if options.default:
        cur.execute("SELECT dbinfer.set_default(%s)", (name,))


def _split(data: bytes) -> list[tuple[str, bytes]]:
    blocks = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
    return [(hashlib.sha256(block).hexdigest(), block) for block in blocks]


def _store(cur: Cursor, prepared: PreparedModel, progress: Progress) -> tuple[dict[str, Any], int]:
    """Send the parts that the registry lacks; return the version's facts and how many were new."""
    parts = {"xml": _split(prepared.xml), "bin": _split(prepared.bin)}
    blocks = {digest: block for kind in parts for digest, block in parts[kind]}
    cur.execute("SELECT dbinfer_private.missing_parts(%s)", (list(blocks),))
    row = cur.fetchone()
    missing: list[str] = row[0] if row else []
    total, done = sum(len(blocks[digest]) for digest in missing), 0
    progress(0, total)
    for digest in missing:
        cur.execute("SELECT dbinfer_private.add_part(%s, %s)", (digest, psycopg2.Binary(blocks[digest])))
        done += len(blocks[digest])
        progress(done, total)
    facts = {
        "xml_digest": prepared.xml_digest,
        "bin_digest": prepared.bin_digest,
        "size": len(prepared.xml) + len(prepared.bin),
        **{f"{kind}_parts": [digest for digest, _ in parts[kind]] for kind in parts},
    }
    return facts, len(missing)
