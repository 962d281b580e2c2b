"""Facts of a backend and its host, for the view dbinfer.segments and for dbinfer doctor."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, Dict

from . import cache, housekeeping, libraries, limits, process, processor
from .errors import UdfError
from .image_limits import image_limits
from .isolation import ALWAYS
from .threads import bound


def collect(session: Any, settings: Dict[str, str]) -> Dict[str, Any]:
    """Return versions, venv, threads, cache, loaded models and memory (bytes); `problem` says what is wrong."""
    row: Dict[str, Any] = {
        "content": process.content_id(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "venv": settings.get("venv", ""),
        "cores": limits.cores(),
        # of those models that it holds; else what one may take here
        "threads": max((m.threads for m in session.models.values()), default=bound(settings)),
        "precisions": processor.precisions(),
        "runtime_digest": session.digest,
        "compiled": session.compiled,
        "rss": process.rss_bytes(),
        # those of the engine, too: what this process scores with
        "models": sorted("%s@%d" % (m.name, m.version) for m in session.models.values()),
        "cache_dir": settings.get("cache_dir") or cache.default_folder(),
        "problem": None,
    }
    try:
        _look_at_libraries(settings)
        row.update(libraries.versions())
        cache.open_cache(row["cache_dir"])
        row["cache_bytes"], row["cache_free"] = housekeeping.usage(row["cache_dir"])
    except UdfError as err:
        row["problem"] = err.message + (" " + err.hint if err.hint else "")
    return row


def _look_at_libraries(settings: Dict[str, str]) -> None:
    """Import the libraries; where this process is to be without them, see that they are there and safe."""
    if settings.get("isolation") != ALWAYS:
        libraries.load(settings.get("venv", ""), image_limits(settings).max_pixels)
    else:
        libraries.find(settings.get("venv", ""))
