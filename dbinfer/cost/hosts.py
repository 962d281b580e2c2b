"""Seconds of a statement on one host, whose processes share the cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dbinfer.cost.coefficients import Coefficients
from dbinfer.cost.facts import Network, Picture
from dbinfer.cost.row import row_seconds, start_seconds


@dataclass(frozen=True)
class Load:
    """What the processes of one host have to do.

    Attributes:
        rows: of each process; where they share a scan, as parallel workers do, in equal parts.
        cores: of the host.
        fresh: how many of the processes are new.
    """

    rows: tuple[float, ...]
    cores: int
    fresh: int = 0


def statement_seconds(
    found: Coefficients, pictures: Sequence[Picture], network: Network, load: Load
) -> float:
    """Return the seconds until the last process has scored its last row."""
    # in rows, so that a start waits for cores as rows do; workers that share a scan share it out, too
    start = start_seconds(found, network) / row_seconds(found, pictures, network)
    fresh = start * load.fresh / len(load.rows)

    def seconds(processes: int) -> float:
        row = row_seconds(found, pictures, network, crowd(processes, load.cores))
        return row * max(1.0, processes / load.cores)

    return last_end(sorted(rows + fresh for rows in load.rows), seconds)


def crowd(processes: int, cores: int) -> float:
    """Return the share of the other cores that work when one of them does."""
    return (min(processes, cores) - 1) / (cores - 1) if cores > 1 else 0.0


def last_end(rows: Sequence[float], seconds: Callable[[int], float]) -> float:
    """Return when the last of the processes ends, which get equal shares of the cores.

    Args:
        rows: of each process, ascending.
        seconds: that each takes for a row where so many work.
    """
    total, done = 0.0, 0.0
    for number, mine in enumerate(rows):
        if mine > done:
            total += (mine - done) * seconds(len(rows) - number)
            done = mine
    return total
