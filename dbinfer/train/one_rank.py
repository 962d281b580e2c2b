"""One rank's training from start to end, and how good a network that finds boxes is; with one rank it is the whole
run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer.base.apart import cores
from dbinfer.base.errors import DataError, TrainError
from dbinfer.images.boxes import Boxes, average_precision
from dbinfer.train import course
from dbinfer.train import model as models
from dbinfer.train.course import Pass, Report
from dbinfer.train.device import choose_device, limit_threads
from dbinfer.train.loader import Pipeline, Seed, read_batches
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import Meter, Plan, Schedule, evaluate, one_epoch
from dbinfer.train.ranks import Ranks, hosts_of
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.detection import Way, detections

Float = NDArray[np.float32]
ROWS = 300  # peaks that count, as in the graph that `dbinfer convert` makes


def precision(model: Any, pipeline: Pipeline | None, manifest: Manifest, ranks: Ranks) -> dict[str, float]:
    """Return val_map50 and val_map50_95 over the validation images of all ranks, which call this together.

    Args:
        model: the one that is trained, with heatmap, size and offset side by side.
        pipeline: of this rank's images; None where it has none.
    """
    own = [] if pipeline is None else list(_judged(model, pipeline, manifest))
    # Not a mean over ranks: the curve of precision and recall is one over all images
    told = ranks.gather([[image.found.tolist(), image.true.tolist()] for image in own])
    images = [Boxes(_rows(found, 6), _rows(true, 5)) for part in told for found, true in part]
    if not any(len(image.true) for image in images):
        raise DataError(
            "no image of the validation has a box: there is nothing to judge the network by",
            "Give other images with --val, or none.",
        )
    return {f"val_{name}": value for name, value in average_precision(images).items()}


def _rows(values: Any, columns: int) -> Float:
    return np.array(values, np.float32).reshape(-1, columns)


def _judged(model: Any, pipeline: Pipeline, manifest: Manifest) -> Any:
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
    # From here on the very code of dbinfer.detect; the tensor stands for the image
    size = manifest.width, manifest.height
    seen = detections(output[None], manifest, Way(1, 1, 0, 0), size)
    return np.column_stack([seen.boxes, seen.scores, seen.classes]).reshape(-1, 6).astype(np.float32)


def _is_peak(heatmap: Float) -> NDArray[np.bool_]:
    """Return where a score is the highest of its class among the 3 x 3 cells around it."""
    padded = np.pad(heatmap, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    peaks: NDArray[np.bool_] = heatmap >= around.max(axis=(-2, -1))
    return peaks


def train_rank(plan: Plan, ranks: Ranks, report: Report) -> None:
    """Train; rank 0 leaves the files of the run.

    Raises:
        DbinferError: an image is unreadable, a checkpoint does not fit, ...
    """
    course.follow(Rank(plan, ranks), report)


class Rank:
    """The network and the images of one rank, see dbinfer.train.course.Trainer."""

    def __init__(self, plan: Plan, ranks: Ranks) -> None:
        import keras

        job = plan.job
        choose_device(job.device, ranks.local_rank)
        _limit_threads(job, ranks)
        keras.utils.set_random_seed(job.seed + ranks.rank)  # dropout and the like differ from rank to rank
        self.plan, self.first, self._ranks = plan, ranks.rank == 0, ranks
        self.plain, _ = models.build(plan.network, plan.options)
        self.model = models.distributed(plan.network.learner(self.plain), ranks)
        models.compile_model(self.model, plan.network, job)
        self._train = plan.training(ranks.rank, ranks.size)
        # A rank that makes one step more would wait for ever for the others' gradients
        self.steps = ranks.share(self._train.steps)
        if self._train.steps != self.steps:
            raise TrainError(
                f"rank {ranks.rank} has {self._train.steps} steps an epoch, but rank 0 has {self.steps}"
            )
        self._schedule = Schedule(
            job.lr, ranks.size, job.warmup * self.steps, job.epochs * self.steps, job.schedule
        )
        self._val = plan.validation(ranks.rank, ranks.size)
        # All rows are read: no transaction stays open while the network trains
        plan.close()
        _check_alike(plan, ranks)

    def share(self, value: Any) -> Any:
        return self._ranks.share(value)

    def begin(self) -> None:
        models.synchronise(self.model, self._ranks)

    def epoch(self, number: int, report: Report) -> Pass:
        models.reseed(self.model, Seed(self.plan.job.seed, self._ranks.rank, number))
        meter = Meter(self.model, self._schedule, report, number, self._train.steps)
        values = one_epoch(self.model, self._train, meter, self._ranks)
        return Pass(values, meter.rate, self._train.length * self._ranks.size)

    def judge(self) -> dict[str, float]:
        # Before the validation, which is to judge the model that is saved
        if self.plan.job.average_batch_norm:
            models.average_batch_norm(self.model, self._ranks)
        if not self.plan.val:
            return {}
        values = evaluate(self.model, self._val, self._ranks)
        if self.plan.network.finds_boxes:
            values.update(precision(self.model, self._val, self.plan.manifest, self._ranks))
        return values

    def about(self) -> dict[str, Any]:
        return {"hosts": hosts_of(self._ranks)}


def _check_alike(plan: Plan, ranks: Ranks) -> None:
    """Wait until every rank has read its images, and stop where they saw other images or another order."""
    seen = ranks.gather((plan.fingerprint(), len(plan.train.rows)))
    for rank, one in enumerate(seen):
        if one != seen[0]:
            raise TrainError(
                f"rank {rank} sees other images than rank 0, or in another order ({one[1]} and {seen[0][1]} images)",
                "Put the same files on every host. A query needs a unique key as its third column or at the end of "
                "ORDER BY.",
            )


def _limit_threads(job: TrainJob, ranks: Ranks) -> None:
    """Share the host's cores among its ranks; TensorFlow takes all of them for each process."""
    if ranks.size > 1 or job.threads:
        limit_threads(job.threads or max(1, cores() // ranks.local_size))
