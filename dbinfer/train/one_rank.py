"""One rank's training from start to end (the whole run where there is one), and the precision of boxes it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import DataError, TrainError
from dbinfer.images.boxes import Boxes, average_precision
from dbinfer.train.answers import Reading, joined
from dbinfer.train.course import Pass, Schedule, follow
from dbinfer.train.device import choose_device, share_cores
from dbinfer.train.loader import Pipeline, Seed, read_batches
from dbinfer.train.model import (
    Meter,
    average_batch_norm,
    build,
    compile_model,
    distributed,
    evaluate,
    one_epoch,
    reseed,
    synchronise,
)
from dbinfer.train.own import everywhere
from dbinfer.train.ranks import Alone, Ranks, hosts_of
from dbinfer.train.report import OnEvent
from dbinfer.train.setup import Setup
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.detection import Way, detections

Float = NDArray[np.float32]
ROWS = 300  # peaks at most, as in the graph that `dbinfer convert` makes


def precision(model: Any, pipeline: Pipeline | None, manifest: Manifest, ranks: Ranks) -> dict[str, float]:
    """Return val_map50 and val_map50_95 over the validation images of all ranks, which call this together.

    Args:
        model: the model in training, with heatmap, size and offset side by side.
        pipeline: of this rank's images; None where it has none.
    """
    own = [] if pipeline is None else list(_evaluated(model, pipeline, manifest))
    # Not a mean over ranks: there is one curve of precision and recall over all images
    told = ranks.gather([[image.found.tolist(), image.true.tolist()] for image in own])
    images = [Boxes(_rows(found, 6), _rows(true, 5)) for part in told for found, true in part]
    if not any(len(image.true) for image in images):
        raise DataError(
            "no image of the validation has a box: there is nothing to evaluate the network with",
            "Give other images with --val, or none.",
        )
    return {f"val_{name}": value for name, value in average_precision(images).items()}


def _rows(values: Any, columns: int) -> Float:
    return np.array(values, np.float32).reshape(-1, columns)


def _evaluated(model: Any, pipeline: Pipeline, manifest: Manifest) -> Any:
    for images, truths in read_batches(pipeline, pipeline.validation()):
        for maps, truth in zip(model.predict_on_batch(images), truths, strict=True):
            yield Boxes(found(maps, manifest), truth[truth[:, 4] >= 0])


def found(maps: Float, manifest: Manifest) -> Float:
    """Return the boxes that one image's maps show, as dbinfer.detect finds them.

    Args:
        maps: (rows, columns, classes + 4): heatmap, width and height in pixels, x and y within the cell.
        manifest: says which scores count, and how many boxes.

    Returns:
        float32 (n, 6): left, top, right, bottom in pixels of the input tensor and within it, score, class; best first.
    """
    heatmap, sizes, offsets = maps[..., :-4], maps[..., -4:-2], maps[..., -2:]
    scores = np.where(_is_peak(heatmap), heatmap, 0).ravel()
    best = np.argsort(-scores, kind="stable")[: max(ROWS, manifest.max_detections)]
    rows, columns, classes = np.unravel_index(best, heatmap.shape)
    stride = np.array([manifest.width / heatmap.shape[1], manifest.height / heatmap.shape[0]], np.float32)
    centres = (np.stack([columns, rows], 1) + offsets[rows, columns]) * stride
    halves = sizes[rows, columns] / 2
    corners = [centres - halves, centres + halves]
    output = np.concatenate([*corners, scores[best][:, None], classes[:, None]], 1).astype(np.float32)
    # From here on the code of dbinfer.detect; the tensor stands for the image
    size = manifest.width, manifest.height
    seen = detections(output[None], manifest, Way(1, 1, 0, 0), size)
    return np.column_stack([seen.boxes, seen.scores, seen.classes]).reshape(-1, 6).astype(np.float32)


def _is_peak(heatmap: Float) -> NDArray[np.bool_]:
    """Return where a score is the highest of its class among the 3 x 3 cells around it."""
    padded = np.pad(heatmap, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    peaks: NDArray[np.bool_] = heatmap >= around.max(axis=(-2, -1))
    return peaks


def train_rank(setup: Setup, ranks: Ranks, on_event: OnEvent) -> None:
    """Train; rank 0 leaves the files of the run.

    Raises:
        DbinferError: an image is unreadable, a checkpoint does not fit, ...
    """
    follow(Rank(setup, ranks), on_event)


class Rank:
    """The network and the images of one rank, see dbinfer.train.course.Trainer.

    Attributes:
        network: what is trained.
        model: the same, or what stands for it in checkpoints.
        callbacks: of Keras, for each epoch.

    Args:
        setup: what is trained.
        ranks: all of them.
        together: whether each step is made together, with the mean of all gradients.
    """

    model: Any
    callbacks: Sequence[Any] = ()

    def __init__(self, setup: Setup, ranks: Ranks, together: bool = True) -> None:
        import keras

        job = setup.job
        choose_device(job.device, ranks.local_rank, job.precision)
        share_cores(job, ranks)
        keras.utils.set_random_seed(job.seed + ranks.rank)  # dropout and the like differ from rank to rank
        setup = replace(setup, network=everywhere(setup.network, job, ranks.share))
        self.setup, self.first, self._ranks = setup, ranks.rank == 0, ranks
        self.plain, _ = build(setup.network, setup.options)
        self.network = distributed(setup.network.learner(self.plain), ranks if together else Alone())
        compile_model(self.network, setup.network, job)
        self.model = self.network
        self._train = setup.training(ranks.rank, ranks.size)
        # A rank that makes one step more would wait for ever for the others' gradients
        self.steps = ranks.share(self._train.steps)
        if self._train.steps != self.steps:
            raise TrainError(
                f"rank {ranks.rank} has {self._train.steps} steps an epoch, but rank 0 has {self.steps}"
            )
        self._schedule = Schedule.of(job, ranks.size if together else 1, self.steps)
        self._val = setup.validation(ranks.rank, ranks.size)
        # All rows are read: no transaction stays open while the network trains
        setup.close()
        setup.check_alike(ranks.share, ranks.gather)

    def share(self, value: Any) -> Any:
        return self._ranks.share(value)

    def begin(self) -> None:
        synchronise(self.model, self._ranks)

    def epoch(self, number: int, on_event: OnEvent) -> Pass:
        reseed(self.network, Seed(self.setup.job.seed, self._ranks.rank, number))
        meter = Meter(self.network, self._schedule, on_event, number, self._train.steps)
        values = one_epoch(self.network, self._train, meter, self._ranks, self.callbacks)
        return Pass(values, meter.rate, self._train.length * self._ranks.size)

    def evaluate(self) -> dict[str, float]:
        # Before the validation, which must evaluate the model that is saved
        if self.setup.job.average_batch_norm:
            average_batch_norm(self.network, self._ranks)
        if not self.setup.val:
            return {}
        values = evaluate(self.network, self._val, self._ranks)
        if self.setup.network.finds_boxes:
            values.update(precision(self.network, self._val, self.setup.manifest, self._ranks))
        return values

    def scored(self, reading: Reading) -> tuple[Any, Any]:
        own: list[list[Any]] = []
        if self._val is not None:
            for images, truths in read_batches(self._val, self._val.validation()):
                own.append([truths.tolist(), reading(self.plain.predict_on_batch(images)).tolist()])
        return joined((truths, read) for part in self._ranks.gather(own) for truths, read in part)

    def about(self) -> dict[str, Any]:
        return {"hosts": hosts_of(self._ranks)}
