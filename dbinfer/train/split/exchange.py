"""What the processes of a split network tell each other; all of them make each call together."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from dbinfer.train.ranks import length_of, packed, unpacked

LONGEST = 256  # bytes of a text


def share(value: Any) -> Any:
    """Return the first process's value, of which JSON can be made, in every process."""
    if jax.process_count() == 1:
        return value
    data = packed(value)
    length = length_of(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    padded = np.zeros(length, np.uint8)
    if jax.process_index() == 0:
        padded[:] = data
    return unpacked(np.asarray(multihost_utils.broadcast_one_to_all(padded)))


def gather(value: float) -> list[float]:
    """Return the numbers of all processes, in their order."""
    return [float(one) for one in np.atleast_1d(multihost_utils.process_allgather(np.float32(value)))]


def gather_texts(text: str) -> list[str]:
    """Return the texts of all processes, in their order."""
    data = np.zeros(LONGEST, np.uint8)
    encoded = text.encode()[:LONGEST]
    data[: len(encoded)] = list(encoded)
    rows = np.asarray(multihost_utils.process_allgather(data)).reshape(-1, LONGEST)
    return [bytes(row).rstrip(b"\0").decode() for row in rows]
