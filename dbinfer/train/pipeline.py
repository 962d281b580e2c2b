"""The tf.data pipelines: batches of one rank's images, decoded in parallel while the network computes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbinfer.errors import DataError
from dbinfer.train.loader import Loader, Seed
from dbinfer.train.options import TrainJob


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
        """Return all images once, unchanged and in order; unreadable ones are left out if skipped at all."""
        count, size = len(self.loader.samples), self.job.batch
        return self._dataset(
            lambda step: self.judged(range(step * size, min(count, (step + 1) * size))),
            math.ceil(count / size),
        )

    def judged(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """Return these images unchanged; unreadable ones are left out if skipped at all."""
        pairs = [pair for row in rows if (pair := self._try(row, None)) is not None]
        # Where all of a batch are unreadable another image stands in: an empty batch cannot be judged
        return self._stacked(pairs or [self._readable(rows[0], None)])

    def _dataset(self, load: Any, steps: int) -> Any:
        import tensorflow as tf

        image, truth = self._stacked([self._readable(0, None)])

        def batch(step: Any) -> tuple[Any, Any]:
            # Not tf.image: training must see the very pixels that scoring sees
            x, y = tf.numpy_function(load, [step], (image.dtype, truth.dtype))
            # numpy_function forgets the shapes, which Keras needs
            return tf.ensure_shape(x, (None, *image.shape[1:])), tf.ensure_shape(y, (None, *truth.shape[1:]))

        options = tf.data.Options()
        options.autotune.enabled = False  # it can stall a rank for seconds at the end of an epoch
        options.threading.private_threadpool_size = self.job.workers
        # Deterministic: a batch that is ready early waits for its turn, or no run could be repeated
        dataset = tf.data.Dataset.range(steps).map(batch, self.job.workers, deterministic=True)
        return dataset.prefetch(2).with_options(options)

    def _try(self, row: int, seed: Seed | None) -> tuple[Any, Any] | None:
        try:
            return self.loader.try_load(row, seed)
        except DataError as err:
            self.failure = self.failure or err
            raise

    def _readable(self, row: int, seed: Seed | None) -> tuple[Any, Any]:
        """Return this image, or the next readable one: every rank must come to the same number of steps."""
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
    """Yield the batches as arrays, for loops without Keras; the first unreadable image is raised as it was."""
    import tensorflow as tf

    try:
        yield from batches.as_numpy_iterator()
    except tf.errors.OpError as err:
        # tf.data passes on no more than the text of an exception; the pipeline has kept it whole
        raise pipeline.failure or err from err
