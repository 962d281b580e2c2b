"""How many threads an inference takes: no more than are there for the process, and no more than pay."""

from __future__ import annotations

import os

from . import limits, process

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import List, Mapping

# Which share of each thread's time must be work: with less, cores that others could use wait for each other. Where two
# threads pay, an image takes 1 / (2 * 0.7) of its time with one, so nobody gets cores for a gain below 40 %
PAYS = 0.7


def bound(settings: Mapping[str, str]) -> int:
    """Return the cores of the host / backends that score on it at once; the setting `threads` overrides.

    Backends: on Greenplum the segments of this host, as noted at install; on PostgreSQL the leader and its parallel
    workers.
    """
    if not automatic(settings):
        return max(1, int(settings["threads"]))
    if process.content_id() is None:
        # + 1: the leader scores, too
        return share(limits.cores(), int(settings.get("workers", "0")) + 1)
    # a host that came after install: one thread, rather than too many
    return share(limits.cores(), _segments(settings, limits.cores()))


def automatic(settings: Mapping[str, str]) -> bool:
    """Return whether trials decide, and not the administrator."""
    return settings.get("threads", "auto") == "auto"


def steps(settings: Mapping[str, str]) -> List[int]:
    """Return the numbers of threads that a trial on this host measures beside one, whatever the session's bound is."""
    most = share(limits.cores(), _segments(settings, 1))
    return sorted({most, *(1 << power for power in range(most.bit_length()))} - {1})


def share(cores: int, processes: int) -> int:
    """Return the cores of one of so many processes, at least 1."""
    return max(1, cores // max(1, processes))


def fitting(most: int, by_threads: Mapping[str, float]) -> int:
    """Return how many threads a version takes: as many as pay, at most `most`.

    Args:
        by_threads: milliseconds of an image by number of threads, as a trial found them; empty: nobody knows.
    """
    alone = by_threads.get("1", 0.0)
    paying = (int(number) for number, taken in by_threads.items() if alone >= PAYS * int(number) * taken)
    return max(1, min(most, max(paying, default=1)))


def taken(settings: Mapping[str, str], most: int, by_threads: Mapping[str, float]) -> int:
    """Return `fitting`; where the administrator has set a number, that one, which is `most`."""
    return fitting(most, by_threads) if automatic(settings) else most


def _segments(settings: Mapping[str, str], unknown: int) -> int:
    return int(settings.get("segments@" + os.uname().nodename, unknown))
