"""Small random changes of an image in training, and of what it shows: its mask or its boxes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer.boxes import Corners
from dbinfer.train.placing import inside

Pixels = NDArray[np.uint8]

# What augmentation changes, at most
DEGREES = 10.0
SCALE = 0.1
SHIFT = 0.08  # of the side
BRIGHTNESS = 0.15


def augment(image: Pixels, target: Any, rng: np.random.Generator) -> tuple[Pixels, Any]:
    """Return the image turned, scaled, moved and made lighter or darker by a little; edges are repeated.

    Args:
        image: uint8 (height, width, channels).
        target: a mask, uint8 (height, width, 1) of 0 and 255, or boxes, float32 (n, 5), which move with the image; or
            a class.
        rng: decides how much.
    """
    height, width = image.shape[:2]
    boxed = isinstance(target, np.ndarray) and target.dtype != np.uint8
    # A box that is turned is no longer one, and the upright one around it would be too large
    angle = 0.0 if boxed else rng.uniform(-DEGREES, DEGREES)
    move = cv2.getRotationMatrix2D((width / 2, height / 2), angle, rng.uniform(1 - SCALE, 1 + SCALE))
    move[:, 2] += rng.uniform(-SHIFT, SHIFT, 2) * (width, height)
    moved = _moved(image, move, cv2.INTER_LINEAR).astype(np.float32)
    moved *= rng.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS)
    if boxed:
        target = inside(_moved_boxes(target, move), (0, 0, width, height))
    elif isinstance(target, np.ndarray):
        # The nearest pixel: values in between would be no mask
        target = _moved(target, move, cv2.INTER_NEAREST)
    return np.clip(moved, 0, 255).astype(np.uint8), target


def _moved_boxes(found: Corners, move: Any) -> Any:
    """Return the boxes under a scaling and a shift."""
    scale, shift = np.diag(move), move[:, 2]
    return np.column_stack([found[:, :2] * scale + shift, found[:, 2:4] * scale + shift, found[:, 4]])


def _moved(image: Pixels, move: Any, how: int) -> Pixels:
    size = (image.shape[1], image.shape[0])
    moved: Pixels = cv2.warpAffine(image, move, size, flags=how, borderMode=cv2.BORDER_REPLICATE)
    # OpenCV drops the axis of a single channel
    return moved.reshape(image.shape)
