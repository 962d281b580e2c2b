"""Memory and disk that scoring takes on a host, beside what the database takes itself."""

from __future__ import annotations

from dbinfer.cost import Network

# Measured (docs/performance.md): an engine without a model, a session that scores there, what all processes share
ENGINE_BYTES, SESSION_BYTES, LIBRARY_BYTES = 31e6, 8.2e6, 70e6
# a worker of the engine shares the weights with the others; its own are what the network computes, and pictures
WORKER_BYTES, LEAST_BYTES = 40e6, 20e6
# the prepared files, and what OpenVINO has compiled of them
COPIES = 2


def host_memory(network: Network, segments: int, cores: int) -> float:
    """Return the bytes of all processes of a host that score with a network."""
    own = max(LEAST_BYTES, network.peak_bytes - LIBRARY_BYTES)
    if network.in_engine:
        workers = min(segments, cores)
        return ENGINE_BYTES + LIBRARY_BYTES + own + (workers - 1) * WORKER_BYTES + segments * SESSION_BYTES
    return LIBRARY_BYTES + segments * own


def host_disk(network: Network) -> float:
    """Return the bytes of a network in the cache of a host."""
    return COPIES * network.size
