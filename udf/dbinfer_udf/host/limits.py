"""Cores and memory that this process may use, by its affinity and cgroups of both versions, and threads of an
inference.
"""

from __future__ import annotations

import os

from . import process

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Mapping, Optional

# Where the files of a controller may lie below /sys/fs/cgroup: version 1, version 2, version 2 beside version 1
FOLDERS = {"cpu": ("cpu", "cpu,cpuacct", "", "unified"), "memory": ("memory", "", "unified")}
# Version 2, version 1: the files of limit and use, and what stands before the names in memory.stat for a whole group
USAGE = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)


def cores(root: str = "/") -> int:
    """Return how many cores this process may use, at least 1; a quota of 1.5 cores counts as 2."""
    # macOS has no affinity
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _groups(root, "cpu"):
        quota = _quota(folder)
        if quota is not None:
            count = min(count, quota)
    return max(1, count)


def memory_bytes(root: str = "/") -> int:
    """Return how much memory this process may use in bytes."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in _groups(root, "memory"):
        # beyond memory.high the kernel slows the group down, so it counts as a limit
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            words = _words(os.path.join(folder, name))
            if words and words[0].isdigit():  # version 2 says "max", version 1 a huge number
                least = min(least, int(words[0]))
    return least


def free_bytes(root: str = "/") -> Optional[int]:
    """Return how much memory this process may still take in bytes, None where that is not known.

    A cache of files is free: the kernel drops it when memory is short.
    """
    free = _numbers(os.path.join(root, "proc/meminfo")).get("MemAvailable:")
    least = None if free is None else free << 10
    for folder in _groups(root, "memory"):
        for limit, used, prefix in USAGE:
            bound, taken = _words(os.path.join(folder, limit)), _words(os.path.join(folder, used))
            if bound and taken and bound[0].isdigit() and taken[0].isdigit():
                stat = _numbers(os.path.join(folder, "memory.stat"))
                cache = stat.get(prefix + "inactive_file", 0) + stat.get(prefix + "active_file", 0)
                rest = max(0, int(bound[0]) - int(taken[0]) + cache)
                least = rest if least is None else min(least, rest)
    return least


def _numbers(path: str) -> Dict[str, int]:
    """Return the numbers of a file with lines such as `NAME 123` or `NAME 123 kB`."""
    try:
        with open(path) as lines:
            pairs = [line.split()[:2] for line in lines]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _quota(folder: str) -> Optional[int]:
    """Return the cores that a group's quota pays for, rounded up; None without one."""
    words = _words(os.path.join(folder, "cpu.max"))
    if not words:
        words = _words(os.path.join(folder, "cpu.cfs_quota_us"))
        words += _words(os.path.join(folder, "cpu.cfs_period_us"))
    if len(words) != 2 or not (words[0].isdigit() and words[1].isdigit() and int(words[1])):
        return None
    return max(1, -(-int(words[0]) // int(words[1])))


def _groups(root: str, controller: str) -> Iterator[str]:
    """Yield the folder of this process's group and of every group above it; a limit of any of them counts.

    In a container the path of the group may be the host's, while only the container's own part is mounted: then the
    folders of that path are not there, and the top one is the container's.
    """
    for path in _paths(root, controller):
        # `..`: a group outside of what this cgroup namespace shows
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for name in FOLDERS[controller]:
            top = os.path.join(root, "sys/fs/cgroup", name)
            for length in range(len(parts), -1, -1):
                yield os.path.join(top, *parts[:length])


def _paths(root: str, controller: str) -> List[str]:
    """Return the paths of this process's groups for a controller, as /proc/self/cgroup has them."""
    found = ["/"]
    try:
        with open(os.path.join(root, "proc/self/cgroup")) as lines:
            for line in lines:
                _, names, path = line.rstrip("\n").split(":", 2)
                # version 2 has one line, without names
                if names == "" or controller in names.split(","):
                    found.append(path)
    except (OSError, ValueError):  # no Linux, or no /proc
        pass
    return found


def _words(path: str) -> List[str]:
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:
        return []


# The least share of each thread's time that must be work; below it, cores that others could use wait for each other.
# Where two threads pay, an image takes at most 1 / (2 * 0.7) of its time with one thread: 40 % more images
PAYS = 0.7


def most_threads(settings: Mapping[str, str]) -> int:
    """Return the cores of the host / backends that score on it at once; the setting `threads` overrides.

    Backends: on Greenplum the segments of this host, as noted at install; on PostgreSQL the leader and its parallel
    workers.
    """
    if not trials_decide(settings):
        return max(1, int(settings["threads"]))
    if process.content_id() is None:
        # + 1: the leader scores, too
        return share(cores(), int(settings.get("workers", "0")) + 1)
    # a host that joined after install: rather one thread than too many
    return share(cores(), _segments(settings, cores()))


def trials_decide(settings: Mapping[str, str]) -> bool:
    """Return whether trials decide on the threads, and not the administrator."""
    return settings.get("threads", "auto") == "auto"


def threads_to_try(settings: Mapping[str, str]) -> List[int]:
    """Return the numbers of threads that a trial on this host measures beside one, whatever a session may use."""
    most = share(cores(), _segments(settings, 1))
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


def threads_taken(settings: Mapping[str, str], most: int, by_threads: Mapping[str, float]) -> int:
    """Return `fitting`; where the administrator has set a number, that one, which is `most`."""
    return fitting(most, by_threads) if trials_decide(settings) else most


def _segments(settings: Mapping[str, str], unknown: int) -> int:
    return int(settings.get("segments@" + os.uname().nodename, unknown))
