"""From encoded files to the arrays a network trains on, with the very code that prepares images in the backend.

Decoder and Resizer come from dbinfer_udf, so that training and scoring cannot drift apart.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer.errors import DataError
from dbinfer.ir.tensor import normalized
from dbinfer.train.data.source import Samples, Target
from dbinfer_udf.errors import ImageError
from dbinfer_udf.image import Decoder, target_of
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.preprocess import Resizer

Float = NDArray[np.float32]
Pixels = NDArray[np.uint8]

# What augmentation changes, at most
DEGREES = 10.0
SCALE = 0.1
SHIFT = 0.08  # of the side
BRIGHTNESS = 0.15


@dataclass(frozen=True)
class Seed:
    """What random changes depend on, so that a resumed run repeats them."""

    seed: int
    rank: int
    epoch: int

    def generator(self, *more: int) -> np.random.Generator:
        """Return a generator for this epoch and rank, and for what `more` tells apart."""
        return np.random.default_rng([self.seed, self.rank, self.epoch, *more])


class Loader:
    """Reads, decodes and resizes samples for one network.

    Args:
        samples: what to read.
        manifest: size, colours, mean and scale of the network's input.
        skip_bad: an unreadable sample is left out with a warning; else it raises.
    """

    def __init__(self, samples: Samples, manifest: Manifest, skip_bad: bool = False) -> None:
        self.samples = samples
        self._manifest = manifest
        self._decode = Decoder(manifest.color, target=target_of(manifest))
        self._decode_mask = Decoder("GRAY")
        self._resize = Resizer(manifest).resize
        # What the image is padded with belongs to no object
        mask = replace(manifest, channels=1, color="GRAY", pad_value=0, mean=(), scale=())
        self._resize_mask = Resizer(mask).resize
        self._skip_bad = skip_bad
        self._warned: set[int] = set()

    def load(self, index: int, seed: Seed | None = None) -> tuple[Float, Any]:
        """Return one image, float32 (height, width, channels), and its mask (height, width, 1) or class.

        Args:
            index: which sample.
            seed: where given, the image is changed at random (see augment).

        Raises:
            DataError: the image or the mask cannot be read, or they differ in size; the message names it.
        """
        image, target = self._pixels(index)
        if seed is not None:
            image, target = augment(image, target, seed.generator(index))
        return normalized(image, self._manifest), _truth(target)

    def try_load(self, index: int, seed: Seed | None = None) -> tuple[Float, Any] | None:
        """Return the sample, or None where it is unreadable and bad samples are to be skipped."""
        try:
            return self.load(index, seed)
        except DataError as err:
            if not self._skip_bad:
                raise
            # Once: it comes up again in every epoch
            if index not in self._warned:
                self._warned.add(index)
                print(f"dbinfer: left out: {err.message}", file=sys.stderr, flush=True)
            return None

    def _pixels(self, index: int) -> tuple[NDArray[np.uint8], Any]:
        data, target = self.samples.read(index)
        image, size = self._decoded(self._decode, data, index, "image")
        tensor = np.empty((self._manifest.height, self._manifest.width, self._manifest.channels), np.uint8)
        self._resize(image, tensor)
        return tensor, self._mask(target, size, index) if isinstance(target, bytes) else target

    def _mask(self, data: Target, size: tuple[int, int], index: int) -> NDArray[np.uint8]:
        """Return the mask in the network's size, 0 or 255; a file of 0 and 1 is a mask too."""
        assert isinstance(data, bytes)
        mask, mask_size = self._decoded(self._decode_mask, data, index, "mask")
        if mask_size != size:
            raise DataError(
                f"the mask of {self.samples.name(index)} has {mask_size[0]} x {mask_size[1]} pixels, but the image "
                f"has {size[0]} x {size[1]}"
            )
        if mask.max() == 1:
            mask = mask * np.uint8(255)
        tensor = np.empty((self._manifest.height, self._manifest.width, 1), np.uint8)
        self._resize_mask(mask, tensor)
        # Resizing leaves greys at the edges, and a mask has none
        binary: NDArray[np.uint8] = cv2.compare(tensor, 127, cv2.CMP_GT)
        return binary.reshape(tensor.shape)

    def _decoded(
        self, decode: Decoder, data: bytes, index: int, what: str
    ) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        try:
            image, header = decode(data)
        except ImageError as err:
            raise DataError(f"the {what} of {self.samples.name(index)} is unreadable: {err.message}") from err
        return image, header.size


def _truth(target: Any) -> Any:
    if isinstance(target, np.ndarray):
        return target.astype(np.float32) / 255
    return np.int32(target)


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
        # The nearest pixel: values in between would be no mask
        target = _moved(target, move, cv2.INTER_NEAREST)
    return np.clip(moved, 0, 255).astype(np.uint8), target


def _moved(image: Pixels, move: Any, how: int) -> Pixels:
    size = (image.shape[1], image.shape[0])
    moved: Pixels = cv2.warpAffine(image, move, size, flags=how, borderMode=cv2.BORDER_REPLICATE)
    # OpenCV drops the axis of a single channel
    return moved.reshape(image.shape)
