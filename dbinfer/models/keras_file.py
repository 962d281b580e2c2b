"""The Keras file of a version: `deploy --source` keeps it in the database, and `train --from` fetches it to go on."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dbinfer.base.errors import ModelFileError, RegistryError
from dbinfer.database.connection import one, session
from dbinfer.models.registry import FILES, parts
from dbinfer_udf.manifest import Manifest


class Fetched(NamedTuple):
    """A version whose Keras file lies here: its name, as NAME@VERSION, and what it knows."""

    version: str
    manifest: Manifest


def read_source(path: Path, manifest: Manifest) -> bytes:
    """Return the content of the Keras file that an IR was made from.

    Args:
        manifest: of the IR; convert has written the file's sha256 into it.

    Raises:
        ModelFileError: it is no Keras file, or another one.
    """
    try:
        content = path.read_bytes()
    except OSError as err:
        raise ModelFileError(f"the source {path} cannot be read: {err.strerror}") from err
    if path.suffix != ".keras" or not zipfile.is_zipfile(path):
        raise ModelFileError(
            f"the source {path} is not a .keras file (a zip archive), or the file is truncated",
            "Give the file that the model was converted from: --source model.keras",
        )
    known = manifest.provenance.get("source_sha256")
    if known and known != hashlib.sha256(content).hexdigest():
        raise ModelFileError(
            f"the source {path} is not the file that the model was converted from",
            "Give that file, or convert this one first.",
        )
    return content


def fetch(reference: str, path: Path, dsn: str | None) -> Fetched:
    """Write the Keras file of a version to `path`, whole or not at all.

    Args:
        reference: NAME, NAME@VERSION or NAME@ALIAS.

    Raises:
        RegistryError: there is no such version, it has no Keras file, or the role may not have it.
        ModelFileError: the file cannot be written.
    """
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(FILES, (reference,))
        found = json.loads(one(cur))
        version = f"{found['model']}@{found['version']}"
        if not found["keras_parts"]:
            raise RegistryError(
                f"{version} has no Keras file in the database",
                f"Deploy it with one: dbinfer deploy model.xml --name {found['model']} --source model.keras",
            )
        wanted = (("keras", number) for number in range(1, found["keras_parts"] + 1))
        _write(path, (data for _, data in parts(cur, found["id"], wanted)))
    return Fetched(version, Manifest.from_dict(found["manifest"]))


def _write(path: Path, parts: Iterator[bytes]) -> None:
    temporary = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.writelines(parts)
        temporary.replace(path)
    except OSError as err:
        raise ModelFileError(f"{path} cannot be written: {err.strerror}") from err
