"""From encoded files to batches that a network trains on, with the same code that prepares images in the backend.

Decoder and Resizer come from dbinfer_udf, so that training and scoring cannot drift apart.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import DataError
from dbinfer.images import boxes
from dbinfer.images.boxes import Corners
from dbinfer.models.graph import normalized
from dbinfer.train.options import TrainJob
from dbinfer.train.source import Samples, Target
from dbinfer_models import VOID
from dbinfer_udf.errors import ImageError
from dbinfer_udf.image.decode import Decoder, reduction_of, target_of
from dbinfer_udf.image.resize import Resizer
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.detection import Way, way_to_image


def placed(found: Corners, way: Way, size: tuple[int, int], name: str) -> Corners:
    """Return boxes of the image as shown in pixels of the network's input, the inverse of what dbinfer.detect does.

    Args:
        found: left, top, right, bottom and class; what reaches over the image's edge is cut off.
        way: from the input to the image.
        size: of the image as shown, width and height in pixels.
        name: what to call the image in a message.

    Raises:
        DataError: a box lies outside of the image.
    """
    outside = (found[:, :2] >= size).any(axis=1) | (found[:, 2:4] <= 0).any(axis=1)
    if outside.any():
        number = int(outside.argmax())
        x, y = found[number, :2]
        raise DataError(
            f"box {number + 1} of {name} begins at {x:g}, {y:g}, outside of the image of {size[0]} x {size[1]} pixels",
            "Boxes are in pixels of the image as it is shown, turned as its EXIF orientation says.",
        )
    corners = np.clip(found[:, :4], 0, [*size, *size]) - [way.left, way.top] * 2
    corners /= [way.across, way.down] * 2
    return np.column_stack([corners, found[:, 4]]).astype(np.float32)


def inside(found: Corners, frame: Sequence[float]) -> Corners:
    """Return the boxes whose centre lies within the frame, cut off at its edges: little of the others is visible.

    Args:
        frame: begins with x, y, width and height.
    """
    x, y, width, height = frame[:4]
    centres = (found[:, :2] + found[:, 2:4]) / 2
    kept = found[((centres >= (x, y)) & (centres < (x + width, y + height))).all(axis=1)]
    kept[:, :4] = np.clip(kept[:, :4], [x, y] * 2, [x + width, y + height] * 2)
    return kept


Pixels = NDArray[np.uint8]
OF_CLASSES = (
    "Write masks of several classes as gray or palette images, PNG for example: each pixel is its class."
)


def class_numbers(data: bytes, name: str) -> Pixels:
    """Return the numbers in a mask of several classes, (height, width): gray levels, or places in a palette.

    Args:
        name: what to call the mask in a message.

    Raises:
        DataError: it is no image, or one of colours.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.mode not in ("1", "L", "P"):
                raise DataError(f"{name} has colours ({image.mode}), not the numbers of classes", OF_CLASSES)
            return np.array(image, np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as err:
        raise DataError(f"{name} is unreadable: {err}", OF_CLASSES) from err


def check_numbers(numbers: Pixels, classes: int, name: str) -> None:
    """Raise DataError where a mask has a class that the network does not know.

    Args:
        numbers: of each pixel; VOID counts for nothing.
    """
    # Of each image in each epoch: np.unique takes 6 to 25 times as long
    there = np.flatnonzero(cv2.calcHist([numbers], [0], None, [256], [0, 256])).tolist()
    unknown = [number for number in there if number >= classes and number != VOID]
    if unknown:
        raise DataError(
            f"{name} has the class {unknown[0]}, but the network knows 0 to {classes - 1}",
            f"Give the network as many classes as the masks have; {VOID} counts for nothing.",
        )
    if classes == 2 and there == [0, VOID]:
        raise DataError(
            f"{name} has the values 0 and {VOID}, but of two classes the second is 1, and {VOID} counts for nothing",
            "Write it as 1, or end the network with one score for each pixel.",
        )


# The most that augmentation changes
DEGREES = 10.0
SCALE = 0.1
SHIFT = 0.08  # of the side
BRIGHTNESS = 0.15


def augment(image: Pixels, target: Any, rng: np.random.Generator) -> tuple[Pixels, Any]:
    """Return the image slightly turned, scaled, moved, and made lighter or darker; edges are repeated.

    Args:
        image: uint8 (height, width, channels).
        target: a mask, uint8 (height, width, 1) of 0 and 255 or of class numbers, or boxes, float32 (n, 5), which move
            with the image; or a class, or a vector, which stay.
        rng: decides how much.
    """
    height, width = image.shape[:2]
    boxed = isinstance(target, np.ndarray) and target.ndim == 2
    # A turned box is no box any more, and the upright box around it would be too large
    angle = 0.0 if boxed else rng.uniform(-DEGREES, DEGREES)
    move = cv2.getRotationMatrix2D((width / 2, height / 2), angle, rng.uniform(1 - SCALE, 1 + SCALE))
    move[:, 2] += rng.uniform(-SHIFT, SHIFT, 2) * (width, height)
    moved = _moved(image, move, cv2.INTER_LINEAR).astype(np.float32)
    moved *= rng.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS)
    if boxed:
        target = inside(_moved_boxes(target, move), (0, 0, width, height))
    elif isinstance(target, np.ndarray) and target.ndim == 3:
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


Float = NDArray[np.float32]


@dataclass(frozen=True)
class Seed:
    """What random changes depend on, so that a resumed run repeats them."""

    seed: int
    rank: int
    epoch: int

    def generator(self, *more: int) -> np.random.Generator:
        """Return a generator for this epoch and rank, one for each value of `more`."""
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
        self._boxes, self._masks = manifest.task == "detection", manifest.task == "segmentation"
        # In masks of several classes each pixel has the number of its own
        self._classes = len(manifest.labels) if self._masks else 0
        # The padding of an image belongs to no object, and to no class; between two classes there is no third
        how = {"pad_value": VOID, "interpolation": "nearest"} if self._classes else {"pad_value": 0}
        mask = replace(manifest, channels=1, color="GRAY", mean=(), scale=(), **how)
        self._resize_mask = Resizer(mask).resize
        self._skip_bad = skip_bad
        self._warned: set[int] = set()

    def load(self, index: int, seed: Seed | None = None) -> tuple[Float, Any]:
        """Return one image, float32 (height, width, channels), and its mask (height, width, 1), boxes, class or vector.

        A mask is float32 of 0 and 1, or int32 of class numbers.
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
        return normalized(image, self._manifest), target.astype(np.int32) if self._classes else _truth(target)

    def try_load(self, index: int, seed: Seed | None = None) -> tuple[Float, Any] | None:
        """Return the sample, or None where it is unreadable and bad samples are to be skipped."""
        try:
            return self.load(index, seed)
        except DataError as err:
            if not self._skip_bad:
                raise
            # Once, not in every epoch
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
            way = way_to_image(placement, header, reduction_of(header, self._target))
            found = placed(boxes.unpacked(target), way, header.size, self.samples.name(index))
            return tensor, inside(found, placement)
        if self._classes:
            return tensor, self._numbers(target, header.size, index)
        if self._masks:
            return tensor, self._mask(target, header.size, index)
        return tensor, np.frombuffer(target, np.float32) if isinstance(target, bytes) else target

    def _mask(self, data: Target, size: tuple[int, int], index: int) -> NDArray[np.uint8]:
        """Return the mask in the network's size, 0 or 255; a file of 0 and 1 is a mask too."""
        assert isinstance(data, bytes)
        mask, header = self._decoded(self._decode_mask, data, index, "mask")
        self._check_size(header.size, size, index)
        if mask.max() == 1:
            mask = mask * np.uint8(255)
        tensor = np.empty((self._manifest.height, self._manifest.width, 1), np.uint8)
        self._resize_mask(mask, tensor)
        # Resizing leaves greys at the edges, and a mask has none
        binary: NDArray[np.uint8] = cv2.compare(tensor, 127, cv2.CMP_GT)
        return binary.reshape(tensor.shape)

    def _numbers(self, data: Target, size: tuple[int, int], index: int) -> NDArray[np.uint8]:
        """Return the number of each pixel's class, or VOID, in the network's size."""
        assert isinstance(data, bytes)
        name = f"the mask of {self.samples.name(index)}"
        numbers = class_numbers(data, name)
        self._check_size((numbers.shape[1], numbers.shape[0]), size, index)
        check_numbers(numbers, self._classes, name)
        tensor = np.empty((self._manifest.height, self._manifest.width, 1), np.uint8)
        self._resize_mask(numbers, tensor)
        return tensor

    def _check_size(self, mask: tuple[int, int], image: tuple[int, int], index: int) -> None:
        if mask != image:
            raise DataError(
                f"the mask of {self.samples.name(index)} has {mask[0]} x {mask[1]} pixels, but the image "
                f"has {image[0]} x {image[1]}"
            )

    def _decoded(self, decode: Decoder, data: bytes, index: int, what: str) -> tuple[NDArray[np.uint8], Any]:
        try:
            return decode(data)
        except ImageError as err:
            raise DataError(f"the {what} of {self.samples.name(index)} is unreadable: {err.message}") from err


def _truth(target: Any) -> Any:
    if not isinstance(target, np.ndarray):
        return np.int32(target)
    return target.astype(np.float32) / 255 if target.dtype == np.uint8 else target


@dataclass
class Pipeline:
    """Batches of one rank, in an order that only seed, rank and epoch decide.

    Attributes:
        loader: reads the images of this rank.
        job: batch, shuffle, augment, workers and seed are used.
        rank: this process.
        length: images per epoch, the same on every rank: a shard with one image fewer repeats one.
        failure: the first unreadable image; tf.data would only pass its text on.
    """

    loader: Loader
    job: TrainJob
    rank: int
    length: int
    failure: DataError | None = None

    @property
    def steps(self) -> int:
        """Batches per epoch."""
        return math.ceil(self.length / self.job.batch)

    def order(self, epoch: int) -> Sequence[int]:
        """Return the numbers of the images of one epoch."""
        count = len(self.loader.samples)
        rows = np.arange(count)
        if self.job.shuffle:
            rows = Seed(self.job.seed, self.rank, epoch).generator().permutation(count)
        # np.resize starts again from the front: that is how a shorter shard repeats an image
        return [int(row) for row in np.resize(rows, self.length)]

    def training(self, epoch: int) -> Any:
        """Return the batches of one epoch as a tf.data.Dataset of (images, truths)."""
        order = self.order(epoch)
        return self._dataset(lambda step: self.batch(epoch, step, order), self.steps)

    def batch(self, epoch: int, step: int, order: Sequence[int]) -> tuple[Any, Any]:
        """Return images and truths of one step; `order` is that of the epoch."""
        seed = Seed(self.job.seed, self.rank, epoch) if self.job.augment else None
        rows = order[step * self.job.batch : (step + 1) * self.job.batch]
        return self._stacked([self._readable(row, seed) for row in rows])

    def validation(self) -> Any:
        """Return all images once, unchanged and in order; unreadable ones are left out if they are to be skipped."""
        count, size = len(self.loader.samples), self.job.batch
        return self._dataset(
            lambda step: self.unchanged(range(step * size, min(count, (step + 1) * size))),
            math.ceil(count / size),
        )

    def unchanged(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """Return these images unchanged; unreadable ones are left out if they are to be skipped."""
        pairs = [pair for row in rows if (pair := self._try(row, None)) is not None]
        # Where all of a batch are unreadable another image stands in: an empty batch cannot be evaluated
        return self._stacked(pairs or [self._readable(rows[0], None)])

    def _dataset(self, load: Any, steps: int) -> Any:
        import tensorflow as tf

        image, truth = self._stacked([self._readable(0, None)])

        def batch(step: Any) -> tuple[Any, Any]:
            # Not tf.image: training must see the same pixels as scoring
            x, y = tf.numpy_function(load, [step], (image.dtype, truth.dtype))
            # numpy_function forgets the shapes, which Keras needs
            return tf.ensure_shape(x, (None, *image.shape[1:])), tf.ensure_shape(y, (None, *truth.shape[1:]))

        options = tf.data.Options()
        options.autotune.enabled = False  # it can stall a rank for seconds at the end of an epoch
        options.threading.private_threadpool_size = self.job.decode_threads
        # Deterministic: a batch that is ready early waits for its turn, so that runs can be repeated
        dataset = tf.data.Dataset.range(steps).map(batch, self.job.decode_threads, deterministic=True)
        return dataset.prefetch(2).with_options(options)

    def _try(self, row: int, seed: Seed | None) -> tuple[Any, Any] | None:
        try:
            return self.loader.try_load(row, seed)
        except DataError as err:
            self.failure = self.failure or err
            raise

    def _readable(self, row: int, seed: Seed | None) -> tuple[Any, Any]:
        """Return this image, or the next readable one: every rank must have the same number of steps."""
        count = len(self.loader.samples)
        for step in range(count):
            pair = self._try((row + step) % count, seed)
            if pair is not None:
                return pair
        raise DataError(f"none of the {count} images of rank {self.rank} is readable")

    @staticmethod
    def _stacked(pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        return np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])


def read_batches(pipeline: Pipeline, batches: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the batches as arrays, for loops without Keras; raise the first unreadable image's own error."""
    import tensorflow as tf

    try:
        yield from batches.as_numpy_iterator()
    except tf.errors.OpError as err:
        # tf.data passes on no more than the text of an exception; the pipeline has kept it whole
        raise pipeline.failure or err from err
