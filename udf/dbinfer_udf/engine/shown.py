"""The facts of one model as a status shows them."""

from __future__ import annotations

from typing import Any, Dict

from .measure import memory_of, queue_of


def memory(pid: int) -> int:
    """Return the bytes of a host and its workers; 0 where it is not there."""
    return memory_of(pid) if pid else 0


def facts(model: Any) -> Dict[str, Any]:
    """Return what `dbinfer engine status` shows of a Hosted."""
    states = model.slots.all()
    spec, loaded = model.wanted["spec"], model.facts
    return {
        "model": spec["model"],
        "version": spec["version"],
        "key": model.key,
        "rows": model.wanted["rows"],
        "threads": model.wanted["threads"],
        "bytes": memory(model.pid),
        "workers": model.workers,
        "requests": sum(state.requests for state in states),
        "errors": sum(state.errors for state in states),
        "restarts": model.restarts(),
        "running": sum(state.since > 0 for state in states),
        "queue": queue_of(model.listener) if model.listener else 0,
        "state": "loading" if loaded is None else "ready",
        "sandbox": (loaded or {}).get("sandbox", {}),
    }
