"""One process with several devices, each with a part of every batch: MirroredStrategy and CentralStorageStrategy.

A loop of our own instead of model.fit, which under CentralStorage reports wrong losses and metrics: a device knows its
part of a batch only. Here the scores of all devices come together, and Keras evaluates them as those of one process.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dbinfer.base.errors import TrainError
from dbinfer.train.answers import Reading, joined
from dbinfer.train.course import Pass, Schedule, StepReports
from dbinfer.train.device import choose_precision, gpus, limit_threads
from dbinfer.train.loader import Pipeline, Seed, read_batches
from dbinfer.train.model import Metrics, Pure, build, compile_model
from dbinfer.train.options import TrainJob
from dbinfer.train.report import OnEvent
from dbinfer.train.setup import Setup


def make_strategy(job: TrainJob) -> Any:
    """Return TensorFlow's strategy over the devices of this process.

    Raises:
        TrainError: there are fewer GPUs than ranks.
    """
    names = _devices(job)
    if job.strategy == "mirrored":
        # On GPUs TensorFlow's own choice (NCCL); CPUs do not have it, so the first device adds up the gradients
        adding = tf.distribute.ReductionToOneDevice() if "cpu" in names[0] else None
        return tf.distribute.MirroredStrategy(names, adding)
    return tf.distribute.experimental.CentralStorageStrategy(names, "/cpu:0")


def _devices(job: TrainJob) -> list[str]:
    found = gpus(job.device)
    choose_precision(job.precision, found)
    if job.threads:
        limit_threads(job.threads)
    if not found:
        # One processor as several devices: the same sums as on that many GPUs
        parts = [tf.config.LogicalDeviceConfiguration()] * job.ranks
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        return [f"/cpu:{number}" for number in range(job.ranks)]
    if len(found) < job.ranks:
        raise TrainError(
            f"{job.ranks} ranks were requested, but this host has {len(found)} GPU{'s' * (len(found) > 1)}",
            "The strategies mirrored and central give each rank a GPU of its own: use as many, or --device cpu.",
        )
    return [f"/gpu:{number}" for number in range(job.ranks)]


class Replicas:
    """Trains on all devices of this process, see dbinfer.train.course.Trainer."""

    first = True

    def __init__(self, setup: Setup) -> None:
        job = setup.job
        self.setup = setup
        self._strategy = make_strategy(job)
        keras.utils.set_random_seed(job.seed)
        with self._strategy.scope():
            self.plain, _ = build(setup.network, setup.options)
            # The same layers: the plain one is saved, and nobody who loads it knows our loss
            self.model = keras.Model(self.plain.inputs, self.plain.outputs, name=self.plain.name)
            compile_model(self.model, setup.network, job)
        self._pure, self._metrics = Pure(self.plain, setup.network), Metrics(self.plain, setup.network)
        # Batches of all devices together, in the order of one process
        whole = replace(setup, job=replace(job, batch=job.batch * job.ranks))
        self._train, self._val = whole.training(0, 1), whole.validation(0, 1)
        setup.close()  # all rows are read
        self.steps = self._train.steps
        self._schedule = Schedule.of(job, job.ranks, self.steps)
        self._step = tf.function(self._all_devices, reduce_retracing=True)
        self._scores = tf.function(lambda images: self.plain(images, training=False), reduce_retracing=True)

    def share(self, value: Any) -> Any:
        return value

    def begin(self) -> None:
        """Nothing: all devices read the same variables."""

    def about(self) -> dict[str, Any]:
        return {"hosts": [socket.gethostname()] * self.setup.job.ranks}

    def epoch(self, number: int, on_event: OnEvent) -> Pass:
        rate, tell = 0.0, StepReports(on_event, number, self.steps)
        self._metrics.reset()
        for step, (images, truths) in enumerate(read_batches(self._train, self._train.training(number))):
            rate = self._schedule.at((number - 1) * self.steps + step)
            self.model.optimizer.learning_rate = rate
            inputs = self._inputs(images, truths, (number, step))
            self._metrics.add(self._step(inputs, tf.constant(len(images))), truths)
            tell(step + 1)
        return Pass(self._metrics.values(), rate, self._train.length)

    def evaluate(self) -> dict[str, float]:
        if self._val is None:
            return {}
        self._metrics.reset()
        for truths, scores in self._validated(self._val):
            self._metrics.add(scores, truths)
        return self._metrics.values("val_")

    def scored(self, reading: Reading) -> tuple[Any, Any]:
        assert self._val is not None
        return joined((truths, reading(scores)) for truths, scores in self._validated(self._val))

    def _validated(self, val: Pipeline) -> Iterator[tuple[Any, Any]]:
        for images, truths in read_batches(val, val.validation()):
            yield truths, self._scores(images)

    def _inputs(self, images: Any, truths: Any, place: tuple[int, int]) -> Any:
        """Return what each device gets: its images, and the states of its random generators."""
        ranks = self.setup.job.ranks
        rows = np.array_split(np.arange(len(images)), ranks)

        def given(context: Any) -> Any:
            rank = int(context.replica_id_in_sync_group)
            seed = Seed(self.setup.job.seed, rank, place[0])
            # The last batch may have fewer images than devices, and oneDNN fails on none: another image stands in
            own = rows[rank] if len(rows[rank]) else rows[0][:1]
            part = images[own], truths[own], np.int32(len(rows[rank]))
            return tuple(map(tf.convert_to_tensor, part)), self._pure.states(seed, place[1])

        return self._strategy.experimental_distribute_values_from_function(given)

    def _all_devices(self, inputs: Any, count: Any) -> Any:
        """Train on one batch, and return the scores of all images in their order."""
        scores, statistics = self._strategy.run(self._one_device, (inputs, count))
        for variable, values in zip(self._pure.statistics, statistics, strict=True):
            variable.assign(self._strategy.reduce("MEAN", values, axis=None))
        return tf.concat(self._strategy.experimental_local_results(scores), 0)

    def _one_device(self, inputs: Any, count: Any) -> Any:
        (images, truths, own), states = inputs
        values = [tf.convert_to_tensor(variable.value) for variable in self._pure.trainable]
        statistics = [tf.convert_to_tensor(variable.value) for variable in self._pure.statistics]
        gradients, scores, after = self._pure.gradients(values, (statistics, states), images, truths)
        there = own > 0  # otherwise another device's image stands in, with no weight
        # Divided by the images of all devices: Keras' optimizer adds up their gradients
        share = tf.cast(there, tf.float32) / tf.cast(count, tf.float32)
        self.model.optimizer.apply([gradient * share for gradient in gradients], self._pure.trainable)
        kept = [tf.where(there, new, old) for new, old in zip(after, statistics, strict=True)]
        return scores[:own], kept
