"""The detector's outputs, and its loss against loops that follow the paper word by word."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from float32 import tolerance

from dbinfer_models import NETWORKS

FINDER = NETWORKS["finder"]
STRIDE = 4  # CenterNet's R: pixels of the image for each cell of the maps


def test_three_named_outputs() -> None:
    model = FINDER.build(classes=7, size=64, base_width=2)
    assert model.output_names == ["heatmap", "size", "offset"]
    assert [output.shape for output in model.outputs] == [(None, 16, 16, depth) for depth in (7, 2, 2)]


def test_the_learner_has_the_same_variables_and_one_output() -> None:
    model = FINDER.build(classes=3, size=32, base_width=2)
    learner = FINDER.learner(model)
    assert {id(one) for one in learner.weights} == {id(one) for one in model.weights}
    image = np.random.default_rng(0).random((2, 32, 32, 3), np.float32)
    parts = [np.asarray(part) for part in model(image, training=False)]
    np.testing.assert_array_equal(np.asarray(learner(image, training=False)), np.concatenate(parts, -1))


def test_at_first_little_is_found() -> None:
    scores = FINDER.build(size=32)(np.zeros((1, 32, 32, 3), np.float32), training=False)[0]
    assert np.asarray(scores).mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("size", [8, 100])
def test_the_size_must_fit(size: int) -> None:
    with pytest.raises(ValueError, match=f"size {size} does not fit the network: give a multiple of 16"):
        FINDER.build(size=size)


def _radius(height: float, width: float, overlap: float = 0.7) -> int:
    """CornerNet's three cases, as published."""
    cases = []
    for a, b, c, sign in (
        (1, height + width, width * height * (1 - overlap) / (1 + overlap), 1),
        (4, 2 * (height + width), (1 - overlap) * width * height, 1),
        (4 * overlap, -2 * overlap * (height + width), (overlap - 1) * width * height, 1),
    ):
        cases.append((b + sign * math.sqrt(b**2 - 4 * a * c)) / 2)
    return max(0, int(min(cases)))


def _loss(boxes: Any, maps: Any) -> float:
    """The loss of one image, cell by cell."""
    rows, columns, depth = maps.shape
    wanted = np.zeros((rows, columns, depth - 4))
    distance, count = 0.0, 0
    for left, top, right, bottom, kind in boxes:
        if kind < 0:
            continue
        count += 1
        width, height = (right - left) / STRIDE, (bottom - top) / STRIDE
        x, y = (left + right) / 2 / STRIDE, (top + bottom) / 2 / STRIDE
        column, row = int(x), int(y)
        radius = _radius(height, width)
        for r in range(max(0, row - radius), min(rows, row + radius + 1)):
            for c in range(max(0, column - radius), min(columns, column + radius + 1)):
                deviation = (2 * radius + 1) / 6
                bell = math.exp(-((r - row) ** 2 + (c - column) ** 2) / (2 * deviation**2))
                wanted[r, c, int(kind)] = max(wanted[r, c, int(kind)], bell)
        found = maps[row, column, -4:]
        distance += 0.1 * (abs(found[0] / STRIDE - width) + abs(found[1] / STRIDE - height))
        distance += abs(found[2] - (x - column)) + abs(found[3] - (y - row))
    focal = 0.0
    for score, goal in zip(maps[..., :-4].ravel(), wanted.ravel(), strict=True):
        if goal == 1:
            focal -= (1 - score) ** 2 * math.log(score)
        else:
            focal -= (1 - goal) ** 4 * score**2 * math.log(1 - score)
    return (focal + distance) / max(1, count)


def test_the_loss_is_the_papers() -> None:
    from dbinfer_models.losses import centre_loss

    rng = np.random.default_rng(1)
    maps = rng.uniform(0.01, 0.99, (3, 16, 16, 7)).astype(np.float32)
    boxes = np.full((3, 4, 5), -1, np.float32)
    boxes[0, :3] = [(3, 5, 40, 50, 0), (20, 8, 34, 60, 2), (22, 12, 41, 57, 2)]  # two near each other
    boxes[1, 0] = (40, 30, 64, 64, 1)  # at the edge, the others are none
    expected = [_loss(*pair) for pair in zip(boxes, maps, strict=True)]  # the third: nothing to find
    # a dozen roundings for each term, of which a map has 16 * 16 * 3; log and pow of a processor are good to some ulps
    rounding = tolerance(max(expected), 12, 16 * 16 * 3)
    np.testing.assert_allclose(np.asarray(centre_loss(boxes, maps)), expected, rtol=0, atol=rounding)


def test_perfect_maps_have_almost_no_loss() -> None:
    from dbinfer_models.losses import centre_loss

    boxes = np.array([[[8, 8, 24, 40, 1]]], np.float32)
    maps = np.zeros((1, 16, 16, 6), np.float32)
    maps[0, 6, 4, 1] = 1
    maps[0, 6, 4, 2:] = (16, 32, 0, 0)
    assert float(np.asarray(centre_loss(boxes, maps))[0]) < 1e-3
