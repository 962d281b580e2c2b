"""How many hosts are needed for so many images a day, or how long some hosts take: by the last job on the table, by
some of its rows, or by the model's trial.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, RegistryError, UsageError
from dbinfer.base.options import documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import one, session
from dbinfer.database.platform import Platform, detect
from dbinfer.database.sql import TableName, column, read
from dbinfer.install.balance import PROCESSES
from dbinfer.score.options import BY_TASK, FUNCTIONS, Arguments
from dbinfer_udf.host.limits import fitting, share

__all__ = ["PlanOptions", "PlanReport", "plan"]

DAY_HOURS, HOUR = 24.0, 3600.0
# By source: what jobs took lies between the forecast / SPREAD and the forecast * SPREAD. tests/bench/forecasts.py
# measures it, docs/explanation/planning.md has the figures
SPREAD = {"job": 1.25, "table": 1.25, "trial": 1.3}
# What a row takes of a core beside inference: an image costs by its bytes (docs/explanation/planning.md)
ROW_MS, KILOBYTE_MS, KILOBYTES = 0.02, 0.02, 50.0
# What a core is worth where all others work, too
EFFICIENCY = 0.82
# A shorter job is mostly its start and end
JOB_SECONDS = 10.0
# Rows are scored for so long, in statements of about that time
SECONDS, STATEMENT_SECONDS, LEAST_ROWS, MOST_ROWS, LEAST_PAGES = 3.0, 0.5, 8, 3000, 10
IMG = sql.SQL("s.img")
# TABLESAMPLE, and relations that have pages of their own
SAMPLE_SINCE, WITH_PAGES = 90500, ("r", "m", "p")
MOST_HOSTS = 10**7
# Each of these is above 0, and no larger than this
MOST = {
    "images": 1e15,
    "hours": 1e15,
    "host_count": MOST_HOSTS,
    "kilobytes": 1e15,
    "cores": 10**4,
    "segments": 10**4,
}
COUNTS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
HOURS = {"": 1, "h": 1, "m": 1 / 60, "min": 1 / 60, "s": 1 / 3600}
AMOUNT = r"((?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?)"


def count(option: str, text: str) -> float:
    """Return the number of `50M`, `1.5k`, `2000000` or `2e6`."""
    match = re.fullmatch(AMOUNT + r"\s*([kmgbt]?)", text.strip().lower())
    if not match or not float(match[1]):
        raise UsageError(f"--{option} is {text!r}, but must be a number above 0 such as 2000000, 1.5k or 50M")
    return float(match[1]) * COUNTS[match[2]]


def hours(option: str, text: str) -> float:
    """Return the hours of `6`, `6h`, `90m` or `30s`."""
    match = re.fullmatch(AMOUNT + r"\s*(h|m|min|s|)", text.strip().lower())
    if not match or not float(match[1]):
        raise UsageError(f"--{option} is {text!r}, but must be a time above 0 such as 6, 6h or 90m")
    return float(match[1]) * HOURS[match[2]]


@documented
@dataclass(frozen=True)
class PlanOptions:
    """How many images, of which kind, on which hosts.

    Of hours and host_count the other one is found; without either, the hosts for a day.
    """

    images: float | None = option(
        None, "Images a day, for example 50M. Default: the rows of the table.", read=count
    )
    hours: float | None = option(
        None, "Within how long, for example 6, 6h or 90m. Default: a day.", read=hours
    )
    host_count: int | None = option(None, "Tell how long so many hosts take.")
    table: str | None = option(None, "Table with such images.")
    column: str | None = option(None, "Column of the images in the table. Default: img.")
    kilobytes: float | None = option(None, "Size of an image's file, without a table. Default: 50.")
    cores: int | None = option(None, "Physical cores of a host. Default: the database's.")
    segments: int | None = option(
        None, "Segments of a host. Default: one for each core where cores are given, else the database's."
    )

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and 0 < value <= most):
                raise UsageError(f"{name} is {value:g}, but must be greater than 0 and at most {most:g}")
        if self.hours and self.host_count:
            raise UsageError(
                "hours and host_count are both given, but one of them is what the plan finds",
                "Leave out --host-count to learn how many hosts it takes, or --hours to learn how long they take.",
            )
        if self.images is None and self.table is None:
            raise UsageError("neither images nor a table is given", "Say how many, for example --images 50M.")
        if self.table and self.kilobytes:
            raise UsageError(
                "table and kilobytes are both given, but the table's images have their own size",
                "Leave out one of them.",
            )
        if self.column and not self.table:
            raise UsageError("a column is given, but no table", "Name the table with --table.")
        # without a number of images it is the rows of the table, which are not those of a day
        if self.images and self.hours and self.hours > 24:
            raise UsageError(
                f"hours is {self.hours:g}, but must be at most 24, because images are those of a day",
                "Divide both by the number of days.",
            )


@dataclass(frozen=True)
class PlanReport(Report):
    """What the images need.

    Attributes:
        model: NAME@VERSION; function: that scores it.
        images: to score; hours: that this takes; hosts: that do it.
        hours_between, hosts_between: the least and the most within the measured spread of such forecasts; hosts
            that are given are both.
        cores, segments: of each host; workers: cores of a host at work.
        images_per_second: of all hosts together; images_per_second_host: of one host.
        source: where the speed comes from: `job`, `table` or `trial`; measured: the same in words.
        notes: what was assumed, one note each.
    """

    model: str
    function: str
    images: float
    hours: float
    hours_between: tuple[float, float]
    hosts: int
    hosts_between: tuple[int, int]
    cores: int
    segments: int
    workers: int
    images_per_second: float
    images_per_second_host: float
    source: str
    measured: str
    notes: tuple[str, ...]


def plan(
    model: str | None = None,
    options: PlanOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> PlanReport:
    """Return how many hosts score the images within the hours, or how many hours the hosts take.

    With a table whose last job of this version is not at hand, rows of it are scored for some seconds.

    Args:
        model: one that is deployed; None: the database's default model.
        options: how many images, of which kind, on which hosts.
        dsn: the database; see dbinfer.database.connection.resolve.

    Raises:
        UsageError: options that make no sense, or more hosts than there can be.
        RegistryError: the database has no such model.
        DataError: the table or the column is not there, or holds no image.
    """
    options = options or PlanOptions()
    with session(dsn, error=DataError, readonly=True) as conn:
        platform = detect(conn)
        version = find_version(conn, model)
        hosts = find_hosts(conn, platform, options)
        images = options.images or 0.0
        if options.table is None:
            speed = by_trial(version, options.kilobytes or KILOBYTES)
        else:
            table = Table(conn, platform, options, dsn)
            speed = by_job(table, version, hosts) or by_rows(table, version, hosts, progress)
            images = images or table.rows()
    return forecast(images, version, hosts, speed, options)


@dataclass(frozen=True)
class Version:
    """A deployed version, with what its trial found."""

    name: str
    number: int
    function: str
    milliseconds: float
    by_threads: Mapping[str, float]

    @property
    def call(self) -> sql.Composed:
        """The call that scores an image, for a statement of `Table.sample`."""
        return FUNCTIONS[self.function].call(IMG, Arguments(f"{self.name}@{self.number}", "null"))

    def workers(self, cores: int, segments: int) -> int:
        """Return how many cores of a host are at work: with few segments, each has as many threads as pay."""
        return min(cores, segments * fitting(share(cores, segments), self.by_threads))


@dataclass(frozen=True)
class Hosts:
    """What a database runs on: hosts, the cores of the smallest and the scoring processes of the fullest."""

    count: int
    cores: int
    segments: int


@dataclass(frozen=True)
class Speed:
    """Images a second that one core scores while the others work, where that comes from, and what was assumed."""

    rate: float
    source: str
    measured: str
    notes: tuple[str, ...] = ()


def forecast(images: float, version: Version, hosts: Hosts, speed: Speed, options: PlanOptions) -> PlanReport:
    """Return what the images need: seconds = images / (hosts x cores at work x images/s of a core)."""
    cores = options.cores or hosts.cores
    segments = options.segments or options.cores or hosts.segments
    workers = version.workers(cores, segments)
    a_host = speed.rate * workers
    within = (options.hours or DAY_HOURS) * HOUR
    spread = SPREAD[speed.source]

    def needed(rate: float) -> int:
        return options.host_count or max(1, math.ceil(images / (rate * within)))

    count = needed(a_host)
    if count > MOST_HOSTS:
        raise UsageError(
            f"{images:,.0f} images in {within:g} seconds need more than {MOST_HOSTS:,} hosts",
            "Allow more hours.",
        )
    hours = images / (a_host * count) / HOUR
    return PlanReport(
        model=f"{version.name}@{version.number}",
        function=version.function,
        images=images,
        hours=hours,
        hours_between=(hours / spread, hours * spread),
        hosts=count,
        hosts_between=(needed(a_host * spread), needed(a_host / spread)),
        cores=cores,
        segments=segments,
        workers=workers,
        images_per_second=a_host * count,
        images_per_second_host=a_host,
        source=speed.source,
        measured=speed.measured,
        notes=speed.notes,
    )


def by_trial(version: Version, kilobytes: float) -> Speed:
    """Return the speed by what the trial at deploy measured, and what files of that size cost."""
    others = ROW_MS + KILOBYTE_MS * kilobytes
    return Speed(
        EFFICIENCY * 1e3 / (version.milliseconds + others),
        "trial",
        f"inference {version.milliseconds:.3g} ms by the trial at deploy, the rest {others:.3g} ms by the file's size",
        (
            f"files of {kilobytes:g} kB (--kilobytes)",
            "the hosts compute as fast as the machine that deployed the model",
        ),
    )


def by_job(table: Table, version: Version, hosts: Hosts) -> Speed | None:
    """Return the speed of the last job of this table and version; None where there is none of some length."""
    with table.conn.cursor() as cur:
        asked = {"table": str(table.name), "model": version.name, "version": version.number}
        cur.execute(read("client/plan_job.sql"), {**asked, "least": JOB_SECONDS})
        found = cur.fetchone()
    if found is None or not found[1]:
        return None
    job, rows, seconds = found
    cores = hosts.count * version.workers(hosts.cores, hosts.segments)
    return Speed(rows / seconds / cores, "job", f"job {job} scored {rows:,} rows in {seconds:,.0f} s")


def by_rows(table: Table, version: Version, hosts: Hosts, progress: OnProgress) -> Speed:
    """Return the speed at which rows of the table are scored now, by as many processes as a host has.

    Raises:
        DataError: none of them holds an image.
    """
    progress(Progress(f"scoring rows of {table.name}"))
    with ExitStack() as stack:
        opened = [stack.enter_context(table.session()) for _ in range(hosts.segments)]
        pool = stack.enter_context(ThreadPoolExecutor(hosts.segments))

        def score(rows: int, seconds: float = 0.0) -> list[tuple[int, int, float]]:
            reading, scoring = (table.sample(call, rows) for call in (IMG, version.call))
            return list(pool.map(lambda conn: _score(conn, reading, scoring, seconds), opened))

        # the model is loaded first; then a statement gets as many rows as are timed well
        for _ in range(2):
            slowest = min(rate for _, _, rate in score(LEAST_ROWS))
        rows = max(LEAST_ROWS, min(MOST_ROWS, round(slowest * STATEMENT_SECONDS)))
        # a session leaves its first rows to an engine that runs, even those of a fast model
        score(rows, SECONDS / 2)
        seen, good, rate = map(sum, zip(*score(rows, SECONDS), strict=True))
    if not good:
        raise DataError(f"{table.name} holds no image in its column {table.column!r}")
    notes = [f"{seen - good:,} of {seen:,} rows of {table.name} hold no image that can be read"] * (
        good < seen
    )
    if table.mpp:
        notes += [
            "segment hosts like the coordinator's, where these rows were scored; equally many rows on each segment"
        ]
    speed = rate / version.workers(hosts.cores, hosts.segments)
    return Speed(speed, "table", f"{seen:,} rows of {table.name} scored now", tuple(notes))


class Table:
    """The table whose images are to be scored.

    Raises:
        DataError: there is no such table, or no such column in it.
    """

    def __init__(self, conn: Connection, platform: Platform, options: PlanOptions, dsn: str | None) -> None:
        self.conn, self.dsn = conn, dsn
        self.column = column(options.column or "img")
        with conn.cursor() as cur:
            self.name = TableName.parse(options.table or "").resolve(cur)
            named = {"table": self.name.identifier.as_string(cur), "column": self.column}
            cur.execute(read("client/plan_table.sql"), named)
            found = cur.fetchone()
        if found is None:
            raise DataError(f"there is no table {self.name}")
        kind, self.about, self.pages, there = found
        self.sampled = kind in WITH_PAGES and platform.kernel >= SAMPLE_SINCE and self.about > 0
        self.mpp = platform.mpp
        if not there:
            raise DataError(
                f"{self.name} has no column {self.column!r} of type bytea", "Name it with --column."
            )

    def rows(self) -> float:
        """Return how many rows there are."""
        with self.conn.cursor() as cur:
            cur.execute(sql.SQL("SELECT pg_catalog.count(*) FROM {}").format(self.name.identifier))
            return float(one(cur))

    def sample(self, call: sql.Composable, rows: int) -> sql.Composed:
        """Return the statement that calls something for so many rows from all over the table."""
        share = max(2 * rows / self.about, LEAST_PAGES / max(1, self.pages)) if self.sampled else 1.0
        return sql.SQL(read("client/plan_sample.sql")).format(
            call=call,
            img=sql.Identifier(self.column),
            table=self.name.identifier,
            sample=sql.SQL(f"TABLESAMPLE SYSTEM ({100 * share})" if share < 1 else ""),
            rows=sql.Literal(rows),
        )

    def session(self) -> AbstractContextManager[Connection]:
        """Open another session."""
        return session(self.dsn, error=DataError, readonly=True)


def _score(
    conn: Connection, reading: sql.Composed, scoring: sql.Composed, seconds: float
) -> tuple[int, int, float]:
    """Return rows, those with a result, and rows a second of a session that scores for so long.

    To find the rows of a large table may take longer than to score them: that time is taken out.
    """
    taken: list[tuple[int, int, float, float]] = []
    end = time.monotonic() + seconds
    with conn.cursor() as cur:
        while not taken or (taken[-1][0] and time.monotonic() < end):
            clock = [time.monotonic()]
            for text in (reading, scoring):
                cur.execute(text)
                clock.append(time.monotonic())
            rows, results = cur.fetchone() or (0, 0)
            taken.append((rows, results, clock[1] - clock[0], clock[2] - clock[1]))
    seen, good, _, scored = (sum(column) for column in zip(*taken, strict=True))
    # the least, because what other programs slowed would hide the scoring
    found = len(taken) * min(one[2] for one in taken)
    return int(seen), int(good), seen / max(scored - found, scored / 100)


def find_version(conn: Connection, model: str | None) -> Version:
    """Return the version that a reference means.

    Raises:
        RegistryError: there is none, the role may not run it, or it was deployed without a trial.
    """
    name, _, suffix = (model or "").partition("@")
    with conn.cursor() as cur:
        cur.execute(read("client/plan_model.sql"), {"name": name or None, "suffix": suffix or None})
        row = cur.fetchone()
    if row is None:
        what = f"no model {model!r} is deployed" if model else "the database has no default model"
        raise RegistryError(what, "List the models: dbinfer models")
    name, number, manifest, trial = row
    if manifest is None:
        raise RegistryError(
            f"model {model!r} may not be looked at by your role", "Ask its owner for a grant."
        )
    if not (trial or {}).get("milliseconds"):
        raise RegistryError(f"{name}@{number} was deployed without a trial", "Deploy it again.")
    try:
        # of many images, where precisions were compared; else of three
        tried = ((trial.get("precision") or {}).get("tried") or {}).get(manifest.get("precision")) or {}
        taken = float(tried.get("milliseconds") or trial["milliseconds"])
        function = BY_TASK.get(manifest["task"], "predict")
        return Version(name, number, function, taken, dict(trial.get("by_threads") or {}))
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        # of the registry of an older version, which let in what it was given
        raise RegistryError(
            f"what is stored of {name}@{number} makes no sense: {err}", "Deploy it again."
        ) from err


def find_hosts(conn: Connection, platform: Platform, options: PlanOptions) -> Hosts:
    """Return the hosts of a database.

    Raises:
        UsageError: the role may not know which segments share a host, and `segments` does not say how many do.
    """
    with conn.cursor() as cur:
        cur.execute("SELECT host, cores FROM dbinfer.segments")
        rows = cur.fetchall()
        cores = min((int(count) for _, count in rows if count), default=1)
        if not platform.mpp:
            cur.execute(PROCESSES)
            return Hosts(1, cores, int(one(cur)))
    each = Counter(host for host, _ in rows)
    if None not in each:
        return Hosts(len(each), cores, max(each.values(), default=1))
    if options.segments is None:
        raise UsageError(
            "your role is not told which segments share a host",
            "Say with --segments how many a host has, or ask as a member of dbinfer_admin.",
        )
    return Hosts(max(1, len(rows) // options.segments), cores, options.segments)
