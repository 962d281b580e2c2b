"""Turns a segmentation network's output into a PNG mask in the size of the image."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Tuple

import cv2
import numpy as np

from ..errors import ModelError
from ..image.file import Header
from ..image.resize import Placement
from ..manifest import Manifest

# as many values as a pixel of an 8-bit PNG has
MAX_CLASSES = 256


def _png_options() -> List[int]:
    """Return run lengths over the `up` filter where OpenCV (4.12 on) can; else its defaults (`sub` filter).

    512 x 512 mask of a photograph, 2 classes / 20 classes, OpenCV 5.0: this 356 us 3.8 kB / 610 us 15 kB;
    defaults 366 us 5.3 kB / 779 us 23 kB; level 6 1756 us 4.5 kB / 4287 us 16 kB.
    A mask of one bit per pixel takes 183 us 3.3 kB, but many readers then give booleans instead of 0 and 255.
    """
    if not hasattr(cv2, "IMWRITE_PNG_FILTER"):
        return []
    strategy = [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]
    return [cv2.IMWRITE_PNG_COMPRESSION, 1, *strategy, cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_UP]


_PNG_OPTIONS = _png_options()


class MaskLayout(NamedTuple):
    """How the network's output holds the mask.

    Attributes:
        height, width: of the output.
        classes: channels of the output; 1 is a probability or, where `indices`, a class number per pixel.
        channels_first: [1, C, H, W] instead of [1, H, W, C].
        indices: the network did the argmax itself.
    """

    height: int
    width: int
    classes: int
    channels_first: bool
    indices: bool


def mask_layout(shape: Sequence[int], labels: Sequence[str] = ()) -> MaskLayout:
    """Decide once, at model load, how an output of this shape is read.

    [1, H, W], [1, H, W, C] or [1, C, H, W]; of the last two the one whose C is the number of labels, else
    the one whose C is smaller. One channel with more than two labels holds class numbers.

    Raises:
        ModelError: another shape, or more than 256 classes.
    """
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise ModelError(
            f"the model's output has shape {list(shape)}, which is not a mask",
            hint="For segment() it must be [1, H, W], [1, H, W, C] or [1, C, H, W].",
        )
    if len(shape) == 3:
        return MaskLayout(shape[1], shape[2], 1, False, len(labels) > 2)
    first = _channels_first(shape, len(labels))
    classes, height, width = (shape[1], shape[2], shape[3]) if first else (shape[3], shape[1], shape[2])
    if classes > MAX_CLASSES:
        raise ModelError(
            f"the model's output has {classes} classes, but a mask holds at most {MAX_CLASSES}",
            detail=f"The output has shape {list(shape)}.",
        )
    return MaskLayout(height, width, classes, first, classes == 1 and len(labels) > 2)


def _channels_first(shape: Sequence[int], labels: int) -> bool:
    if labels and (shape[3] == labels) != (shape[1] == labels):
        return shape[1] == labels
    return shape[1] < shape[3]


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + e^-x), computed so that no exponential overflows."""
    small = np.exp(-np.abs(values))
    result: np.ndarray = np.where(values >= 0, 1, small) / (1 + small)
    return result


def segment(model: Any, output: np.ndarray, placement: Placement, header: Header, _k: Any) -> bytes:
    """Return the mask of one image of a model."""
    return mask(output, model.layout, model.manifest, placement, header.size)


def mask(
    output: np.ndarray,
    layout: MaskLayout,
    manifest: Manifest,
    placement: Placement,
    image_size: Tuple[int, int],
) -> bytes:
    """Return the mask as an 8-bit gray PNG; see `pixels`. 0 where nothing was seen."""
    return png(*pixels(output, layout, manifest, placement, image_size), image_size)


def pixels(
    output: np.ndarray,
    layout: MaskLayout,
    manifest: Manifest,
    placement: Placement,
    image_size: Tuple[int, int],
) -> Tuple[np.ndarray, Tuple[int, int]]:
    """Return the part of the mask that the network saw, uint8, and its upper left corner in the image.

    One probability per pixel: it is scaled to the image, then 255 above the manifest's threshold, else 0.
    Several classes: the number of the highest one, scaled with nearest neighbours.

    Args:
        output: float32 (or whole numbers, where the network did the argmax) in the shape of `layout`.
        placement: where the image lay in the input tensor.
        image_size: (width, height) of the mask.
    """
    one = layout.classes == 1
    found = _classes(output, layout) if not one or layout.indices else _probability(output, layout, manifest)
    x, y, right, bottom = _seen(layout, manifest, placement)
    left_to, top_to, right_to, bottom_to = _part(placement, image_size)
    size = (right_to - left_to, bottom_to - top_to)
    # between class 2 and class 4 there is no class 3
    method = cv2.INTER_NEAREST if found.dtype == np.uint8 else cv2.INTER_LINEAR
    part = cv2.resize(found[y:bottom, x:right], size, interpolation=method)
    if part.dtype != np.uint8:
        # a view, not a copy: NumPy's True is the byte 1
        part = (part > manifest.threshold).view(np.uint8) * np.uint8(255)
    return part, (left_to, top_to)


def _classes(output: np.ndarray, layout: MaskLayout) -> np.ndarray:
    if layout.indices:
        return output.reshape(layout.height, layout.width).astype(np.uint8)
    highest: np.ndarray = output[0].argmax(0 if layout.channels_first else 2)
    return highest.astype(np.uint8)


def _probability(output: np.ndarray, layout: MaskLayout, manifest: Manifest) -> np.ndarray:
    values = output.reshape(layout.height, layout.width).astype(np.float32, copy=False)
    return sigmoid(values) if manifest.activation == "sigmoid" else values


def _seen(layout: MaskLayout, manifest: Manifest, placement: Placement) -> Tuple[int, int, int, int]:
    """Return the image's box in the output, which may be smaller than the input tensor."""
    across, down = layout.width / manifest.width, layout.height / manifest.height
    # rounding may lead beyond the last pixel, and a box must hold at least one
    x = min(layout.width - 1, round(placement.x * across))
    y = min(layout.height - 1, round(placement.y * down))
    right = round((placement.x + placement.width) * across)
    bottom = round((placement.y + placement.height) * down)
    return x, y, max(x + 1, right), max(y + 1, bottom)


def _part(placement: Placement, image_size: Tuple[int, int]) -> Tuple[int, int, int, int]:
    """Return the box of the image that the network saw, in pixels."""
    width, height = image_size
    x, y = min(width - 1, round(placement.left * width)), min(height - 1, round(placement.top * height))
    return x, y, max(x + 1, round(placement.right * width)), max(y + 1, round(placement.bottom * height))


def png(part: np.ndarray, at: Tuple[int, int], image_size: Tuple[int, int]) -> bytes:
    """Return a mask of 8 bits as a PNG file of a size, the part at its place in it."""
    width, height = image_size
    if part.shape != (height, width):
        # 0 for what `crop` cut away, which the network has not seen
        whole = np.zeros((height, width), np.uint8)
        whole[at[1] : at[1] + part.shape[0], at[0] : at[0] + part.shape[1]] = part
        part = whole
    done, encoded = cv2.imencode(".png", part, _PNG_OPTIONS)
    if not done:
        raise ModelError(f"OpenCV cannot encode a mask of {width} x {height} pixels")
    return bytes(encoded.tobytes())
