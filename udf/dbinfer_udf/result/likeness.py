"""Which embeddings of two blocks are nearly alike: a matrix product finds them, SQL's arithmetic tells how much."""

from __future__ import annotations

from typing import Iterator, Tuple

import numpy as np

from ..errors import UsageError
from ..host.interrupts import interrupt_flag

FLOAT_BYTES = 8  # of array_send: the length of each element, and the element
STRIP = 512  # rows that are compared at once
EXACT_VALUES = 1 << 20  # multiplied at once
EPS = 2.0**-24  # of float32, rounded


def alike(ones: bytes, others: bytes, size: int, most: float) -> Iterator[Tuple[int, int, float]]:
    """Yield (row of `ones`, row of `others`, cosine distance), rows from 1, of all pairs at most that far apart.

    What lies beyond by no more than float32 may be off comes, too: pgvector computes so, and SQL decides.

    Args:
        ones: rows of `size` elements each, as array_send writes them.
    """
    left, right = _rows(ones, size), _rows(others, size)
    return _alike(left, right, 1 - most - (4 * size + 16) * EPS)


def _alike(left: np.ndarray, right: np.ndarray, least: float) -> Iterator[Tuple[int, int, float]]:
    (left_lengths, left_units), (right_lengths, right_units) = _units(left), _units(right)
    for first in range(0, len(left), STRIP):
        # a cancel that comes now is heard after the block; see interrupts.interrupt_flag
        interrupt_flag().value = False
        found = _found(left_units[first : first + STRIP], right_units, least)
        step = max(1, EXACT_VALUES // left.shape[1])
        for place in range(0, len(found[0]), step):
            i, j = found[0][place : place + step] + first, found[1][place : place + step]
            distances = 1 - _sums(left[i], right[j]) / (left_lengths[i] * right_lengths[j])
            yield from zip((i + 1).tolist(), (j + 1).tolist(), distances.tolist())


def _found(left: np.ndarray, right: np.ndarray, least: float) -> Tuple[np.ndarray, ...]:
    # a row without a direction is NaN, which is never more than anything
    with np.errstate(invalid="ignore"):
        return np.nonzero(left @ right.T >= least)


def _rows(block: bytes, size: int) -> np.ndarray:
    if size < 1 or not block or len(block) % (size * FLOAT_BYTES):
        raise UsageError("the embeddings of a block have not %d values each" % size)
    return np.frombuffer(block, ">f4").reshape(-1, size, 2)[:, :, 1].astype(np.float64)


def _units(rows: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Return the lengths of the rows, and the rows in float32 with length 1."""
    with np.errstate(all="ignore"):
        lengths = np.sqrt(_sums(rows, rows))
        return lengths, (rows / lengths[:, None]).astype(np.float32)


def _sums(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the scalar product of each two rows, added up one after the other as dbinfer.cosine_distance does."""
    found: np.ndarray = np.add.accumulate(one * other, axis=1)[:, -1]
    return found
