"""Statements to measure for a plan, on tables of one kind of image, and what they took."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np
from psycopg2 import sql

from dbinfer.base.apart import cores
from dbinfer.bench import networks
from dbinfer.bench.database import Database
from dbinfer.bench.methods import COUNT
from dbinfer.database.sql import read
from dbinfer.images import builtin
from dbinfer.models import DeployOptions, deploy
from dbinfer.plan.cost import Coefficients, Load, Network, Picture, row_seconds, statement_seconds
from dbinfer_udf.model.trial import Limits, Result, run_trial

PICTURES, COUNT_LARGE, LARGE = 16, 4, 3_000_000
SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WebP": ".webp", "BMP": ".bmp", "TIFF": ".tiff"}


@dataclass(frozen=True)
class Kind:
    """Image files of one kind; those of 28 x 28 are digits."""

    width: int
    height: int
    format: str = "JPEG"
    quality: int = builtin.JPEG_QUALITY

    @property
    def title(self) -> str:
        """Name for people: `500x375 JPEG`, with the quality where it is not the usual one."""
        quality = "" if self.quality == builtin.JPEG_QUALITY else f" q{self.quality}"
        return f"{self.width}x{self.height} {self.format}{quality}"

    def files(self) -> tuple[bytes, ...]:
        """Return a few different files."""
        if self.width == builtin.DIGIT_SIZE:
            digits = (data for data, _label in builtin.digit_files("heldout"))
            return tuple(itertools.islice(digits, 256))
        count = COUNT_LARGE if self.width * self.height > LARGE else PICTURES
        files = builtin.photograph_files((self.width, self.height), count)
        if (self.format, self.quality) == ("JPEG", builtin.JPEG_QUALITY):
            return tuple(files)
        return tuple(self._again(data) for data in files)

    def _again(self, data: bytes) -> bytes:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        return builtin.encode(SUFFIXES[self.format], np.asarray(image, np.uint8), self.quality)

    def picture(self, files: tuple[bytes, ...]) -> Picture:
        """Return what a cost depends on."""
        return Picture(self.format, self.width, self.height, sum(map(len, files)) / len(files))


@dataclass(frozen=True)
class Case:
    """A statement to measure.

    Attributes:
        processes: that score it on PostgreSQL; on Greenplum the segments do.
        skew: the share of the rows that go to one segment of Greenplum before the rest is spread.
        held: not used for the fit.
    """

    network: str
    kind: Kind
    precision: str = "f32"
    processes: int = 1
    skew: float = 0.0
    held: bool = True

    @property
    def title(self) -> str:
        """Name for people."""
        return f"{self.network} {self.precision}, {self.kind.title}"


@dataclass(frozen=True)
class Point:
    """A measured statement.

    Attributes:
        kind: of the images, for people.
        rows: of each process; fresh: how many processes were new.
        seconds: of the whole statement, the least of some; spread: the longest of them / the least.
    """

    kind: str
    picture: Picture
    network: Network
    rows: tuple[float, ...]
    cores: int
    fresh: int
    seconds: float
    spread: float
    server: str
    held: bool

    @property
    def load(self) -> Load:
        """What the processes had to do."""
        return Load(self.rows, self.cores, self.fresh)

    def predicted(self, found: Coefficients) -> float:
        """Return the seconds that coefficients say."""
        return statement_seconds(found, (self.picture,), self.network, self.load)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "rows": list(self.rows)}


def point_of(values: Mapping[str, Any]) -> Point:
    """Return the point of a report."""
    known = {name: values[name] for name in Point.__dataclass_fields__}
    made = {"picture": Picture(**values["picture"]), "network": Network(**values["network"])}
    return Point(**{**known, **made, "rows": tuple(values["rows"])})


FUNCTIONS = {"segmentation": "segment", "detection": "detect"}
SETTINGS = ("max_parallel_workers_per_gather", "max_parallel_workers")
SECONDS, LEAST_ROWS = 0.7, 24
SET_TABLE = "ALTER TABLE {table} SET (parallel_workers = %s)"
EACH = "SELECT gp_segment_id, count(*) FROM {table} GROUP BY 1"


class Trials:
    """Tries networks of the harness, round by round.

    Args:
        keys: names and precisions.
    """

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        self._files = {key: networks.model_files(*key) for key in dict.fromkeys(keys)}
        self._found: dict[tuple[str, str], list[Result]] = {key: [] for key in self._files}

    def round(self) -> None:
        """Try each of them once."""
        for key, one in self._files.items():
            found = run_trial(sys.executable, one.entry.path("xml"), one.manifest.precision, Limits())
            self._found[key].append(found)

    def best(self) -> dict[tuple[str, str], Network]:
        """Return their facts by the best trial of each."""
        return {key: _network(key, one, self._found[key]) for key, one in self._files.items()}


def _network(key: tuple[str, str], files: networks.ModelFiles, trials: Sequence[Result]) -> Network:
    best = asdict(min(trials, key=lambda one: one.milliseconds))
    batches = [one.batch_milliseconds for one in trials if one.batch_milliseconds]
    best["batch_milliseconds"] = min(batches, default=None)
    best["compile_milliseconds"] = min(one.compile_milliseconds for one in trials)
    size = round(files.megabytes * 1e6)
    return Network.of(files.manifest, best, name=key[0], precision=key[1], size=size)


@dataclass(frozen=True)
class Prepared:
    """A case with its table filled.

    Attributes:
        table: its name; rows: of each process; processes: that score it.
    """

    case: Case
    picture: Picture
    table: str
    rows: tuple[float, ...]
    processes: int


class Points:
    """Measures points on one database.

    Args:
        found: coefficients by which the tables are made as large as is needed.
        known: networks by name and precision, as far as they were tried when the tables are filled.
        cases: to measure.
    """

    def __init__(
        self,
        database: Database,
        found: Coefficients,
        known: Mapping[tuple[str, str], Network],
        cases: Sequence[Case],
    ) -> None:
        self.database, self.found, self.known = database, found, known
        self._prepared = [self._prepare(case, f"plan{number}") for number, case in enumerate(cases)]
        self._taken: list[list[float]] = []
        # the first time networks are compiled
        for one in self._prepared:
            self._seconds(one)

    def round(self) -> None:
        """Time each statement once."""
        self._taken.append([self._seconds(one) for one in self._prepared])

    def best(self, known: Mapping[tuple[str, str], Network]) -> list[Point]:
        """Return the points with the least seconds of each: neighbours slow a virtual machine, nothing makes it faster.

        Args:
            known: the networks after all trials.
        """
        each = zip(self._prepared, zip(*self._taken, strict=True), strict=True)
        return [
            self._point(one, known[one.case.network, one.case.precision], seconds) for one, seconds in each
        ]

    def deploy(self, case: Case) -> str:
        """Deploy a case's network the first time; return the model's name."""
        model = f"dbinfer_bench_{case.network}_{case.precision}"
        if model not in self.database.models:
            files = networks.model_files(case.network, case.precision)
            values = {"precision": files.manifest.precision}
            deploy(files.source, DeployOptions(name=model, values=values), self.database.dsn)
            self.database.models.add(model)
        return model

    def statement(self, case: Case, table: str) -> sql.Composed:
        """Return the statement that scores a table."""
        task = self.known[case.network, case.precision].task
        function = sql.Identifier("dbinfer", FUNCTIONS.get(task, "classify"))
        call = sql.SQL("{}(img, {})").format(function, sql.Literal(self.deploy(case)))
        return self.database.format(COUNT, call=call, table=self.database.table(table))

    def first(self, case: Case, rows: int) -> sql.Composed:
        """Return a statement that scores so many rows of a case, all of the same image."""
        self.database.images(case.kind.files()[:1])
        self.database.fill("first", rows, 1)
        return self.statement(case, "first")

    def _prepare(self, case: Case, table: str) -> Prepared:
        files, mpp = case.kind.files(), self.database.platform.mpp
        picture, network = case.kind.picture(files), self.known[case.network, case.precision]
        processes = self.database.platform.segments if mpp else case.processes
        self.deploy(case)
        rate = min(processes, cores()) / row_seconds(self.found, (picture,), network)
        rows = self._fill(case, table, files, max(LEAST_ROWS, round(rate * SECONDS)))
        return Prepared(case, picture, table, rows, processes)

    def _fill(self, case: Case, table: str, files: tuple[bytes, ...], rows: int) -> tuple[float, ...]:
        """Fill the table; return the rows of each process."""
        database = self.database
        database.images(files)
        filled = database.fill(table, rows, len(files))
        if not database.platform.mpp:
            for name in SETTINGS:
                # of all cores, whatever the case: a backend has as many threads as this leaves it
                database.run(f"SET {name} = %s", (cores() - 1,))
            database.run(SET_TABLE, (case.processes - 1,), table=database.table(table))
            return (filled / case.processes,) * case.processes
        if case.skew:
            self._skew(table, case.skew, rows, len(files))
        each = database.rows(database.format(EACH, table=database.table(table)))
        return tuple(float(count) for _, count in each)

    def _skew(self, table: str, share: float, rows: int, images: int) -> None:
        """Fill the table anew by a key of few values, so that most rows lie on one segment."""
        database = self.database
        names = {"table": database.table(table), "source": database.table("source")}
        database.run(read("bench/skewed_table.sql"), **names)
        database.run(read("bench/fill_skewed.sql"), {"rows": rows, "images": images, "share": share}, **names)
        database.run("ANALYZE {table}", **names)

    def _seconds(self, prepared: Prepared) -> float:
        text = self.statement(prepared.case, prepared.table)
        started = time.perf_counter()
        self.database.one(text)
        return time.perf_counter() - started

    def _point(self, prepared: Prepared, network: Network, seconds: Sequence[float]) -> Point:
        platform = self.database.platform
        return Point(
            kind=prepared.case.kind.title,
            picture=prepared.picture,
            network=network,
            rows=prepared.rows,
            cores=cores(),
            fresh=0 if platform.mpp else prepared.processes - 1,
            seconds=round(min(seconds), 4),
            spread=round(max(seconds) / min(seconds), 3),
            server=f"{platform.name} {platform.version}",
            held=prepared.case.held,
        )


DIGIT, PHOTO = Kind(28, 28, "PNG"), Kind(500, 375)
PNG, WEBP, BMP, TIFF = "PNG", "WebP", "BMP", "TIFF"
STEPS: tuple[tuple[str, Kind], ...] = (
    ("digits", DIGIT),
    ("digits", PHOTO),
    ("mobilenet_v2", Kind(224, 224)),
    ("mobilenet_v2", PHOTO),
    ("mobilenet_v2", Kind(500, 375, quality=60)),
    ("mobilenet_v2", Kind(600, 450)),
    ("mobilenet_v2", Kind(2000, 1500)),
    ("mobilenet_v2", Kind(2000, 1500, quality=60)),
    ("mobilenet_v2", Kind(4000, 3000)),
    *(
        ("mobilenet_v2", Kind(*size, name))
        for name in (PNG, WEBP, BMP, TIFF)
        for size in ((224, 224), (1000, 750))
    ),
    ("unet", PHOTO),
    ("unet", Kind(2000, 1500)),
)
FITTED = (
    Case("digits", DIGIT, held=False),
    Case("digits", PHOTO, held=False),
    Case("mobilenet_v2", Kind(224, 224), held=False),
    Case("mobilenet_v2", PHOTO, held=False),
    Case("mobilenet_v2", Kind(4000, 3000), held=False),
)
HELD = (
    Case("resnet50", PHOTO),
    Case("resnet50", PHOTO, processes=2),
    Case("resnet50", Kind(1000, 750), processes=2),
    Case("mobilenet_v2", Kind(1000, 750)),
    Case("mobilenet_v2", PHOTO, processes=2),
    Case("mobilenet_v2", Kind(3000, 2000), processes=2),
    Case("mobilenet_v2", Kind(640, 480, quality=75)),
    Case("mobilenet_v2", Kind(800, 600, PNG)),
    Case("mobilenet_v2", PHOTO, "int8", 2),
    Case("resnet50", PHOTO, "int8", 2),
    Case("digits", DIGIT, processes=2),
    Case("unet", Kind(1000, 750), processes=2),
    Case("detector", Kind(640, 480), processes=2),
)
SEGMENTS = (
    Case("resnet50", PHOTO),
    Case("mobilenet_v2", PHOTO),
    Case("mobilenet_v2", Kind(1600, 1200)),
    Case("digits", DIGIT),
    Case("mobilenet_v2", PHOTO, skew=1.0),
    Case("mobilenet_v2", PHOTO, skew=0.6),
)
# What a fresh process works before its first row, where it scores itself, and with the engine
STARTS = {"backend": Case("digits", DIGIT), "engine": Case("mobilenet_v2", PHOTO)}
