"""Resizes an image of any size into a model's input tensor, as its manifest says; large ones nearly as exact
averages of areas.

OpenCV averages areas exactly, but without the processor's vectors, except where both sides become half. So a picture is
halved while it is much too large, sampled between its pixels at two or four times the size that is wanted, and halved
again: each pixel is the mean of samples spread evenly over its area. See docs/explanation/performance.md.
"""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple, Tuple

import cv2
import numpy as np

from ..manifest import ANY_SIZE, STEP, Manifest

# Times that a side shrinks: below, areas are hardly wider than a pixel, and one sample says as much as four
ONE = 1.15
WIDEST = 10  # times the manifest's width, of a network that keeps the height
UPRIGHT = 1.5  # times as high as wide: such a line runs downwards
# so many samples along an area miss none of its pixels by much
TWO, FOUR = 2.6, 6.0
# from TWO up to here two samples miss too much, and four take as long as exact averages
EXACT = 3.0


def shrink(image: np.ndarray, out: np.ndarray) -> None:
    """Write the image, which is nowhere smaller than `out`, into `out`.

    Args:
        image: uint8 (h, w, 3), or (h, w) for one channel.
        out: of the same kind, written in place.
    """
    (height, width), (to_height, to_width) = image.shape[:2], out.shape[:2]
    across, down = width / to_width, height / to_height
    most, least = max(across, down), min(across, down)
    if most < ONE:
        cv2.resize(image, (to_width, to_height), out, interpolation=cv2.INTER_LINEAR)
        return
    while most > FOUR:
        most, least, across, down = most / 2, least / 2, across / 2, down / 2
        # a long picture whose short side hardly shrinks, or one that is thinner than two pixels
        if least < 1 or min(image.shape[:2]) < 2:
            cv2.resize(image, (to_width, to_height), out, interpolation=cv2.INTER_AREA)
            return
        image = _half(image)
    if TWO < most <= EXACT:
        cv2.resize(image, (to_width, to_height), out, interpolation=cv2.INTER_AREA)
        return
    times = 2 if most <= TWO else 4
    samples = _sampled(image, times * to_width, times * to_height, times / across, times / down)
    if times == 4:
        samples = _half(samples)
    cv2.resize(samples, (to_width, to_height), out, interpolation=cv2.INTER_AREA)


def _half(image: np.ndarray) -> np.ndarray:
    """Return half the picture; of an odd side the last line is left out."""
    height, width = image.shape[0] // 2, image.shape[1] // 2
    half: np.ndarray = cv2.resize(
        image[: 2 * height, : 2 * width], (width, height), interpolation=cv2.INTER_AREA
    )
    return half


def _sampled(image: np.ndarray, width: int, height: int, fx: float, fy: float) -> np.ndarray:
    """Return samples of the picture, fx and fy to a pixel: by its size, an odd line left out would shift them."""
    samples: np.ndarray = cv2.resize(image, None, fx=fx, fy=fy, interpolation=cv2.INTER_LINEAR)
    missing = height - samples.shape[0], width - samples.shape[1]
    if missing != (0, 0):
        # those of a line that was left out
        samples = cv2.copyMakeBorder(samples, 0, missing[0], 0, missing[1], cv2.BORDER_REPLICATE)
    return samples


_INTERPOLATIONS: Dict[str, int] = {
    "linear": cv2.INTER_LINEAR,
    "area": cv2.INTER_AREA,
    "cubic": cv2.INTER_CUBIC,
    "nearest": cv2.INTER_NEAREST,
}


class Placement(NamedTuple):
    """Which part of the tensor holds which part of the image.

    Attributes:
        x, y, width, height: box in the input tensor, in pixels; padding lies outside of it.
        left, top, right, bottom: box in the image, as fractions 0..1 of its width and height; what lies
            outside of it (crop) was not seen.
    """

    x: int
    y: int
    width: int
    height: int
    left: float = 0.0
    top: float = 0.0
    right: float = 1.0
    bottom: float = 1.0


class Resizer:
    """Brings images into the input tensor of one model; see Manifest.resize and Manifest.interpolation."""

    def __init__(self, manifest: Manifest) -> None:
        self._width, self._height = manifest.width, manifest.height
        self._shape = (manifest.height, manifest.width)
        self._pad = manifest.pad_value
        self._interpolation = _INTERPOLATIONS[manifest.interpolation]
        self._smooth = manifest.interpolation == "linear" and manifest.decode != "exact"
        self._whole = Placement(0, 0, manifest.width, manifest.height)
        modes: Dict[str, Callable[[np.ndarray, np.ndarray], Placement]] = {
            "standard": self._stretch,
            "fit_to_window": self._fit,
            "fit_to_window_letterbox": self._letterbox,
            "crop": self._crop,
            "keep_height": self._line,
            "keep_size": self._stretch,
        }
        self._follows, self._keeps_height = manifest.resize in ANY_SIZE, manifest.resize == "keep_height"
        self._mode = modes[manifest.resize]

    def size_for(self, image: np.ndarray) -> Tuple[int, int]:
        """Return height and width of the input tensor for an image, of a network that takes any size."""
        height, width = image.shape[:2]
        if self._keeps_height:
            wanted = _width_at(_upright(image), self._height)
            return self._height, min(max(-(-wanted // STEP) * STEP, self._width), WIDEST * self._width)
        shortest, longest = sorted(self._shape)
        scale = max(1.0, shortest / min(height, width))
        scale = min(scale, longest / max(height, width))
        rows, columns = (max(STEP, round(int(side * scale) / STEP) * STEP) for side in (height, width))
        return rows, columns

    def resize(self, image: np.ndarray, out: np.ndarray) -> Placement:
        """Write the image into the tensor's memory.

        Args:
            image: uint8 (h, w, 3), or (h, w) for one channel.
            out: uint8 (height, width, channels), written in place.

        Returns:
            Where the image lies in the tensor.
        """
        # OpenCV gives a gray picture no axis of channels
        if image.ndim == 2:
            out = out[:, :, 0]
        if image.shape[:2] == self._shape:
            out[...] = image
            return self._whole
        return self._mode(image, out)

    def _stretch(self, image: np.ndarray, out: np.ndarray) -> Placement:
        self._scale(image, out)
        return Placement(0, 0, out.shape[1], out.shape[0]) if self._follows else self._whole

    def _line(self, image: np.ndarray, out: np.ndarray) -> Placement:
        image = _upright(image)
        width = min(_width_at(image, out.shape[0]), out.shape[1])
        return self._pad_around(image, out, Placement(0, 0, width, out.shape[0]))

    def _fit(self, image: np.ndarray, out: np.ndarray) -> Placement:
        width, height = self._inside(image)
        return self._pad_around(image, out, Placement(0, 0, width, height))

    def _letterbox(self, image: np.ndarray, out: np.ndarray) -> Placement:
        width, height = self._inside(image)
        x, y = (self._width - width) // 2, (self._height - height) // 2
        return self._pad_around(image, out, Placement(x, y, width, height))

    def _inside(self, image: np.ndarray) -> Tuple[int, int]:
        """Return width and height of the image scaled to lie within the tensor, at least one pixel each."""
        height, width = image.shape[:2]
        scale = min(self._width / width, self._height / height)
        return max(1, round(width * scale)), max(1, round(height * scale))

    def _pad_around(self, image: np.ndarray, out: np.ndarray, placement: Placement) -> Placement:
        right, bottom = placement.x + placement.width, placement.y + placement.height
        # each time anew: the tensor still holds the image before
        out[: placement.y] = self._pad
        out[bottom:] = self._pad
        out[:, : placement.x] = self._pad
        out[:, right:] = self._pad
        self._scale(image, out[placement.y : bottom, placement.x : right])
        return placement

    def _crop(self, image: np.ndarray, out: np.ndarray) -> Placement:
        """Cut the largest centred part with the tensor's proportions, then scale it."""
        height, width = image.shape[:2]
        scale = max(self._width / width, self._height / height)
        part_width = min(width, max(1, round(self._width / scale)))
        part_height = min(height, max(1, round(self._height / scale)))
        x, y = (width - part_width) // 2, (height - part_height) // 2
        right, bottom = x + part_width, y + part_height
        self._scale(image[y:bottom, x:right], out)
        box = (x / width, y / height, right / width, bottom / height)
        return Placement(0, 0, self._width, self._height, *box)

    def _scale(self, image: np.ndarray, out: np.ndarray) -> None:
        """Scale the image into `out`, averaging areas along each side that shrinks if that is wanted."""
        (height, width), (to_height, to_width) = image.shape[:2], out.shape[:2]
        if self._smooth and (width > to_width or height > to_height):
            if width >= to_width and height >= to_height:
                shrink(image, out)
                return
            # areas are averaged only where both sides shrink, so the one that does goes first
            narrowed = (min(width, to_width), min(height, to_height))
            image = cv2.resize(image, narrowed, interpolation=cv2.INTER_AREA)
        cv2.resize(image, (to_width, to_height), out, interpolation=self._interpolation)


def _width_at(image: np.ndarray, height: int) -> int:
    """Return how wide an image is, scaled to a height; rounded up."""
    width: int = -(-height * image.shape[1] // image.shape[0])
    return width


def _upright(image: np.ndarray) -> np.ndarray:
    """Return a line of text, which may run downwards, from left to right."""
    if image.shape[0] < UPRIGHT * image.shape[1]:
        return image
    turned: np.ndarray = cv2.rotate(image, cv2.ROTATE_90_COUNTERCLOCKWISE)
    return turned
