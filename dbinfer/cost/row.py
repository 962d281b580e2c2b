"""Seconds of one core for one row."""

from __future__ import annotations

from collections.abc import Sequence

from dbinfer.cost.coefficients import Coefficients
from dbinfer.cost.facts import Network, Picture
from dbinfer.cost.terms import terms


def group_seconds(
    found: Coefficients, picture: Picture, network: Network, share: float = 0.0
) -> dict[str, float]:
    """Return the seconds of one row by group: decode, fit, infer, finish and row.

    Args:
        share: of the other cores that work at the same time, 0 to 1; they share caches and memory.
    """
    return {
        group: sum(found.seconds.get(name, 0.0) * amount for name, amount in values.items())
        * (1 + (found.crowded.get(group, 1.0) - 1) * share)
        for group, values in terms(picture, network).items()
    }


def row_seconds(
    found: Coefficients, pictures: Sequence[Picture], network: Network, share: float = 0.0
) -> float:
    """Return the seconds of one core for one row, the mean of some pictures; see group_seconds."""
    rows = [sum(group_seconds(found, picture, network, share).values()) for picture in pictures]
    return sum(rows) / len(rows)


def start_seconds(found: Coefficients, network: Network) -> float:
    """Return the seconds that a fresh process works before its first row."""
    if network.in_engine:
        return found.start.get("engine", 0.0)
    return found.start.get("backend", 0.0) + network.compile_milliseconds / 1e3
