"""How many hosts, or how many hours: the coefficients applied to so many images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from dbinfer.cost import row_seconds
from dbinfer.cost.hosts import crowd, last_end
from dbinfer.cost.row import group_seconds, start_seconds
from dbinfer.errors import UsageError
from dbinfer.plan.find import find_source
from dbinfer.plan.memory import host_disk, host_memory
from dbinfer.plan.notes import forecast_notes
from dbinfer.plan.options import MOST_HOSTS, PlanOptions
from dbinfer.plan.report import PlanReport
from dbinfer.plan.source import Source
from dbinfer.plan.words import count_text, time_text
from dbinfer.progress import OnProgress
from dbinfer_udf.threads import share

DAY_HOURS, HOUR = 24.0, 3600.0
# a larger error leaves no upper bound
MOST_ERROR = 0.9


def run_plan(model: str | None, options: PlanOptions, dsn: str | None, progress: OnProgress) -> PlanReport:
    """Return the plan; see dbinfer.plan.plan."""
    return forecast(find_source(model, options, dsn, progress), options)


def forecast(source: Source, options: PlanOptions) -> PlanReport:
    """Return what the images of a source need."""
    each = share(source.cores, source.segments)
    source = replace(source, network=source.network.on(each))
    within = (options.hours or DAY_HOURS) * HOUR
    between = margin(source.coefficients.error.get("largest", 0.0))
    least, hosts, most = (options.hosts or _hosts(source, within, by) for by in (between[0], 1.0, between[1]))
    hours = seconds(source, hosts) / HOUR
    rate = source.images / (hours * HOUR)
    size = fmean(picture.bytes for picture in source.pictures)
    return PlanReport(
        model=source.title,
        precision=source.network.precision,
        function=source.function,
        images=source.images,
        hours=hours,
        hours_between=(hours * between[0], hours * between[1]),
        hosts=hosts,
        hosts_between=(least, most),
        cores=source.cores,
        segments=source.segments,
        threads=source.network.threads,
        skew=source.skew,
        images_per_second=rate,
        images_per_second_host=rate / hosts,
        row_ms=_row_ms(source),
        efficiency=row(source, 1) / row(source, source.segments),
        host_memory=host_memory(source.network, source.segments, source.cores),
        host_disk=host_disk(source.network),
        images_bytes=size * source.images,
        host_read=size * rate / hosts,
        error=source.coefficients.error,
        measured=source.coefficients.machine,
        notes=(*source.notes, *forecast_notes(source, options)),
    )


def margin(error: float) -> tuple[float, float]:
    """Return by which factors the true time may differ from a predicted one: error is predicted / true - 1."""
    return 1 / (1 + error), 1 / (1 - min(error, MOST_ERROR))


def row(source: Source, processes: int) -> float:
    """Return the seconds of one process for a row where so many processes of a host score."""
    return row_seconds(source.coefficients, source.pictures, source.network, _crowd(source, processes))


def _crowd(source: Source, processes: int) -> float:
    return crowd(processes * source.network.threads, source.cores)


def seconds(source: Source, hosts: int) -> float:
    """Return how long the fullest host takes."""
    mean = source.images / (hosts * source.segments)
    # the fullest segment of all; no segment has more than everything
    full = min(mean * source.skew, source.images)
    # the others of its host have what is left, as all other segments do
    rest = (source.images - full) / max(1, hosts * source.segments - 1)
    start = start_seconds(source.coefficients, source.network)
    per_row: Callable[[int], float] = lambda n: row(source, n) * max(1.0, n / source.cores)  # noqa: E731
    return start + last_end([rest] * (source.segments - 1) + [full], per_row)


def _hosts(source: Source, within: float, by: float) -> int:
    """Return the smallest number of hosts that is done in time where all takes `by` times as long as predicted."""
    time = time_text(within / HOUR)
    start = start_seconds(source.coefficients, source.network) * by
    if start >= within:
        cure = f"Allow more hours: a process takes {start:.2g} s to start."
        raise UsageError(f"{time} are over before the first image is scored", cure)
    low, high = 0, 1
    while seconds(source, high) * by > within:
        low, high = high, high * 2
        if high > MOST_HOSTS:
            images, most = count_text(source.images), count_text(MOST_HOSTS)
            raise UsageError(f"{images} images in {time} need more than {most} hosts", "Allow more hours.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seconds(source, middle) * by <= within else (middle, high)
    return high


def _row_ms(source: Source) -> dict[str, float]:
    crowded = _crowd(source, source.segments)
    found = [group_seconds(source.coefficients, one, source.network, crowded) for one in source.pictures]
    return {group: round(fmean(one[group] for one in found) * 1e3, 4) for group in found[0]}
