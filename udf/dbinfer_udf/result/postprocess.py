"""Turns a network's output into what SQL functions return: array literals, classes with scores, bytes."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np
import orjson

from ..errors import UsageError
from .mask import MaskLayout, mask, mask_layout, sigmoid

__all__ = [
    "MaskLayout",
    "best",
    "float_array_literal",
    "l2_normalize",
    "mask",
    "mask_layout",
    "quoted",
    "scores",
    "sigmoid",
    "tensor_bytes",
    "top",
]

_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_dumps = orjson.dumps


def float_array_literal(values: np.ndarray) -> str:
    """Return PostgreSQL's text of a real[]: `{0.25,1.0}`; reading it gives the same float32 values again.

    Args:
        values: float32 of any shape; flattened row-major.
    """
    flat = values.ravel()
    # JSON's list is PostgreSQL's array but for the brackets
    text: bytes = _dumps(flat, None, _NUMPY)
    # orjson's word for NaN and infinities
    if b"null" in text:
        return _literal_with_gaps(flat)
    return "{" + text[1:-1].decode("ascii") + "}"


def _literal_with_gaps(flat: np.ndarray) -> str:
    """Return the literal where some values are NaN or infinite, for which JSON has no words."""
    words = [repr(value).replace("nan", "NaN").replace("inf", "Infinity") for value in flat.tolist()]
    return "{" + ",".join(words) + "}"


def quoted(text: str) -> str:
    """Return a text as an element of an array literal or a field of a composite literal."""
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def tensor_bytes(values: np.ndarray) -> bytes:
    """Return the values row-major as little-endian float32."""
    return values.astype("<f4", copy=False).tobytes()


def l2_normalize(values: np.ndarray) -> np.ndarray:
    """Return float32 of length one; zeros stay zeros."""
    flat = values.ravel()
    length = float(np.sqrt(np.dot(flat, flat)))
    return flat / np.float32(length) if length else flat


def scores(output: np.ndarray, activation: str, classes: int = 0) -> np.ndarray:
    """Return one score per class.

    Args:
        output: float32, the network's output of one image.
        activation: none, softmax or sigmoid.
        classes: number of labels, 0 if unknown; one value for two classes is the probability p of the
            second, and gives (1 - p, p).
    """
    flat = output.ravel()
    if activation == "softmax":
        # less the largest, so that no exponential overflows
        powers: np.ndarray = np.exp(flat - flat.max())
        powers /= powers.sum()
        return powers
    if activation == "sigmoid":
        flat = sigmoid(flat)
    if classes == 2 and flat.size == 1:
        return np.concatenate((1 - flat, flat))
    return flat


def best(values: np.ndarray) -> Tuple[int, float]:
    """Return (class, score) of the highest score; the first of equal ones."""
    winner = int(values.argmax())
    return winner, values.item(winner)


def top(values: np.ndarray, k: int) -> List[Tuple[int, float]]:
    """Return (class, score) of the k highest scores, best first, equal ones in the order of classes.

    Raises:
        UsageError: k is below 1. All are returned where there are fewer than k.
    """
    if k is None or k < 1:
        raise UsageError(
            f"k is {k}, but must be at least 1", hint="Set k to the number of classes to return."
        )
    down = -values
    if k < values.size:
        # `not greater` holds for NaN, too, and for all equals of the k-th, which the stable sort then orders
        candidates = np.flatnonzero(~(down > np.partition(down, k - 1)[k - 1]))
    else:
        candidates = np.arange(values.size)
    order = candidates[np.argsort(down[candidates], kind="stable")[:k]]
    return [(i, values.item(i)) for i in order.tolist()]
