"""A plan's numbers from a database: the model's trial, the images of a table, and the hosts' cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from psycopg2.extensions import connection as Connection

from dbinfer.balance.crowding import PROCESSES
from dbinfer.connection import session
from dbinfer.cost import Coefficients, Network
from dbinfer.errors import DataError, RegistryError, UsageError
from dbinfer.plan.notes import scale_note
from dbinfer.plan.options import PlanOptions
from dbinfer.plan.source import Source, assumed_picture
from dbinfer.plan.table import Images, look_at
from dbinfer.platform import Platform, detect
from dbinfer.progress import OnProgress, Progress
from dbinfer.score.functions import BY_TASK
from dbinfer.sqlfiles import read
from dbinfer_udf.manifest import Manifest, ManifestError

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
