"""What a forecast takes for granted, one note each; all of them go on with "assumed:"."""

from __future__ import annotations

from dbinfer.cost import Coefficients
from dbinfer.cost.missing import missing
from dbinfer.plan.options import PlanOptions
from dbinfer.plan.source import Source
from dbinfer_udf.threads import share

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
