"""Agreement, differences and accuracy on outputs that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dbinfer.convert.compare import accuracy, differences
from dbinfer.models.agree import agreement, mask_of, overlap
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.mask import mask_layout


def manifest(task: str, **values: Any) -> Manifest:
    return Manifest(task=task, height=4, width=4, **values)


def outputs(*rows: list[float]) -> list[np.ndarray]:
    return [np.array([row], np.float32) for row in rows]


def test_top1_agreement_is_the_share_of_equal_classes() -> None:
    first = outputs([0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7])
    second = outputs([0.8, 0.2], [0.4, 0.6], [0.4, 0.6], [0.3, 0.7])
    assert agreement(manifest("classification"), first, second) == ("top-1", 0.75)


def test_masks_agree_by_intersection_over_union() -> None:
    first, second = np.zeros((1, 4, 4, 1), np.float32), np.zeros((1, 4, 4, 1), np.float32)
    first[0, :2], second[0, :1] = 0.9, 0.9
    assert agreement(manifest("segmentation"), [first], [second]) == ("IoU", 0.5)


def test_two_empty_masks_agree() -> None:
    empty = np.zeros((4, 4), np.int64)
    assert overlap(empty, empty) == 1.0
    assert overlap(empty, empty + 1) == 0.0


def test_embeddings_agree_by_their_angle() -> None:
    measure, value = agreement(manifest("embedding"), outputs([1.0, 0.0]), outputs([1.0, 1.0]))
    assert measure == "cosine"
    assert value == pytest.approx(0.5**0.5)


def test_differences_are_of_single_values() -> None:
    assert differences(outputs([0.0, 1.0]), outputs([0.5, 1.0])) == (0.5, 0.25)


def test_labels_are_numbers_or_names() -> None:
    m = manifest("classification", labels=("cat", "dog"))
    scores = outputs([0.9, 0.1], [0.2, 0.8], [0.2, 0.8], [0.2, 0.8])
    assert accuracy(m, scores, ["cat", "dog", 1, "cat"]) == 0.75


def test_scores_far_from_zero_overflow_nothing() -> None:
    m, layout = manifest("segmentation", activation="sigmoid"), mask_layout((1, 1, 3, 1))
    values = np.array([-200.0, 0.1, 200.0], np.float32).reshape(1, 1, 3, 1)
    with np.errstate(over="raise"):
        assert mask_of(m, layout, values).tolist() == [[0, 1, 1]]


def test_detectors_agree_by_the_boxes_that_both_find() -> None:
    a = np.array([[[0, 0, 2, 2, 0.9, 0], [2, 2, 4, 4, 0.8, 1], [0, 0, 1, 1, 0.1, 0]]], np.float32)
    moved = a + np.array([0.2, 0, 0.2, 0, 0, 0], np.float32)
    other = a + np.array([0, 0, 0, 0, 0, 5], np.float32)
    kind = manifest("detection")
    assert agreement(kind, [a], [moved]) == ("boxes", 1.0)
    assert agreement(kind, [a], [other]) == ("boxes", 0.0)
    assert agreement(kind, [a], [a[:, :1]]) == ("boxes", pytest.approx(2 / 3))
    assert agreement(kind, [a * 0], [a * 0]) == ("boxes", 1.0)
