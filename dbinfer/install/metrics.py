"""What the views of a database say, as metrics for Prometheus: served over HTTP, or printed once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DbinferError, ServerError, UsageError
from dbinfer.base.options import address, address_text, check, documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database import pins
from dbinfer.database.connection import connect, require_dbinfer
from dbinfer.database.platform import Platform, detect
from dbinfer.database.sql import read

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

# Prometheus waits for ten seconds. LOCAL: behind a pooler the next client gets this server session
LOCAL = "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL statement_timeout = '8s'"


def processes_score(platform: Platform) -> bool:
    """Return whether there are processes of the server's that score, and not workers alone."""
    return not platform.tables_only


class Figure(NamedTuple):
    """A metric: its name without `dbinfer_` and, where it only ever grows, without `_total`; and what it says."""

    name: str
    line: str
    counts: bool = False

    @property
    def metric(self) -> str:
        """Return the whole name."""
        return f"dbinfer_{self.name}{'_total' if self.counts else ''}"


class View(NamedTuple):
    """What one query says: a column for each label, as text, then one for each figure; NULL says nothing. And whether a
    platform has what it asks. With `places` the one figure is a histogram: the bounds, as many counts, and the sum."""

    labels: tuple[str, ...]
    figures: tuple[Figure, ...]
    there: Callable[[Platform], bool] = lambda platform: True
    places: bool = False


# Each by the name of its query in sql/metrics, which is the label `view` of dbinfer_view_up
VIEWS = {
    "version": View(("release",), (Figure("info", "The release in the database."),)),
    "models": View(
        ("model", "version", "task"),
        (Figure("model_bytes", "Bytes of the files of each model's active version."),),
    ),
    "usage": View(
        ("model", "version"),
        (
            Figure(
                "scored_rows", "Images scored, damaged ones included; while the setting usage is on.", True
            ),
            Figure("scoring_seconds", "Time of all processes that they took, loading included.", True),
            Figure("last_scored_timestamp_seconds", "When the last one was scored."),
        ),
    ),
    "times": View(
        ("model", "version"),
        (Figure("row_seconds", "How long rows took; of a batch, its mean."),),
        places=True,
    ),
    "errors": View(
        ("model", "version", "kind"),
        (
            Figure(
                "row_errors",
                "Rows that were scored one by one and had no result, by the kind of error.",
                True,
            ),
        ),
    ),
    "jobs": View(("state",), (Figure("jobs", "Jobs of dbinfer score by their state."),)),
    "job_rows": View(
        ("model",),
        (
            Figure("job_rows", "Rows done by jobs, bad ones included.", True),
            Figure("job_bad_rows", "Rows whose image could not be scored.", True),
            Figure("job_reused_rows", "Rows that got the answer of an equal picture.", True),
        ),
    ),
    "running": View(
        ("source", "target"),
        (
            Figure("running_job_rows_per_second", "Rate of a job that runs."),
            Figure("running_job_rows_left", "Rows that it has still to score."),
            Figure("running_job_silent_seconds", "For how long it has told nothing."),
        ),
    ),
    "queues": View(
        ("queue",),
        (Figure("follow_queue_rows", "Changed rows that wait for dbinfer score --follow."),),
    ),
    "engines": View(
        ("host",),
        (
            Figure("engines", "Engines that run."),
            Figure("engines_faulty", "Engines with a problem."),
            Figure("engine_queue_rows", "Rows that wait for an engine at this moment."),
            Figure("engine_memory_bytes", "Memory of all processes of the engines."),
            Figure("engine_rows", "Rows that the engines have scored since they started.", True),
            Figure("engine_bad_rows", "Rows that ended with an error there.", True),
            Figure("engine_worker_restarts", "Workers that were started again.", True),
        ),
        there=processes_score,
    ),
    "segments": View(
        ("host",),
        (
            Figure("segments", "Processes that can be asked to score: on Greenplum one for each segment."),
            Figure("segments_faulty", "Those of them that cannot score."),
            Figure("cache_bytes", "Bytes in the host's cache of model files."),
            Figure("cache_free_bytes", "Bytes free on its disk."),
        ),
        there=processes_score,
    ),
    "configuration": View(
        ("role",),
        (Figure("segments_down", "Segments that Greenplum has marked as down, by their preferred role."),),
        there=lambda platform: platform.mpp,
    ),
}
# What the exporter says of itself, and of each view
OWN = View(
    (),
    (Figure("up", "Whether the database answered."), Figure("scrape_seconds", "How long it took to answer.")),
)
READ = View(("view",), (Figure("view_up", "Whether a view could be read."),))


@documented
@dataclass(frozen=True)
class MetricsOptions:
    """Where the metrics can be had."""

    listen: str = option("127.0.0.1:9187", "Address and port to serve them at.", metavar="HOST:PORT")
    once: bool = option(False, "Print them and end.")

    def place(self) -> tuple[str, int]:
        """Return host and port.

        Raises:
            UsageError: they are no host and port.
        """
        check(self)
        found = address(self.listen)
        if found is None:
            raise UsageError(f"--listen is {self.listen!r}, but must be HOST:PORT, such as 127.0.0.1:9187")
        return found


@dataclass(frozen=True)
class MetricsReport(Report):
    """What the database said.

    Attributes:
        text: the metrics in Prometheus' text format.
    """

    text: str


def metrics(
    options: MetricsOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> MetricsReport:
    """Serve a database's metrics until told to stop, or return them once.

    Raises:
        ServerError: the database does not answer, or has no dbinfer of this version.
        UsageError: the address is none or is taken, or the package prometheus-client is missing.
    """
    options = options or MetricsOptions()
    place = options.place()
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError as err:
        raise UsageError(
            "dbinfer metrics needs prometheus-client, which is not installed", pins.install("metrics")
        ) from err
    registry, exporter = CollectorRegistry(), Exporter(dsn)
    try:
        # whoever starts it hears of a wrong dsn; later ones are told as dbinfer_up
        exporter.open()
        registry.register(exporter)
        if options.once:
            return MetricsReport(generate_latest(registry).decode())
        _serve(registry, place, progress)
    finally:
        exporter.close()
    return MetricsReport("")


def _serve(registry: CollectorRegistry, place: tuple[str, int], progress: OnProgress) -> None:
    from prometheus_client import start_http_server

    host, port = place
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as err:
        raise UsageError(
            f"cannot listen at {address_text(*place)}: {err.strerror or err}",
            "Choose another: --listen HOST:PORT",
        ) from err
    try:
        progress(Progress(f"serving http://{address_text(host, server.server_port)}/metrics"))
        thread.join()
    finally:
        server.shutdown()
        server.server_close()


class Exporter:
    """Collects the metrics of a database, by one session that lasts from one scrape to the next.

    Args:
        dsn: of the database.
    """

    def __init__(self, dsn: str | None) -> None:
        self._dsn = dsn
        self._session: tuple[Connection, Platform] | None = None
        # scrapes may come at once, but have one session
        self._turn = threading.Lock()

    def describe(self) -> list[Metric]:
        """Return nothing: a registry asks, and must not ask the database for it."""
        return []

    def open(self) -> tuple[Connection, Platform]:
        """Return the session; begin one where there is none, or where it has ended.

        Raises:
            ServerError: the server does not answer, or the database has no dbinfer, or another version.
        """
        if self._session is None or self._session[0].closed:
            conn = connect(self._dsn)
            try:
                conn.set_client_encoding("UTF8")
                conn.set_session(readonly=True)
                require_dbinfer(conn, ServerError)
                self._session = conn, detect(conn)
                conn.commit()
            except BaseException:
                conn.close()
                raise
        return self._session

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session[0].close()

    def collect(self) -> Iterator[Metric]:
        """Yield each metric; a view that fails costs its own alone."""
        with self._turn:
            begin = time.perf_counter()
            found, answered = dict[str, list[Any]](), dict[str, bool]()
            # the first question after a restart of the server finds a session that has ended
            for _ in range(2):
                with suppress(DbinferError, psycopg2.Error):
                    found, answered = self._ask(*self.open())
                    break
            seconds = time.perf_counter() - begin
        yield from families(OWN, [(bool(answered), seconds)])
        yield from families(READ, list(answered.items()))
        for name, rows in found.items():
            yield from families(VIEWS[name], rows)

    def _ask(self, conn: Connection, platform: Platform) -> tuple[dict[str, list[Any]], dict[str, bool]]:
        found, answered = dict[str, list[Any]](), dict[str, bool]()
        for name, view in VIEWS.items():
            if not view.there(platform):
                continue
            try:
                with conn, conn.cursor() as cur:
                    cur.execute(LOCAL)
                    cur.execute(read(f"metrics/{name}.sql"))
                    found[name] = cur.fetchall()
            except psycopg2.Error:
                if conn.closed:
                    raise
            answered[name] = name in found
        return found, answered


def families(view: View, rows: list[Any]) -> Iterator[Metric]:
    """Yield the metrics of a view's rows."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if view.places:
        (figure,) = view.figures
        histogram = HistogramMetricFamily(figure.metric, figure.line, labels=view.labels)
        for *labels, bounds, counts, total in rows:
            places = [
                ("+Inf" if bound == float("inf") else f"{bound:g}", float(upto))
                for bound, upto in zip(bounds, accumulate(counts), strict=True)
            ]
            histogram.add_metric(labels, places, total)
        yield histogram
        return
    for place, figure in enumerate(view.figures, len(view.labels)):
        kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
        family = kind(figure.metric, figure.line, labels=view.labels)
        for row in rows:
            if row[place] is not None:
                family.add_metric([label or "" for label in row[: len(view.labels)]], float(row[place]))
        yield family
