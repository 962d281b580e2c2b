"""What a run will do, settled before any long work: network, images, classes, and the steps of its epochs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train.data import find_part
from dbinfer.train.data.files import Folder, check_sizes
from dbinfer.train.data.snapshot import Snapshot, of_this_rank
from dbinfer.train.data.source import Kept, Source
from dbinfer.train.loader import Loader, Pipeline
from dbinfer.train.model import check_boxes, check_task
from dbinfer.train.options import TrainJob
from dbinfer.train.ranks import Ranks
from dbinfer_models import NETWORKS, Network
from dbinfer_udf.manifest import Manifest, ManifestError

REPORT_EVERY = 0.25  # seconds


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of the step: warm-up to lr x ranks (Goyal et al. 2017, arXiv:1706.02677).

    Attributes:
        lr: rate of one rank.
        ranks: the rate grows to `lr` x `ranks`: the batch is that much larger.
        warmup: steps of that growth, from `lr` on in equal parts; none with one rank.
        total: steps of the whole run.
        kind: constant, or cosine (from the end of the warm-up down to 0).
        done: steps of the run before those that are counted here.
    """

    lr: float
    ranks: int
    warmup: int
    total: int
    kind: str = "constant"
    done: int = 0

    def at(self, step: int) -> float:
        """Return the rate of one step, counted from 0 over the whole run."""
        step += self.done
        warmup = self.warmup if self.ranks > 1 else 0
        full = self.lr * self.ranks
        if step < warmup:
            return self.lr + (full - self.lr) * step / warmup
        if self.kind == "cosine":
            done = (step - warmup) / max(1, self.total - warmup)
            return full * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        return full


class Meter(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate before each step and reports the progress after it."""

    def __init__(
        self,
        network: Any,
        schedule: Schedule,
        report: Callable[[dict[str, Any]], None],
        epoch: int,
        steps: int,
    ) -> None:
        super().__init__()
        self.rate = schedule.at(0)
        self._optimizer = network.optimizer
        self._schedule, self._report = schedule, report
        self._epoch, self._steps = epoch, steps
        self._reported = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.rate = self._schedule.at((self._epoch - 1) * self._steps + batch)
        self._optimizer.learning_rate = self.rate

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        now = time.monotonic()
        if now - self._reported > REPORT_EVERY or batch + 1 == self._steps:
            self._reported = now
            self._report({"event": "step", "epoch": self._epoch, "step": batch + 1, "steps": self._steps})


def one_epoch(model: Any, pipeline: Pipeline, meter: Meter, ranks: Ranks) -> dict[str, float]:
    """Train one epoch and return loss and metrics, the mean over all ranks (they saw equally many images)."""
    import tensorflow as tf

    epoch = meter._epoch
    try:
        # One epoch a call, under its own number: in between ranks pool statistics, and rank 0 writes files
        history = model.fit(
            pipeline.training(epoch),
            initial_epoch=epoch - 1,
            epochs=epoch,
            steps_per_epoch=pipeline.steps,
            callbacks=[meter],
            shuffle=False,
            verbose=0,
        )
    except tf.errors.OpError as err:
        # tf.data passes on no more than the text of an exception; the pipeline has kept it whole
        raise pipeline.failure or err from err
    values = {name: float(series[-1]) for name, series in history.history.items()}
    return _mean(values, 1.0, ranks)


def evaluate(model: Any, pipeline: Pipeline | None, ranks: Ranks) -> dict[str, float]:
    """Return val_loss and metrics over the validation images of all ranks; a rank without any has None."""
    import tensorflow as tf

    names = ["loss", *(metric.name for metric in model.metrics if metric.name != "loss")]
    # A rank without images counts nothing, but takes part in the gather for which the others wait
    values, weight = dict.fromkeys(names, 0.0), 0.0
    if pipeline is not None:
        try:
            values = {name: float(v) for name, v in model.evaluate(pipeline.validation(), **QUIETLY).items()}
        except tf.errors.OpError as err:
            raise pipeline.failure or err from err
        weight = float(pipeline.length)
    return {f"val_{name}": value for name, value in _mean(values, weight, ranks).items()}


QUIETLY: dict[str, Any] = {"return_dict": True, "verbose": 0}


def _mean(values: dict[str, float], weight: float, ranks: Ranks) -> dict[str, float]:
    """Return the weighted mean over the ranks."""
    gathered = ranks.gather((values, weight))
    weights = [entry[1] for entry in gathered]
    return {
        name: float(np.average([entry[0][name] for entry in gathered], weights=weights))
        for name in sorted(values)
    }


# 2^32 / golden ratio: consecutive multiples spread evenly over 0..2^32 (Knuth, vol. 3, 6.4)
GOLDEN = 2654435761


@dataclass(frozen=True)
class Part:
    """Some rows of a source."""

    source: Source
    rows: Sequence[int]


@dataclass(frozen=True)
class Plan:
    """See the module.

    Attributes:
        network: of the zoo, with the `options` for its build and the `manifest` of the result.
        train, val: the images; val is None without a validation.
        snapshot: the state of the database that they are read from; `close` ends it.
    """

    job: TrainJob
    network: Network
    options: dict[str, Any]
    manifest: Manifest
    train: Part
    val: Part | None
    snapshot: Snapshot

    def training(self, rank: int, size: int) -> Pipeline:
        """Return the batches of one rank; opens its images."""
        alone = self.job.sharding == "all"
        rows = self.train.rows if alone else shard(self.train.rows, rank, size)
        # Rounded up: the first ranks take the remainder
        longest = len(self.train.rows) if alone else -(-len(self.train.rows) // size)
        return self._pipeline(self.train.source, rows, rank, longest)

    def validation(self, rank: int, size: int) -> Pipeline | None:
        """Return the part of the validation images that one rank judges; None where it has none."""
        rows = shard(self.val.rows, rank, size) if self.val else ()
        return self._pipeline(self.val.source, rows, rank, len(rows)) if self.val and rows else None

    def fingerprint(self) -> str:
        """Return a text that all ranks must have in common: the images, and their order."""
        return " ".join(part.source.fingerprint() for part in (self.train, self.val) if part)

    def visited(self, number: int, shards: int) -> tuple[Pipeline, Pipeline | None]:
        """Return the batches of one shard, each image once, to train and to judge whatever weights come by."""
        rows = shard(self.train.rows, number, shards)
        train = self._pipeline(self.train.source, rows, number, len(rows))
        return train, self.validation(number, shards)

    def keeping_images(self, rank: int = 0, size: int = 1) -> Plan:
        """Return the plan with the images of one shard read, once for many jobs of one process."""
        train = replace(self.train, source=Kept.of(self.train.source, shard(self.train.rows, rank, size)))
        val = self.val
        if val and (rows := shard(val.rows, rank, size)):
            val = replace(val, source=Kept.of(val.source, rows))
        self.close()
        return replace(self, train=train, val=val)

    def for_job(self, job: TrainJob) -> Plan:
        """Return the plan of another job on the same images."""
        options, manifest = _settle(self.network, job.network_options, self.train.source.labels)
        return replace(self, job=job, options=options, manifest=manifest)

    def close(self) -> None:
        """End the snapshot: all images have been read."""
        self.snapshot.close()

    def _pipeline(self, source: Source, rows: Sequence[int], rank: int, length: int) -> Pipeline:
        loader = Loader(source.open(rows), self.manifest, self.job.on_bad == "skip")
        return Pipeline(loader, self.job, rank, length)


def check_images(plan: Plan) -> None:
    """Compare images and masks of folders by their headers, where a bad one is to end the run."""
    for part in (plan.train, plan.val):
        if part and isinstance(part.source, Folder) and plan.job.on_bad == "error":
            check_sizes(part.source)


def make_plan(job: TrainJob) -> Plan:
    """Find network and data and check that they fit; no image is decoded and TensorFlow is not needed.

    Raises:
        UsageError, DataError, TrainError: one sentence each.
    """
    if job.network not in NETWORKS:
        raise UsageError(f"there is no network {job.network!r}; there are {', '.join(sorted(NETWORKS))}")
    network = NETWORKS[job.network]
    check_boxes(network, job)
    snapshot = of_this_rank(job.dsn)
    source = find_part(job, "data", snapshot)
    check_task(network, source.task)
    options, manifest = _settle(network, job.network_options, source.labels)
    train, val = _parts(job, source, snapshot)
    check_enough(len(train.rows), job.ranks if job.sharding == "split" else 1)
    return Plan(job, network, options, manifest, train, val, snapshot)


def _settle(
    network: Network, options: dict[str, Any], labels: tuple[str, ...]
) -> tuple[dict[str, Any], Manifest]:
    """Return the build options, with the number of classes that the data has, and the manifest with their names."""
    if labels:
        options = {"classes": len(labels), **options}
        if options["classes"] != len(labels):
            raise TrainError(
                f"the data has {len(labels)} classes, but the option classes is {options['classes']}"
            )
    try:
        manifest = network.manifest(**options)
    except (TypeError, ValueError) as err:
        raise UsageError(f"the network {network.name} does not accept the options {options}: {err}") from err
    except ManifestError as err:
        raise UsageError(f"the network {network.name} cannot have the options {options}: {err}") from err
    return options, replace(manifest, labels=labels) if labels else manifest


def _parts(job: TrainJob, source: Source, snapshot: Snapshot) -> tuple[Part, Part | None]:
    count = source.count()
    everything = Part(source, range(count))
    if job.val == "none":
        return everything, None
    own = find_part(job, "val", snapshot, source.labels) if job.val else source.heldout()
    if own is not None:
        if own.task != source.task:
            raise UsageError(f"val is for {own.task}, but data is for {source.task}")
        return everything, Part(own, range(own.count()))
    train, held = hold_out(count, job.val_fraction)
    return Part(source, train), Part(source, held) if held else None


def shard(rows: Sequence[int], rank: int, size: int) -> Sequence[int]:
    """Return the part of `rows` for one rank: in order, without gaps, the remainder over the first ranks.

    5000 rows over 10 ranks: rank 0 has 0..499, rank 9 has 4500..4999; 7 over 3: 3, 2 and 2 rows.
    """
    each, more = divmod(len(rows), size)
    first = rank * each + min(rank, more)
    return rows[first : first + each + (rank < more)]


def check_enough(count: int, ranks: int, what: str = "ranks") -> None:
    """Raise TrainError where some rank would have no image."""
    if count < ranks:
        raise TrainError(
            f"{ranks} {what} are more than the {count} training images: some would have nothing to do",
            f"Use at most {max(count, 1)} {what}, or more images.",
        )


def hold_out(count: int, fraction: float) -> tuple[Sequence[int], Sequence[int]]:
    """Return the rows to train on and those held out, the same in every run and on every rank.

    The held-out rows lie evenly spread, without a period that the order of the data could share.
    """
    limit = round(fraction * 2**32)
    # Row + 1, because row 0 would always be held out
    held = [row for row in range(count) if (row + 1) * GOLDEN % 2**32 < limit]
    if not held:
        return range(count), []
    chosen = set(held)
    return [row for row in range(count) if row not in chosen], held
