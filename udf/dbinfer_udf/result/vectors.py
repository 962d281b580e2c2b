"""Results that are vectors: their array literals and bytes, classes with scores, and which embeddings are alike."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple

import numpy as np
import orjson

from ..errors import ModelError, UsageError
from ..host.interrupts import interrupt_flag
from ..manifest import Manifest
from .mask import sigmoid

_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_dumps = orjson.dumps
FLOAT_BYTES = 8  # of array_send: the length of each element, and the element
STRIP = 512  # rows that are compared at once
EXACT_VALUES = 1 << 20  # multiplied at once
EPS = 2.0**-24  # of float32, rounded


def float_array_literal(values: np.ndarray) -> str:
    """Return PostgreSQL's text of a real[]: `{0.25,1.0}`; reading it gives the same float32 values again.

    Args:
        values: float32 of any shape; flattened row-major.
    """
    flat = values.ravel()
    # a JSON list is a PostgreSQL array but for the brackets
    text: bytes = _dumps(flat, None, _NUMPY)
    # how orjson writes NaN and infinities
    if b"null" in text:
        return _literal_with_gaps(flat)
    return "{" + text[1:-1].decode("ascii") + "}"


def _literal_with_gaps(flat: np.ndarray) -> str:
    """Return the literal where some values are NaN or infinite, which JSON cannot write."""
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


def top(values: np.ndarray, k: Optional[int]) -> List[Tuple[int, float]]:
    """Return (class, score) of the k highest scores, best first, equal ones in the order of classes.

    Raises:
        UsageError: k is None or below 1. All are returned where there are fewer than k.
    """
    if k is None or k < 1:
        raise UsageError(
            f"k is {'NULL' if k is None else k}, but must be at least 1",
            hint="Set k to the number of classes to return.",
        )
    down = -values
    if k < values.size:
        # `not greater` holds for NaN, too, and for all equals of the k-th, which the stable sort then orders
        candidates = np.flatnonzero(~(down > np.partition(down, k - 1)[k - 1]))
    else:
        candidates = np.arange(values.size)
    return _ranked(values, candidates)[:k]


def _ranked(values: np.ndarray, candidates: np.ndarray) -> List[Tuple[int, float]]:
    order = candidates[np.argsort(-values[candidates], kind="stable")]
    return [(i, values.item(i)) for i in order.tolist()]


def reaching(values: np.ndarray, manifest: Manifest) -> List[Tuple[int, float]]:
    """Return (class, score) of the scores that reach their class's threshold, as `top` orders them.

    Args:
        values: float32, one score per class; NaN reaches none.

    Raises:
        ModelError: the manifest has thresholds of another number of classes.
    """
    # in float32, so that a score that is shown as 0.7 reaches 0.7
    limits = np.array(manifest.thresholds or [manifest.threshold] * values.size, np.float32)
    if limits.size != values.size:
        raise ModelError(
            f"the model has {values.size} classes, but its manifest {limits.size} thresholds",
            hint="Deploy it again with dbinfer deploy --thresholds, one number per class.",
        )
    return _ranked(values, np.flatnonzero(values >= limits))


def predict(model: Any, output: np.ndarray, _placement: Any, _header: Any, _k: Any) -> str:
    """Return an output as a real[] literal."""
    return float_array_literal(output)


def tensor(model: Any, output: np.ndarray, _placement: Any, _header: Any, _k: Any) -> bytes:
    """Return an output as little-endian float32."""
    return tensor_bytes(output)


def embed(model: Any, output: np.ndarray, _placement: Any, _header: Any, _k: Any) -> str:
    """Return the embedding as a real[] literal."""
    return float_array_literal(l2_normalize(output) if model.manifest.l2_normalize else output)


def classify(model: Any, output: np.ndarray, _placement: Any, _header: Any, _k: Any) -> str:
    """Return the best class as a literal of dbinfer.classification."""
    return _classification(model, *best(class_scores(model, output)))


def classify_top(model: Any, output: np.ndarray, _placement: Any, _header: Any, k: Optional[int]) -> str:
    """Return the k best classes as a literal of dbinfer.classification[]."""
    return _classifications(model, top(class_scores(model, output), k))


def classify_all(model: Any, output: np.ndarray, _placement: Any, _header: Any, _k: Any) -> str:
    """Return the classes whose score reaches their threshold, best first, as a literal of dbinfer.classification[]."""
    return _classifications(model, reaching(class_scores(model, output), model.manifest))


def classify_batch(model: Any, outputs: np.ndarray) -> List[str]:
    """Return the best class of each image of a batch as a literal of dbinfer.classification."""
    # raw scores need no work per row; a single value is the probability of the second of two classes
    if model.manifest.activation == "none" and outputs[0].size > 1:
        table = outputs.reshape(len(outputs), -1)
    else:
        table = np.stack([class_scores(model, one) for one in outputs])
    winners = table.argmax(axis=1)
    values = table[np.arange(len(outputs)), winners].tolist()
    return [_classification(model, *one) for one in zip(winners.tolist(), values)]


def class_scores(model: Any, output: np.ndarray) -> np.ndarray:
    """Return one score per class of the model."""
    return scores(output, model.manifest.activation, len(model.manifest.labels))


def _classifications(model: Any, found: List[Tuple[int, float]]) -> str:
    return "{%s}" % ",".join(quoted(_classification(model, *one)) for one in found)


def _classification(model: Any, number: int, score: float) -> str:
    labels = model.quoted_labels
    # more outputs than labels: an empty field of a composite literal is NULL; nine digits give the same float32 again
    return "(%d,%s,%.9g)" % (number, labels[number] if number < len(labels) else "", score)


def alike(ones: bytes, others: bytes, size: int, most: float) -> Iterator[Tuple[int, int, float]]:
    """Yield (row of `ones`, row of `others`, cosine distance), rows from 1, of all pairs at most that far apart.

    Pairs beyond by no more than the error of float32 come, too: pgvector computes in float32, and SQL decides.

    Args:
        ones: rows of `size` elements each, as array_send writes them.
    """
    left, right = _rows(ones, size), _rows(others, size)
    return _alike(left, right, 1 - most - (4 * size + 16) * EPS)


def _alike(left: np.ndarray, right: np.ndarray, least: float) -> Iterator[Tuple[int, int, float]]:
    (left_lengths, left_units), (right_lengths, right_units) = _units(left), _units(right)
    for first in range(0, len(left), STRIP):
        # a cancel that comes now takes effect after the block; see interrupts.interrupt_flag
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
