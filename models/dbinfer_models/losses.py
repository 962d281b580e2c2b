"""Overlap of a predicted mask with the true one, as a metric and as a loss (imports Keras)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

SMOOTH = 1.0

Overlap = Callable[[Any, Any], Any]


def _registered(function: Overlap) -> Overlap:
    """Let models that were compiled with `function` be loaded again."""
    registered: Overlap = keras.saving.register_keras_serializable(package="dbinfer")(function)
    return registered


def _dice(y_true: Any, y_pred: Any) -> Any:
    y_pred = ops.convert_to_tensor(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    axes = tuple(range(1, len(y_pred.shape)))
    shared = ops.sum(y_true * y_pred, axis=axes)
    both = ops.sum(y_true, axis=axes) + ops.sum(y_pred, axis=axes)
    return (2.0 * shared + SMOOTH) / (both + SMOOTH)


@_registered
def dice_coefficient(y_true: Any, y_pred: Any) -> Any:
    """Return the Sorensen-Dice overlap 2|A.B| / (|A| + |B|) of each image, smoothed by one pixel.

    Args:
        y_true: masks of 0 and 1, shape (batch, height, width, 1).
        y_pred: scores of 0 to 1, the same shape.

    Returns:
        One value per image, shape (batch,): 1 is equal, near 0 is disjoint; two empty masks give 1. The
        mean over images does not depend on how they are spread over batches or ranks.
    """
    return _dice(y_true, y_pred)


@_registered
def dice_loss(y_true: Any, y_pred: Any) -> Any:
    """Return 1 - dice_coefficient of each image, shape (batch,) (after Milletari et al. 2016, V-Net)."""
    return 1.0 - _dice(y_true, y_pred)
