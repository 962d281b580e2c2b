"""deploy: a model into the database, straight down: read > describe > prepare > try > store."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import psycopg2
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import ModelFileError, RegistryError
from dbinfer.base.options import check, documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import one, session
from dbinfer.database.platform import detect
from dbinfer.models import precision
from dbinfer.models.describe import ISOLATIONS, checked_layout, checked_values
from dbinfer.models.precision import Choice
from dbinfer.models.prepare import PreparedModel
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.model.trial import Limits, Result
from dbinfer_udf.tasks import TASKS


class Tried(NamedTuple):
    """The manifest with its precision, the files that backends load, what they took in the trial, and the choice."""

    manifest: Manifest
    prepared: PreparedModel
    trial: Result
    choice: Choice | None


@dataclass(frozen=True)
class Attempt:
    """Tries a prepared model.

    Attributes:
        images: a query for images to compare precisions on, run at `dsn`; None: they are made.
    """

    path: Path
    manifest: Manifest
    prepared: PreparedModel
    limits: Limits
    images: str | None
    dsn: str | None

    def __call__(self, progress: OnProgress) -> Tried:
        path, manifest, prepared = self.path, self.manifest, self.prepared
        progress(Progress("trying"))
        if manifest.precision != precision.AUTO:
            result = precision.try_model(path, prepared, manifest.precision, self.limits)
            return Tried(manifest, prepared, result, None)
        query = None if self.images is None else (self.images, self.dsn)
        choice, result = precision.choose(
            path, prepared, manifest=manifest, limits=self.limits, query=query, progress=progress
        )
        return Tried(replace(manifest, precision=choice.precision), prepared, result, choice)


# A value holds less than 1 GiB, a model may be larger; and a part that is there is not sent again
PART_BYTES = 4 << 20


class NewVersion(NamedTuple):
    """A version to store.

    Attributes:
        digest: by which the same content is known again.
        activate: make it the version that the plain name means.
        trial: what it took when it was tried.
        choice: of its precision, where that was left open.
        source: content of its Keras file; empty without one.
        text: its tower for texts, of whose fields only those of the network count.
    """

    name: str
    digest: str
    manifest: Manifest
    activate: bool
    prepared: PreparedModel
    trial: Result
    choice: Choice | None = None
    source: bytes = b""
    text: NewVersion | None = None

    @property
    def files(self) -> dict[str, bytes]:
        """The content of its files, by their kind."""
        files = {"xml": self.prepared.xml, "bin": self.prepared.bin}
        return {**files, "keras": self.source} if self.source else files

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
    row, blocks = _row(version)
    if version.text:
        row["text"], more = _row(version.text)
        row["size"] += row["text"]["size"]
        blocks += more
    sent = _send(cur, dict(blocks), progress)
    cur.execute(
        "SELECT dbinfer._add_version(%s, %s, %s, dbinfer._ask('dbinfer deploy'))",
        (version.name, json.dumps(row), version.activate),
    )
    return Stored(
        version=one(cur),
        active=version.activate,
        size=row["size"],
        precision=version.manifest.precision,
        parts=len(blocks),
        new_parts=sent,
    )


def _row(version: NewVersion) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    """Return what the registry keeps of a network, and the parts of its files, by their digests."""
    prepared = version.prepared
    parts = {kind: _split(data) for kind, data in version.files.items()}
    row = {
        "source_digest": version.digest,
        "manifest": version.manifest.to_dict(),
        "trial": version.facts,
        "xml_digest": prepared.xml_digest,
        "bin_digest": prepared.bin_digest,
        "size": prepared.size,
        **{f"{kind}_parts": [digest for digest, _ in parts[kind]] for kind in parts},
    }
    return row, [block for kind in parts for block in parts[kind]]


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


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")


@documented
@dataclass(frozen=True)
class DeployOptions:
    """What the user said beside the file.

    Attributes:
        values: manifest keys that override what the IR says, also `input_size` as (height, width).
        layout: NHWC or NCHW, where the shape leaves it open.
    """

    name: str | None = option(None, "Name in the database. Default: the manifest's, else the file's.")
    alias: str | None = option(None, "Alias for the new version, for example production.")
    activate: bool = option(True, "Let the model's plain name mean the new version.")
    default: bool = option(False, "Make it the default model, for calls that name none.")
    private: bool = option(False, "Let nobody else run a new model until you grant it.")
    source: Path | None = option(
        None,
        "Keras file that the model was converted from, to keep in the database, too: `dbinfer train --from` begins "
        "with it.",
        metavar="FILE.keras",
    )
    text: Path | None = option(
        None,
        "IR of the tower for texts, of a model that compares them with images; dbinfer.embed_text runs it.",
    )
    sure: float | None = option(
        None,
        "For cascade:SMALL+LARGE: the score from which the small model's answer counts. "
        "dbinfer.cheap_threshold finds it.",
    )
    isolation: str | None = option(
        None,
        "Whether the host's engine runs this model, outside of the database's processes: {choices}. Default: as "
        "before; for a new model, the database's setting.",
        choices=ISOLATIONS,
    )
    values: Mapping[str, Any] = field(default_factory=dict)
    layout: str | None = None
    check: str | None = option(
        None,
        "Query for images on which another precision must agree with f32. Default: generated pictures.",
    )

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "values", checked_values(self.values))  # the way into a frozen dataclass
        object.__setattr__(self, "layout", checked_layout(self.layout))


@dataclass(frozen=True)
class DeployReport(Report):
    """What deploy did.

    Attributes:
        new: False where the same content was there already.
        active: whether the plain name means this version now.
        size: bytes of the prepared files.
        parts, new_parts: parts of the version, and those that had to be sent.
        assumed: what was not said anywhere and was assumed.
        trial: milliseconds and memory that the model took when it was tried; None where it was there already.
        choice: of the precision, where the manifest left it open and the version is new.
        classes: how many scores a classifier gives; None of other models.
        tables_only: whether workers score there, and no SQL functions.
        source_size: bytes of the Keras file that is kept with it.
    """

    name: str
    version: int
    new: bool
    active: bool
    size: int
    parts: int
    new_parts: int
    manifest: Manifest
    assumed: tuple[str, ...]
    trial: Result | None
    choice: Choice | None = None
    classes: int | None = None
    tables_only: bool = False
    source_size: int = 0


def deploy(
    path: Path | str,
    options: DeployOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> DeployReport:
    """Deploy an IR.

    Args:
        path: of the .xml file; the .bin lies beside it. Or `cascade:SMALL+LARGE`: two deployed classifiers as one
            model, see dbinfer.models.cascade.
        options: name, alias, what the IR does not say.
        dsn: the database; see dbinfer.database.connection.

    Raises:
        ModelFileError: the files cannot be used; nothing was written.
        RegistryError: the name is not allowed, or the role may not deploy.
        DataError: the query for images fails or gives none.
    """
    from dbinfer.models.cascade import PREFIX, cascade
    from dbinfer.models.ir import check_files, digests
    from dbinfer.models.keras_file import read_source
    from dbinfer.models.prepare import understand

    options, path = options or DeployOptions(), Path(path)
    if str(path).startswith(PREFIX):
        with cascade(str(path), options.sure, dsn, progress) as joined:
            return deploy(joined, replace(options, sure=None), dsn, progress)
    if options.sure is not None:
        raise ModelFileError(
            f"sure is {options.sure:g}, but {path} is one model",
            "Name two: dbinfer deploy cascade:small+large.",
        )
    progress(Progress(f"reading {path.name}"))
    weights = check_files(path)
    known, prepared = understand(path, options.values, options.layout, progress)
    tower = _tower(options.text, path, known.manifest, prepared, progress) if options.text else None
    name = checked_name(options.name or known.manifest.name or path.stem)
    # Both forms, because older registries know versions by the older one
    source = read_source(options.source, known.manifest) if options.source else b""
    contents = [_digest(each, known.manifest, source) for each in digests(path, weights)]
    if tower:
        of_text = digests(tower.path, check_files(tower.path))[0]
        contents = [_digest(f"{contents[0]}\0{of_text}", tower.manifest, b"")]
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        there, limits = find_version(cur, name, contents), read_limits(cur)
    # Outside of any transaction: a trial may take minutes, and no other deploy shall wait for it
    attempt = Attempt(
        path=path, manifest=known.manifest, prepared=prepared, limits=limits, images=options.check, dsn=dsn
    )
    tried = None if there else attempt(progress)
    text = tower and not there and replace(tower, limits=limits)(progress)
    with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        # Two deploys of one model would both take the next number
        cur.execute("SELECT dbinfer._lock_registry()")
        stored = find_version(cur, name, contents)
        new, first = stored is None, not has_model(cur, name)
        if stored is None:
            # another client has dropped it meanwhile
            tried = tried or attempt(progress)
            text = text or (tower and replace(tower, limits=limits)(progress))
            version = NewVersion(name, contents[0], tried.manifest, options.activate, *tried[1:], source)
            if text:
                version = version._replace(
                    text=version._replace(manifest=text.manifest, source=b"", **_network(text))
                )
            stored = store(cur, version, progress)
        _name_version(cur, name, stored.version, options, first)
        tables_only = detect(conn).tables_only
    return DeployReport(
        name=name,
        version=stored.version,
        new=new,
        active=stored.active,
        size=stored.size,
        parts=stored.parts,
        new_parts=stored.new_parts,
        # as it is stored: deploy has chosen what the file left open
        manifest=replace(known.manifest, precision=stored.precision),
        assumed=known.assumed,
        trial=tried.trial if new and tried else None,
        choice=tried.choice if new and tried else None,
        classes=known.info.classes if known.manifest.task == "classification" else None,
        tables_only=tables_only,
        source_size=len(source),
    )


def _network(tried: Tried) -> dict[str, Any]:
    return {"prepared": tried.prepared, "trial": tried.trial, "choice": tried.choice}


def _tower(
    path: Path, images: Path, manifest: Manifest, prepared: PreparedModel, progress: OnProgress
) -> Attempt:
    """Return what tries the tower for texts, under the default limits.

    Args:
        images: the file of the tower for images; manifest, prepared: what that is.

    Raises:
        ModelFileError: the two give no vectors that can be compared.
    """
    from dbinfer.models.prepare import understand

    known, tower = understand(Path(path), {}, None, progress)
    if manifest.task != "embedding" or not TASKS[known.manifest.task].reads_text:
        raise ModelFileError(
            f"{images} is for {manifest.task} and {path} for {known.manifest.task}, but a model that compares images "
            "with texts has one network for embedding and one for text_embedding",
            "Convert the towers: dbinfer convert image.onnx and dbinfer convert text.onnx.",
        )
    if math.prod(tower.output) != math.prod(prepared.output):
        raise ModelFileError(
            f"{images} gives {math.prod(prepared.output)} values and {path} gives {math.prod(tower.output)}",
            "Convert both towers of one model, up to the vectors that are compared.",
        )
    return Attempt(
        path=Path(path), manifest=known.manifest, prepared=tower, limits=Limits(), images=None, dsn=None
    )


def checked_name(name: str) -> str:
    """Return a model's name.

    Raises:
        RegistryError: it has other characters, or too many.
    """
    if not NAME.fullmatch(name):
        raise RegistryError(
            f"{name!r} is not a valid model name",
            "Choose one with --name: it starts with a letter and has at most 63 letters, digits, _ . and -.",
        )
    return name


def _digest(files: str, manifest: Manifest, source: bytes) -> str:
    """Return by what the registry knows content again: other labels on the same network are another version."""
    # Versions never change, so one that gets its Keras file later is a new one, too; it shares the other parts
    more = f"\0{hashlib.sha256(source).hexdigest()}" if source else ""
    return hashlib.sha256(f"{files}\0{manifest.to_json()}{more}".encode()).hexdigest()


def _name_version(cur: Cursor, name: str, version: int, options: DeployOptions, first: bool) -> None:
    if first and not options.private:
        cur.execute("SELECT dbinfer.grant_model(%s, 'public')", (name,))
    if options.alias:
        cur.execute("SELECT dbinfer.set_alias(%s, %s, %s)", (name, options.alias, version))
    if options.isolation:
        cur.execute("SELECT dbinfer.set_isolation(%s, %s)", (name, options.isolation))
    if options.default:
        cur.execute("SELECT dbinfer.set_default(%s)", (name,))
