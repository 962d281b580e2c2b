"""How many hosts, or how many hours, with memory and disk: the coefficients applied to so many images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from dbinfer.base.errors import UsageError
from dbinfer.base.progress import OnProgress
from dbinfer.plan.cost import Network, crowd, group_seconds, last_end, row_seconds, start_seconds
from dbinfer.plan.find import Source, find_source, forecast_notes
from dbinfer.plan.options import MOST_HOSTS, PlanOptions, PlanReport
from dbinfer_udf.host.limits import share


def count_text(number: float) -> str:
    """Return 50M, 1.5k or 999, as the options take it."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.4g}{letter}"
    return f"{number:.4g}"


def time_text(hours: float) -> str:
    """Return a time as people say it: 5.4 hours, 1 minute, 3.1 seconds, 2.5 days."""
    for size, name in ((24.0, "days"), (1.0, "hours"), (1 / 60, "minutes")):
        if hours >= size * (2 if name == "days" else 1):
            return _plural(f"{hours / size:.3g}", name)
    return _plural(f"{hours * 3600:.3g}", "seconds")


def _plural(number: str, name: str) -> str:
    return f"{number} {name[:-1] if number == '1' else name}"


# Measured (docs/performance.md): an engine without a model, a session that scores there, what all processes share
ENGINE_BYTES, SESSION_BYTES, LIBRARY_BYTES = 31e6, 8.2e6, 70e6
# a worker of the engine shares the weights with the others; its own are what the network computes, and pictures
WORKER_BYTES, LEAST_BYTES = 40e6, 20e6
# the prepared files, and what OpenVINO has compiled of them
COPIES = 2


def host_memory(network: Network, segments: int, cores: int) -> float:
    """Return the bytes of all processes of a host that score with a network."""
    own = max(LEAST_BYTES, network.peak_bytes - LIBRARY_BYTES)
    if network.in_engine:
        workers = min(segments, cores)
        return ENGINE_BYTES + LIBRARY_BYTES + own + (workers - 1) * WORKER_BYTES + segments * SESSION_BYTES
    return LIBRARY_BYTES + segments * own


def host_disk(network: Network) -> float:
    """Return the bytes of a network in the cache of a host."""
    return COPIES * network.size


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
