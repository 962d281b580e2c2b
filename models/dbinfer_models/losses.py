"""Losses and metrics of our own (imports Keras): the overlap of masks, weights of classes, and the loss of maps of
centres.

That of centres is from CenterNet (Zhou et al. 2019, "Objects as Points", arXiv:1904.07850, section 3), whose heatmaps
are those of CornerNet (Law and Deng 2018, arXiv:1808.01244): focal on the heatmap, L1 on size and offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

STRIDE = 4  # pixels of the input tensor for each cell of the maps of centres
SMOOTH = 1.0
ALPHA, BETA = 2.0, 4.0  # powers of the focal loss
OVERLAP = 0.7  # of a box whose corners lie at the radius; CornerNet's formula, CenterNet's value
SIZE_WEIGHT, OFFSET_WEIGHT = 0.1, 1.0
LEAST = 1e-4  # scores keep that far away from 0 and 1, where the logarithm has no end

Loss = Callable[[Any, Any], Any]


def _registered(function: Loss) -> Loss:
    """Let models that were compiled with `function` be loaded again."""
    registered: Loss = keras.saving.register_keras_serializable(package="dbinfer")(function)
    return registered


def _dice(y_true: Any, y_pred: Any) -> Any:
    y_pred = ops.convert_to_tensor(y_pred)
    classes = y_pred.shape[-1]
    if classes > 1:
        numbers = ops.squeeze(ops.cast(y_true, "int32"), -1)
        # Of a number that is no class, a row of zeros
        y_true = ops.one_hot(numbers, classes, dtype=y_pred.dtype)
        y_pred = y_pred * ops.cast(numbers < classes, y_pred.dtype)[..., None]
    y_true = ops.cast(y_true, y_pred.dtype)
    axes = (1, 2) if classes > 1 else tuple(range(1, len(y_pred.shape)))
    shared = ops.sum(y_true * y_pred, axis=axes)
    there = ops.sum(y_true, axis=axes)
    overlaps = (2.0 * shared + SMOOTH) / (there + ops.sum(y_pred, axis=axes) + SMOOTH)
    if classes == 1:
        return overlaps
    # A class that an image has not says nothing of how well the others were found
    has = ops.cast(there > 0, y_pred.dtype)
    count = ops.sum(has, axis=-1)
    return ops.where(count > 0, ops.sum(overlaps * has, axis=-1) / ops.maximum(count, 1), 1.0)


@_registered
def dice_coefficient(y_true: Any, y_pred: Any) -> Any:
    """Return the Sorensen-Dice overlap 2|A.B| / (|A| + |B|) of each image, smoothed by one pixel.

    Of several classes it is the mean over those that the image has.

    Args:
        y_true: masks of 0 and 1, shape (batch, height, width, 1); of several classes their numbers, of which those that
            are no class count for nothing.
        y_pred: scores of 0 to 1, (batch, height, width, classes).

    Returns:
        One value per image, shape (batch,): 1 is equal, near 0 is disjoint; two empty masks give 1. The
        mean over images does not depend on how they are spread over batches or ranks.
    """
    return _dice(y_true, y_pred)


def weighted(loss: Any, weights: Sequence[float]) -> Loss:
    """Return a loss of class numbers in which each image counts by the weight of its class.

    Args:
        loss: as `model.compile` takes it; one value per image.
        weights: one per class.
    """
    function = keras.losses.get(loss)

    def weighed(truths: Any, scores: Any) -> Any:
        classes = ops.reshape(ops.cast(truths, "int32"), (-1,))
        each = ops.take(ops.convert_to_tensor(list(weights), scores.dtype), classes)
        return function(truths, scores) * each

    return weighed


@_registered
def dice_loss(y_true: Any, y_pred: Any) -> Any:
    """Return 1 - dice_coefficient of each image, shape (batch,) (after Milletari et al. 2016, V-Net)."""
    return 1.0 - _dice(y_true, y_pred)


@_registered
def centre_loss(y_true: Any, y_pred: Any) -> Any:
    """Return the loss of each image, shape (batch,).

    The paper divides by the objects of a batch; we divide by those of each image, so that the loss does not depend on
    how images are spread over batches or ranks.

    Args:
        y_true: boxes (batch, most, 5): left, top, right, bottom in pixels of the input tensor, and class; class -1 is
            no box.
        y_pred: (batch, rows, columns, classes + 4): scores of 0..1; width and height in pixels; x and y within the
            cell, in cells.
    """
    y_pred = ops.convert_to_tensor(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    rows, columns, depth = y_pred.shape[1:]
    # As in the paper all lengths are in cells
    scores, sizes, offsets = y_pred[..., :-4], y_pred[..., -4:-2] / STRIDE, y_pred[..., -2:]
    corners, classes = y_true[..., :4] / STRIDE, y_true[..., 4]
    there = ops.cast(classes >= 0, y_pred.dtype)
    count = ops.maximum(ops.sum(there, axis=1), 1.0)
    centres = (corners[..., 0:2] + corners[..., 2:4]) / 2
    extents = corners[..., 2:4] - corners[..., 0:2]
    last = ops.convert_to_tensor([columns - 1, rows - 1], y_pred.dtype)
    cells = ops.clip(ops.floor(centres), 0.0, last)
    marks = _marks(cells, rows, columns) * there[:, :, None, None]
    wanted = _heatmap(cells, extents, marks, ops.one_hot(ops.cast(classes, "int32"), depth - 4))
    focal = _focal(wanted, ops.clip(scores, LEAST, 1 - LEAST))
    size = _distance(marks, sizes, extents)
    offset = _distance(marks, offsets, centres - cells)
    return (focal + SIZE_WEIGHT * size + OFFSET_WEIGHT * offset) / count


def _marks(cells: Any, rows: int, columns: int) -> Any:
    """Return (batch, most, rows, columns): 1 in the cell of each centre."""
    x = ops.one_hot(ops.cast(cells[..., 0], "int32"), columns, dtype=cells.dtype)
    y = ops.one_hot(ops.cast(cells[..., 1], "int32"), rows, dtype=cells.dtype)
    return y[:, :, :, None] * x[:, :, None, :]


def _heatmap(cells: Any, extents: Any, marks: Any, classes: Any) -> Any:
    """Return (batch, rows, columns, classes): 1 at each centre, falling off as a Gaussian within the box's radius."""
    rows, columns = marks.shape[2:]
    radius = gaussian_radius(extents)[:, :, None, None]
    x = ops.arange(columns, dtype=cells.dtype)[None, None, None, :] - cells[..., 0][:, :, None, None]
    y = ops.arange(rows, dtype=cells.dtype)[None, None, :, None] - cells[..., 1][:, :, None, None]
    deviation = (2 * radius + 1) / 6
    bell = ops.exp(-(x**2 + y**2) / (2 * deviation**2))
    near = ops.logical_and(ops.abs(x) <= radius, ops.abs(y) <= radius)
    there = ops.max(marks, axis=(2, 3), keepdims=True)
    bell = ops.where(near, bell, 0.0) * there
    # Where two objects of a class are near each other the higher value counts
    each = bell[..., None] * ops.cast(classes, bell.dtype)[:, :, None, None, :]
    return ops.max(each, axis=1)


def gaussian_radius(extents: Any) -> Any:
    """Return how far, in whole cells, corners may move before the box overlaps less than 0.7 with itself.

    The smallest of CornerNet's three cases, each the root of a quadratic equation: both corners move the same way, both
    inwards, both outwards. (The published code, which all others copied, divides by 2 where it should by 2a; so do we.)

    Args:
        extents: (..., 2): width and height in cells.
    """
    width, height = extents[..., 0], extents[..., 1]
    around, area = width + height, width * height
    same = around + ops.sqrt(ops.maximum(around**2 - 4 * area * (1 - OVERLAP) / (1 + OVERLAP), 0.0))
    inwards = 2 * around + ops.sqrt(ops.maximum(4 * around**2 - 16 * (1 - OVERLAP) * area, 0.0))
    outwards = -2 * OVERLAP * around + ops.sqrt(
        4 * OVERLAP**2 * around**2 + 16 * OVERLAP * (1 - OVERLAP) * area
    )
    smallest = ops.minimum(ops.minimum(same, inwards), outwards) / 2
    return ops.floor(ops.maximum(smallest, 0.0))


def _focal(wanted: Any, scores: Any) -> Any:
    """Return CornerNet's focal loss of each image, summed over its cells."""
    hit = ops.cast(wanted >= 1.0, scores.dtype)
    right = hit * (1 - scores) ** ALPHA * ops.log(scores)
    wrong = (1 - hit) * (1 - wanted) ** BETA * scores**ALPHA * ops.log(1 - scores)
    return -ops.sum(right + wrong, axis=(1, 2, 3))


def _distance(marks: Any, maps: Any, wanted: Any) -> Any:
    """Return the L1 distance of each image, summed over its centres."""
    found = ops.einsum("bmyx,byxc->bmc", marks, maps)
    there = ops.max(marks, axis=(2, 3))[..., None]
    return ops.sum(ops.abs(found - wanted) * there, axis=(1, 2))
