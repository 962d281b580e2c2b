"""Points of a plan: whole SQL statements on tables of one kind of image, with all that a prediction needs to know."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from psycopg2 import sql

from dbinfer.bench import networks
from dbinfer.bench.database import Database
from dbinfer.bench.methods import COUNT
from dbinfer.bench.pictures import Kind
from dbinfer.bench.speed import Speed
from dbinfer.cost import Coefficients, Load, Network, Picture, row_seconds, statement_seconds
from dbinfer.machine import cores
from dbinfer.registry import DeployOptions, deploy
from dbinfer.sqlfiles import read
from dbinfer_udf.trial import Limits, run_trial

FUNCTIONS = {"segmentation": "segment", "detection": "detect"}
SETTINGS = ("max_parallel_workers_per_gather", "max_parallel_workers")
SECONDS, LEAST_ROWS, TRIALS = 1.2, 24, 5
SET_TABLE = "ALTER TABLE {table} SET (parallel_workers = %s)"
EACH = "SELECT gp_segment_id, count(*) FROM {table} GROUP BY 1"


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
        seconds: of the whole statement at the machine's best speed, the median of some.
        spread: the longest of them / the least; slower: than its best the machine was meanwhile.
    """

    kind: str
    picture: Picture
    network: Network
    rows: tuple[float, ...]
    cores: int
    fresh: int
    seconds: float
    spread: float
    slower: float
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


def model_name(network: str, precision: str) -> str:
    """Return the name of a network in the database."""
    return f"dbinfer_bench_{network}_{precision}"


def network_of(name: str, precision: str, speed: Speed) -> Network:
    """Return the facts of a network of the harness, as some trials find it at the machine's best speed."""
    files, found = networks.model_files(name, precision), []

    def tried() -> float:
        found.append(run_trial(sys.executable, files.entry.path("xml"), files.manifest.precision, Limits()))
        return found[-1].milliseconds

    milliseconds = speed.measured(tried, rounds=TRIALS)[0]
    middle = sorted(found, key=lambda one: one.milliseconds)[TRIALS // 2]
    share = milliseconds / middle.milliseconds
    trial = {**asdict(middle), "milliseconds": round(milliseconds, 4)}
    trial["compile_milliseconds"] = round(middle.compile_milliseconds * share, 1)
    if middle.batch_milliseconds:
        trial["batch_milliseconds"] = round(middle.batch_milliseconds * share, 4)
    size = round(files.megabytes * 1e6)
    return Network.of(files.manifest, trial, name=name, precision=precision, size=size)


class Points:
    """Measures points on one database.

    Args:
        found: coefficients by which the tables are made as large as is needed.
        speed: of the machine, by which all seconds are divided.
    """

    def __init__(self, database: Database, found: Coefficients, speed: Speed) -> None:
        self.database, self.found, self.speed = database, found, speed
        self.networks: dict[tuple[str, str], Network] = {}

    def network(self, case: Case) -> Network:
        """Return the facts of a case's network; the first time it is deployed."""
        model = model_name(case.network, case.precision)
        if model not in self.database.models:
            files = networks.model_files(case.network, case.precision)
            values = {"precision": files.manifest.precision}
            deploy(files.source, DeployOptions(name=model, values=values), self.database.dsn)
            self.database.models.add(model)
        return self.facts(case.network, case.precision)

    def facts(self, name: str, precision: str) -> Network:
        """Return the facts of a network; it is tried the first time."""
        key = (name, precision)
        if key not in self.networks:
            self.networks[key] = network_of(*key, self.speed)
        return self.networks[key]

    def first(self, case: Case) -> sql.Composed:
        """Return a statement that scores one row of a case."""
        self.database.images(case.kind.files()[:1])
        text = "SELECT {call} FROM {source}"
        call = self._call(self.network(case))
        return self.database.format(text, call=call, source=self.database.table("source"))

    def measure(self, case: Case) -> Point:
        """Return the point of a case."""
        files = case.kind.files()
        picture, network = case.kind.picture(files), self.network(case)
        mpp = self.database.platform.mpp
        processes = self.database.platform.segments if mpp else case.processes
        rate = min(processes, cores()) / row_seconds(self.found, (picture,), network)
        rows = self._fill(case, files, max(LEAST_ROWS, round(rate * SECONDS)))
        self._processes(processes)
        text = self._statement(network)
        # the session's own process loads the model; on Greenplum the segments' processes stay
        self.database.one(text)
        measured = self.speed.measured(lambda: self._seconds(text), processes)
        return Point(
            kind=case.kind.title,
            picture=picture,
            network=network,
            rows=rows,
            cores=cores(),
            fresh=0 if mpp else processes - 1,
            seconds=round(measured[0], 4),
            spread=round(measured[1], 3),
            slower=round(measured[2], 3),
            server=f"{self.database.platform.name} {self.database.platform.version}",
            held=case.held,
        )

    def _fill(self, case: Case, files: tuple[bytes, ...], rows: int) -> tuple[float, ...]:
        """Fill the table; return the rows of each process."""
        database = self.database
        database.images(files)
        filled = database.fill("big", rows, len(files))
        if not database.platform.mpp:
            return (filled / case.processes,) * case.processes
        if case.skew:
            self._skew(case.skew, rows, len(files))
        each = database.rows(database.format(EACH, table=database.table("big")))
        return tuple(float(count) for _, count in each)

    def _skew(self, share: float, rows: int, images: int) -> None:
        """Fill the table anew by a key of few values, so that most rows lie on one segment."""
        database = self.database
        names = {"table": database.table("big"), "source": database.table("source")}
        database.run(read("bench/skewed_table.sql"), **names)
        database.run(read("bench/fill_skewed.sql"), {"rows": rows, "images": images, "share": share}, **names)
        database.run("ANALYZE {table}", **names)

    def _processes(self, count: int) -> None:
        if self.database.platform.mpp:
            return
        for name in SETTINGS:
            # of all cores, whatever the case: a backend has as many threads as this leaves it
            self.database.run(f"SET {name} = %s", (cores() - 1,))
        self.database.run(SET_TABLE, (count - 1,), table=self.database.table("big"))

    def _statement(self, network: Network) -> sql.Composed:
        return self.database.format(COUNT, call=self._call(network), table=self.database.table("big"))

    def _call(self, network: Network) -> sql.Composed:
        function = sql.Identifier("dbinfer", FUNCTIONS.get(network.task, "classify"))
        model = sql.Literal(model_name(network.name, network.precision))
        return sql.SQL("{}(img, {})").format(function, model)

    def _seconds(self, text: sql.Composed) -> float:
        started = time.perf_counter()
        self.database.one(text)
        return time.perf_counter() - started
