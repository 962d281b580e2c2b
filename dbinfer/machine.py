"""What this machine offers within its limits; backends go by the same, see dbinfer_udf.limits."""

from __future__ import annotations

from dbinfer_udf import limits


def cores() -> int:
    """Return how many cores this process may use."""
    return limits.cores()


def memory_mb() -> int:
    """Return the memory in MB that this process may use."""
    return limits.memory_bytes() >> 20
