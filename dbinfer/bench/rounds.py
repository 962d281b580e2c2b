"""Measures ways in turns, round after round, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dbinfer.bench.ways import Sample, Skip, Way

Say = Callable[[str], None]


def rounds(
    ways: Mapping[str, Way], count: int, say: Say, title: str
) -> tuple[dict[str, list[Sample]], list[str]]:
    """Return the samples of each way, and a sentence for each that had to be given up.

    Every round starts with another way, so that none always follows the same one.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in ways}
    skipped: list[str] = []
    for turn in range(count):
        names = [name for name in ways if name in samples]
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            say(f"{title}: {name}, round {turn + 1} of {count}")
            try:
                samples[name].append(ways[name].measure())
            except Skip as err:
                skipped.append(err.message)
                del samples[name]
    return samples, skipped
