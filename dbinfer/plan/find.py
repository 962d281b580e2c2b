"""Finds a plan's numbers: in a database and its table, in a file of coefficients, or in those that are shipped or
measured here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, RegistryError, ServerError, UsageError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.database import state
from dbinfer.database.connection import named, one, session
from dbinfer.database.platform import Platform, detect
from dbinfer.database.sql import TableName, column, read
from dbinfer.install.balance import PROCESSES
from dbinfer.plan.cost import (
    Coefficients,
    Network,
    Picture,
    from_dict,
    missing,
    read_coefficients,
    scaled,
    shipped,
    write,
)
from dbinfer.plan.options import CORES, PlanOptions
from dbinfer.score.options import BY_TASK
from dbinfer_udf.errors import ImageError
from dbinfer_udf.host.limits import share
from dbinfer_udf.image.header import read_header
from dbinfer_udf.manifest import Manifest, ManifestError

SIZE, DIGIT = (500, 375), (28, 28)
# bytes a pixel of photographs: a camera's JPEG, and the samples of the other formats
DENSITY = {"JPEG": 0.27, "PNG": 1.6, "WebP": 0.9, "BMP": 3.0, "TIFF": 1.6}


@dataclass(frozen=True)
class Source:
    """What a forecast needs.

    Attributes:
        title: of the model; function: that scores it; pictures: some of the images.
        images: how many; skew: of the fullest segment; notes: what was assumed.
    """

    title: str
    function: str
    coefficients: Coefficients
    network: Network
    pictures: tuple[Picture, ...]
    images: float
    cores: int
    segments: int
    skew: float = 1.0
    notes: tuple[str, ...] = field(default=())


def assumed_picture(options: PlanOptions, network: Network) -> tuple[Picture, tuple[str, ...]]:
    """Return the picture that options describe, and what they leave open."""
    notes: tuple[str, ...] = ()
    width, height = options.size or (DIGIT if network.channels == 1 else SIZE)
    if options.size is None:
        notes += (f"images of {width} x {height} pixels (--size)",)
    kind = options.format or "JPEG"
    size = options.kilobytes * 1e3 if options.kilobytes else width * height * DENSITY[kind]
    if options.kilobytes is None:
        notes += (f"{kind} files of {size / 1e3:.3g} kB (--format, --kilobytes)",)
    return Picture(kind, width, height, size), notes


# from here on a table counts as skewed: its fullest segment has half as much again as the mean one
SKEWED = 1.5


def forecast_notes(source: Source, options: PlanOptions) -> tuple[str, ...]:
    """Return what is assumed of the hosts and of steps that nobody has measured."""
    found = (_cores(source), _threads(source), _skew(source, options), _missing(source))
    return tuple(note for note in found if note)


def scale_note(found: Coefficients, networks: bool) -> tuple[str, ...]:
    """Return by how much `here` has changed the coefficients.

    Args:
        networks: the network's time is among them; that of a deployed one is its trial's.
    """
    if not found.scale:
        return ()
    times = f"images take {found.scale['pixels']:.3g}"
    if networks:
        times += f" and networks {found.scale['networks']:.3g}"
    return (f"this machine's speed (--here): {times} times as long as on the measured one",)


def _cores(source: Source) -> str:
    measured = source.coefficients.machine.get("cores")
    if not isinstance(measured, int) or source.cores <= measured:
        return ""
    return f"{source.cores} cores that slow each other no more than the {measured} of the measured machine"


def _threads(source: Source) -> str:
    """Say how many cores are left over where more threads of an inference do not pay, or nobody has tried them."""
    each, taken = share(source.cores, source.segments), source.network.threads
    at_work = source.segments * taken
    if at_work >= source.cores:
        return ""
    number = "one" if taken == 1 else f"{taken}"
    more = ""
    if each > 1 and not source.network.by_threads:
        more = f"; the runtime gives a process up to {each} threads where they pay, so it may take less time"
    return f"{at_work} of {source.cores} cores of a host at work, {number} for each process{more}"


def _skew(source: Source, options: PlanOptions) -> str:
    if options.hosts is not None or source.skew <= SKEWED:
        return ""
    return (
        f"a skew of {source.skew:.2f} however many hosts there are; where many rows have one distribution key, "
        "they stay on one segment, and more hosts do not help"
    )


def _missing(source: Source) -> str:
    steps = missing(source.coefficients, source.pictures, source.network)
    return f"no time for {', '.join(steps)}: there is no coefficient" if steps else ""


# A camera's metadata with its preview comes before the size, and takes less than that
HEAD_BYTES, LIMIT, SPARE = 1 << 17, 300, 2.0
# TABLESAMPLE, and relations that have pages of their own
SAMPLE_SINCE, WITH_PAGES = 90500, ("r", "m", "p")


class Images(NamedTuple):
    """Some of a table's images, how many rows it has, its skew, and notes."""

    pictures: tuple[Picture, ...]
    rows: float
    skew: float
    notes: tuple[str, ...]


def look_at(conn: Connection, platform: Platform, options: PlanOptions) -> Images:
    """Return what the images of the table are.

    Raises:
        DataError: the table or the column is not there, or holds no image.
    """
    table, img = TableName.parse(options.table or ""), column(options.column or "img")
    with conn.cursor() as cur:
        name = table.identifier.as_string(cur)
        cur.execute(read("client/plan_table.sql"), {"table": name, "column": img})
        found = cur.fetchone()
        if found is None:
            raise DataError(f"there is no table {table}")
        kind, about, there = found
        if not there:
            raise DataError(f"{table} has no column {img!r} of type bytea", "Name it with --column.")
        pages = kind in WITH_PAGES and platform.kernel >= SAMPLE_SINCE
        share = min(100.0, 100 * SPARE * LIMIT / about) if pages and about > 0 else 100.0
        rows = _heads(cur, table, img, share) or _heads(cur, table, img, 100.0)
        pictures = tuple(_pictures(rows))
        if not pictures:
            raise DataError(f"{table} holds no image in its column {img!r}")
        each = _each(cur, table, platform.segments if kind in WITH_PAGES else 0)
        count, skew = sum(each), max(each) * len(each) / max(1, sum(each))
    notes: tuple[str, ...] = (f"images as {len(pictures)} of {table} are",)
    if len(pictures) < len(rows):
        notes += (f"{len(rows) - len(pictures)} values of {table} are no images",)
    return Images(pictures, count, skew, notes)


def _heads(cur: Cursor, table: TableName, img: str, share: float) -> list[tuple[bytes, int]]:
    sample = "" if share >= 100 else f"TABLESAMPLE SYSTEM ({share:.6f})"
    text = sql.SQL(read("client/plan_images.sql")).format(
        img=sql.Identifier(img),
        head=sql.Literal(HEAD_BYTES),
        table=table.identifier,
        sample=sql.SQL(sample),
        limit=sql.Literal(LIMIT),
    )
    cur.execute(text)
    return [(bytes(head), size) for head, size in cur.fetchall()]


def _pictures(rows: list[tuple[bytes, int]]) -> list[Picture]:
    """Return the images among the values by their headers."""
    found = []
    for head, size in rows:
        try:
            header = read_header(head)
        except ImageError:
            continue
        found.append(Picture(header.format, *header.size, size))
    return found


def _each(cur: Cursor, table: TableName, segments: int) -> list[float]:
    """Return the rows of each segment; of the whole table where there are none."""
    if not segments:
        cur.execute(sql.SQL("SELECT pg_catalog.count(*) FROM {}").format(table.identifier))
        return [float(one(cur) or 0)]
    cur.execute(sql.SQL(read("client/plan_rows.sql")).format(table=table.identifier))
    there = [float(count) for _, count in cur.fetchall()]
    return there + [0.0] * (segments - len(there))


HOSTS = "SELECT host, cores FROM dbinfer.segments"
LOGICAL = (
    "cores a host, as the database counts them: two threads of a core are two, but do little more than one"
)


def database_source(
    model: str | None, options: PlanOptions, found: Coefficients, dsn: str | None, progress: OnProgress
) -> Source:
    """Return the source of a plan with a database.

    Raises:
        RegistryError: there is no such model.
        DataError: the table or the column is not there, or holds no image.
        UsageError: the role may not know which segments share a host, and `segments` does not say how many do.
    """
    with session(dsn, error=DataError, readonly=True) as conn:
        platform = detect(conn)
        title, network = _network(conn, model)
        cores, segments = hosts(conn, platform, options)
        if options.table is None:
            picture, notes = assumed_picture(options, network)
            images = Images((picture,), options.images or 0.0, 1.0, notes)
        else:
            progress(Progress(f"looking at {options.table}"))
            images = look_at(conn, platform, options)
    return Source(
        title=title,
        function=BY_TASK.get(network.task, "predict"),
        coefficients=found,
        network=network,
        pictures=images.pictures,
        images=options.images or images.rows,
        cores=cores,
        segments=segments,
        skew=options.skew or images.skew,
        notes=(
            *images.notes,
            f"inference as in its trial, on the machine that deployed it: {network.milliseconds:.3g} ms an image",
            *([] if options.cores else [f"{cores} {LOGICAL} (--cores)"]),
            *scale_note(found, networks=False),
        ),
    )


def _network(conn: Connection, model: str | None) -> tuple[str, Network]:
    name, _, suffix = (model or "").partition("@")
    with conn.cursor() as cur:
        cur.execute(read("client/plan_model.sql"), {"name": name or None, "suffix": suffix or None})
        row = cur.fetchone()
    if row is None:
        what = f"no model {model!r} is deployed" if model else "the database has no default model"
        raise RegistryError(what, "List the models: dbinfer models")
    name, version, manifest, trial, size, isolation = row
    if manifest is None:
        raise RegistryError(
            f"model {model!r} may not be looked at by your role", "Ask its owner for a grant."
        )
    if not (trial or {}).get("milliseconds"):
        raise RegistryError(
            f"{name}@{version} was deployed without a trial, by an older version", "Deploy it again."
        )
    try:
        network = Network.of(Manifest.from_dict(manifest), trial, name=name, size=size, isolation=isolation)
    except (ManifestError, AttributeError, TypeError) as err:
        # of the registry of an older version, which let in what it was given
        raise RegistryError(
            f"what is stored of {name}@{version} makes no sense: {err}", "Deploy it again."
        ) from err
    return f"{name}@{version}", network


def hosts(conn: Connection, platform: Platform, options: PlanOptions) -> tuple[int, int]:
    """Return the cores of the smallest host, and the processes of the one with most that score at once.

    Raises:
        UsageError: see database_source.
    """
    with conn.cursor() as cur:
        cur.execute(HOSTS)
        rows = cur.fetchall()
        cores = options.cores or min((int(count) for _, count in rows if count), default=1)
        # other cores than those of the database: hosts that are to be bought have a segment for each
        given = options.segments or options.cores
        if given:
            return cores, given
        if platform.mpp:
            return cores, _fullest([host for host, _ in rows])
        cur.execute(PROCESSES)
        return cores, int((cur.fetchone() or (1,))[0])


def _fullest(names: Sequence[str | None]) -> int:
    """Return how many segments the host with most of them has, by the host of each."""
    if None in names:
        raise UsageError(
            "your role is not told which segments share a host",
            "Say with --segments how many a host has, or ask as a member of dbinfer_admin.",
        )
    return max(Counter(names).values(), default=1)


def kept_file() -> Path:
    """Return the file of this machine's coefficients."""
    return state.locate(None).path / "plan.json"


def calibrate(dsn: str | None, progress: OnProgress) -> Coefficients:
    """Return the coefficients of this machine, measured now, and keep them.

    Raises:
        UsageError: the database is a cluster, whose hosts may be other machines.
        ServerError: no server, or dbinfer is not installed there.
    """
    from dbinfer.plan.calibration import run_planning

    if named(dsn) is not None:
        with session(dsn, error=ServerError) as conn:
            if detect(conn).mpp:
                raise UsageError(
                    "coefficients are measured on a PostgreSQL server of this machine, but this is a cluster",
                    "Run it on one of the cluster's hosts without --dsn: with the embedded server.",
                )
    found = from_dict(run_planning(dsn, None, progress).coefficients, "the calibration")
    write(kept_file(), found)
    return found


def find_source(model: str | None, options: PlanOptions, dsn: str | None, progress: OnProgress) -> Source:
    """Return the source of a plan; see dbinfer.plan.plan."""
    deployed = named(dsn) is not None or options.table is not None
    if deployed and options.precision is not None:
        raise UsageError(
            f"precision is {options.precision!r}, but a deployed model has its own",
            "Leave it out; name another version of the model, if you have one of that precision.",
        )
    found = coefficients(options, dsn, progress)
    if not deployed:
        return _measured(model, options, found)
    return database_source(model, options, found, dsn, progress)


def coefficients(options: PlanOptions, dsn: str | None, progress: OnProgress) -> Coefficients:
    """Return the coefficients to use."""
    if options.calibrate:
        return calibrate(dsn, progress)
    path = options.coefficients or kept_file()
    found = read_coefficients(path) if options.coefficients or path.exists() else shipped()
    if not options.here:
        return found
    from dbinfer.plan.calibration import probe

    return scaled(found, probe())


def _measured(model: str | None, options: PlanOptions, found: Coefficients) -> Source:
    """Return the source without a database."""
    network = measured_network(model, options.precision or "f32", found.models)
    picture, notes = assumed_picture(options, network)
    cores = options.cores or CORES
    if options.cores is None:
        notes += (f"hosts of {CORES} cores (--cores)",)
    notes += scale_note(found, networks=True)
    assert options.images is not None
    return Source(
        title=network.name,
        function=BY_TASK.get(network.task, "predict"),
        coefficients=found,
        network=network,
        pictures=(picture,),
        images=options.images,
        cores=cores,
        segments=options.segments or cores,
        skew=options.skew or 1.0,
        notes=notes,
    )


def measured_network(model: str | None, precision: str, models: Mapping[str, Network]) -> Network:
    """Return the facts of a network that was measured.

    Raises:
        UsageError: there is none of that name, or not in that precision.
    """
    if not models:
        raise UsageError(
            "the coefficients hold no network",
            "Name a database with --dsn, where the model is deployed, or measure again: dbinfer plan --calibrate",
        )
    names = ", ".join(sorted({network.name for network in models.values()}))
    if model is None:
        raise UsageError("no model is named", f"Measured are {names}; or name a database with --dsn.")
    there = {network.precision: network for network in models.values() if network.name == model}
    if not there:
        raise UsageError(
            f"no model {model!r} was measured; there are {names}",
            "Deploy it, and name the database with --dsn: its trial there says what it takes.",
        )
    if precision not in there:
        raise UsageError(f"{model} was not measured in {precision}, but in {', '.join(there)}")
    return there[precision]
