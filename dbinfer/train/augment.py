"""Small random changes of an image, and the same movement of its mask."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

DEGREES = 10.0
SCALE = 0.1
SHIFT = 0.08  # of the side
BRIGHTNESS = 0.15


def augment(image: Pixels, target: Any, rng: np.random.Generator) -> tuple[Pixels, Any]:
    """Return the image turned, scaled, moved and made lighter or darker by a little; edges are repeated.

    Args:
        image: uint8 (height, width, channels).
        target: a mask, uint8 (height, width, 1) of 0 and 255, which moves with the image; or a class.
        rng: decides how much.
    """
    height, width = image.shape[:2]
    angle = rng.uniform(-DEGREES, DEGREES)
    move = cv2.getRotationMatrix2D((width / 2, height / 2), angle, rng.uniform(1 - SCALE, 1 + SCALE))
    move[:, 2] += rng.uniform(-SHIFT, SHIFT, 2) * (width, height)
    moved = _moved(image, move, cv2.INTER_LINEAR).astype(np.float32)
    moved *= rng.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS)
    if isinstance(target, np.ndarray):
        target = _moved(target, move, cv2.INTER_NEAREST)
    return np.clip(moved, 0, 255).astype(np.uint8), target


def _moved(image: Pixels, move: Any, how: int) -> Pixels:
    size = (image.shape[1], image.shape[0])
    moved: Pixels = cv2.warpAffine(image, move, size, flags=how, borderMode=cv2.BORDER_REPLICATE)
    return moved.reshape(image.shape)
