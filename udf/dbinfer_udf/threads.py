"""How many threads one backend may use for inference."""

from __future__ import annotations

import os

from . import limits, process

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Dict


def threads(settings: Dict[str, str]) -> int:
    """Return the cores of the host / backends that score on it at once; the setting `threads` overrides.

    Backends: on Greenplum the segments of this host, as noted at install; on PostgreSQL the leader and its parallel
    workers.
    """
    wanted = settings.get("threads", "auto")
    if wanted != "auto":
        return max(1, int(wanted))
    cores = limits.cores()
    if process.content_id() is None:
        # + 1: the leader scores, too
        return max(1, cores // (int(settings.get("workers", "0")) + 1))
    # a host that came after install: one thread, rather than too many
    return max(1, cores // max(1, int(settings.get("segments@" + os.uname().nodename, cores))))
