"""What this machine offers: cores and memory within container limits."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def cores(cgroup: Path = CGROUP) -> int:
    """Return how many cores this process may use: its affinity, cut by a CPU quota (cgroup v2)."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = _words(cgroup / "cpu.max")
    if len(quota) == 2 and quota[0].isdigit():
        count = min(count, math.ceil(int(quota[0]) / int(quota[1])))
    return max(1, count)


def memory_mb(cgroup: Path = CGROUP) -> int:
    """Return the memory in MB that this process may use: the machine's, cut by a container's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _words(cgroup / "memory.max")
    if limit and limit[0].isdigit():
        total = min(total, int(limit[0]))
    return total >> 20


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
