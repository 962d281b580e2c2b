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

from dbinfer import boxes
from dbinfer.errors import DataError
from dbinfer.ir.tensor import normalized
from dbinfer.train.augment import augment
from dbinfer.train.data.source import Samples, Target
from dbinfer.train.placing import inside, placed
from dbinfer_udf.detection import way_back
from dbinfer_udf.errors import ImageError
from dbinfer_udf.image import Decoder, reduction_of, target_of
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.preprocess import Resizer

Float = NDArray[np.float32]
Pixels = NDArray[np.uint8]


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
        self._target = target_of(manifest)
        self._decode = Decoder(manifest.color, target=self._target)
        self._decode_mask = Decoder("GRAY")
        self._resize = Resizer(manifest).resize
        # What the image is padded with belongs to no object
        mask = replace(manifest, channels=1, color="GRAY", pad_value=0, mean=(), scale=())
        self._resize_mask = Resizer(mask).resize
        self._boxes = manifest.task == "detection"
        self._skip_bad = skip_bad
        self._warned: set[int] = set()

    def load(self, index: int, seed: Seed | None = None) -> tuple[Float, Any]:
        """Return one image, float32 (height, width, channels), and its mask (height, width, 1), boxes or class.

        Boxes are float32 (100, 5): left, top, right, bottom in pixels of the network's input, and class; -1 is no box.

        Args:
            index: which sample.
            seed: where given, the image is changed at random (see augment).

        Raises:
            DataError: the image or the mask cannot be read, or they differ in size, or a box lies outside of the
                image; the message names it.
        """
        image, target = self._pixels(index)
        if seed is not None:
            image, target = augment(image, target, seed.generator(index))
        if self._boxes:
            target = boxes.padded(target)
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
        image, header = self._decoded(self._decode, data, index, "image")
        tensor = np.empty((self._manifest.height, self._manifest.width, self._manifest.channels), np.uint8)
        placement = self._resize(image, tensor)
        if self._boxes and isinstance(target, bytes):
            way = way_back(placement, header, reduction_of(header, self._target))
            found = placed(boxes.unpacked(target), way, header.size, self.samples.name(index))
            return tensor, inside(found, placement)
        return tensor, self._mask(target, header.size, index) if isinstance(target, bytes) else target

    def _mask(self, data: Target, size: tuple[int, int], index: int) -> NDArray[np.uint8]:
        """Return the mask in the network's size, 0 or 255; a file of 0 and 1 is a mask too."""
        assert isinstance(data, bytes)
        mask, header = self._decoded(self._decode_mask, data, index, "mask")
        if header.size != size:
            raise DataError(
                f"the mask of {self.samples.name(index)} has {header.size[0]} x {header.size[1]} pixels, but the image "
                f"has {size[0]} x {size[1]}"
            )
        if mask.max() == 1:
            mask = mask * np.uint8(255)
        tensor = np.empty((self._manifest.height, self._manifest.width, 1), np.uint8)
        self._resize_mask(mask, tensor)
        # Resizing leaves greys at the edges, and a mask has none
        binary: NDArray[np.uint8] = cv2.compare(tensor, 127, cv2.CMP_GT)
        return binary.reshape(tensor.shape)

    def _decoded(self, decode: Decoder, data: bytes, index: int, what: str) -> tuple[NDArray[np.uint8], Any]:
        try:
            return decode(data)
        except ImageError as err:
            raise DataError(f"the {what} of {self.samples.name(index)} is unreadable: {err.message}") from err


def _truth(target: Any) -> Any:
    if not isinstance(target, np.ndarray):
        return np.int32(target)
    return target.astype(np.float32) / 255 if target.dtype == np.uint8 else target
