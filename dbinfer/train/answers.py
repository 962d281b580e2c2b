"""What a trained classifier answers on the validation images: the classes that it takes for others, and the threshold
of each label where images have several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dbinfer_udf.manifest import Manifest

# Makes of the scores of a batch what other processes need of them
Reading = Callable[[Any], Any]


def classes_of(scores: Any, manifest: Manifest) -> Any:
    """Return the number of the class that each image is taken for, as `classify` does."""
    scores = np.asarray(scores)
    if scores.shape[1] > 1:
        return scores.argmax(axis=1)
    # One output is the second of two classes; its scores are raw where SQL turns them into probabilities
    return (scores[:, 0] > (0.0 if manifest.activation == "sigmoid" else 0.5)).astype(np.int64)


def probabilities_of(scores: Any, manifest: Manifest) -> Any:
    """Return the probability of each label, as `classify_all` compares them with their thresholds."""
    scores = np.asarray(scores, np.float32)
    return 1 / (1 + np.exp(-scores)) if manifest.activation == "sigmoid" else scores


def joined(batches: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return truths and readings of all batches in one array each."""
    truths, readings = zip(*batches, strict=True)
    return np.concatenate(truths), np.concatenate(readings)


def confusion(truths: Any, answers: Any, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return how many images of each label got each answer, without the pairs that no image has."""
    counts = Counter(zip(map(int, truths), map(int, answers), strict=True))
    return [
        {"label": labels[truth], "answer": labels[answer], "images": counts[truth, answer]}
        for truth, answer in sorted(counts)
    ]


def by_label(truths: Any, probabilities: Any, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each label how many images have it, the threshold of the best F1, and how good that is.

    Args:
        truths: 0 or 1, (images, labels).
        probabilities: of the same shape.
    """
    columns = zip(labels, np.transpose(truths), np.transpose(probabilities), strict=True)
    return [{"label": label, **_best(truth, found)} for label, truth, found in columns]


def _best(truth: Any, found: Any) -> dict[str, Any]:
    order = np.argsort(-found, kind="stable")
    found, right = found[order].astype(np.float64), np.cumsum(truth[order])
    images, taken = int(right[-1]), np.arange(1, len(found) + 1)
    if not images:
        return {"images": 0, "threshold": 0.5, "precision": None, "recall": None, "f1": None}
    # Between equal scores there is no threshold
    apart = np.append(found[:-1] > found[1:], True)
    f1 = np.where(apart, 2 * right / (taken + images), -1)
    last = int(np.argmax(f1))
    # Halfway to the next score, so that rounding moves no image across
    threshold = (found[last] + (found[last + 1] if last + 1 < len(found) else 0.0)) / 2
    return {
        "images": images,
        "threshold": round(float(threshold), 6),
        "precision": round(float(right[last] / taken[last]), 6),
        "recall": round(float(right[last] / images), 6),
        "f1": round(float(f1[last]), 6),
    }
