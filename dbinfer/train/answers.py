"""What a trained classifier answers on the validation images: the classes that it takes for others."""

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
