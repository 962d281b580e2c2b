"""Facts of a backend and its host, for the view dbinfer.segments and for dbinfer doctor."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, Dict

from . import cache, libraries, place
from .errors import UdfError


def collect(session: Any, settings: Dict[str, str]) -> Dict[str, Any]:
    """Return versions, venv, threads, cache, loaded models and memory (bytes); `problem` says what is wrong."""
    facts: Dict[str, Any] = {
        "content": place.content_id(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "venv": settings.get("venv", ""),
        "cores": len(os.sched_getaffinity(0)),
        "threads": place.threads(settings),
        "runtime_digest": session.digest,
        "rss": place.rss_bytes(),
        "models": sorted("%s@%d" % (m.name, m.version) for m in session.models.values()),
        "cache_dir": settings.get("cache_dir") or cache.default_folder(),
        "problem": None,
    }
    try:
        libraries.load(facts["venv"])
        facts.update(libraries.versions())
        cache.open_cache(facts["cache_dir"])
        facts["cache_bytes"], facts["cache_free"] = cache.usage(facts["cache_dir"])
    except UdfError as err:
        facts["problem"] = err.message + (" " + err.hint if err.hint else "")
    return facts
