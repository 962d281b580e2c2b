"""One process with several devices, each with a part of every batch: MirroredStrategy and CentralStorageStrategy.

A loop of our own instead of model.fit, which under CentralStorage reports wrong losses and metrics: a device knows its
part of a batch only. Here the scores of all devices come together, and Keras judges them as those of one process.
"""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dbinfer.base.errors import TrainError
from dbinfer.train import model as models
from dbinfer.train.arrays import Judge, Pure
from dbinfer.train.course import Pass, Report
from dbinfer.train.device import gpus, limit_threads
from dbinfer.train.loader import Seed, read_batches
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import REPORT_EVERY, Plan, Schedule


def make_strategy(job: TrainJob) -> Any:
    """Return TensorFlow's strategy over the devices of this process.

    Raises:
        TrainError: there are fewer GPUs than ranks.
    """
    names = _devices(job)
    if job.strategy == "mirrored":
        # On GPUs TensorFlow's own choice (NCCL), which CPUs lack: there the first device adds the gradients up
        adding = tf.distribute.ReductionToOneDevice() if "cpu" in names[0] else None
        return tf.distribute.MirroredStrategy(names, adding)
    return tf.distribute.experimental.CentralStorageStrategy(names, "/cpu:0")


def _devices(job: TrainJob) -> list[str]:
    found = gpus(job.device)
    if job.threads:
        limit_threads(job.threads)
    if not found:
        # One processor, seen as several: the same sums as on as many GPUs
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
    """See the module, and dbinfer.train.course.Trainer."""

    first = True

    def __init__(self, plan: Plan) -> None:
        job = plan.job
        self.plan = plan
        self._strategy = make_strategy(job)
        keras.utils.set_random_seed(job.seed)
        with self._strategy.scope():
            self.plain, _ = models.build(plan.network, plan.options)
            models.compile_model(self.plain, plan.network, job)
        self.model = self.plain
        self._pure, self._judge = Pure(self.plain, plan.network), Judge(self.plain, plan.network)
        # Batches of all devices together, in the order of one process
        whole = replace(plan, job=replace(job, batch=job.batch * job.ranks))
        self._train, self._val = whole.training(0, 1), whole.validation(0, 1)
        plan.close()  # all rows are read
        self.steps = self._train.steps
        self._schedule = Schedule(
            job.lr, job.ranks, job.warmup * self.steps, job.epochs * self.steps, job.schedule
        )
        self._step = tf.function(self._all_devices, reduce_retracing=True)
        self._scores = tf.function(lambda images: self.plain(images, training=False), reduce_retracing=True)

    def share(self, value: Any) -> Any:
        return value

    def begin(self) -> None:
        """Nothing: all devices read the same variables."""

    def about(self) -> dict[str, Any]:
        return {"hosts": [socket.gethostname()] * self.plan.job.ranks}

    def epoch(self, number: int, report: Report) -> Pass:
        rate, reported = 0.0, 0.0
        self._judge.reset()
        for step, (images, truths) in enumerate(read_batches(self._train, self._train.training(number))):
            rate = self._schedule.at((number - 1) * self.steps + step)
            self.plain.optimizer.learning_rate = rate
            inputs = self._inputs(images, truths, (number, step))
            self._judge.add(self._step(inputs, tf.constant(len(images))), truths)
            if time.monotonic() - reported > REPORT_EVERY or step + 1 == self.steps:
                reported = time.monotonic()
                report({"event": "step", "epoch": number, "step": step + 1, "steps": self.steps})
        return Pass(self._judge.values(), rate, self._train.length)

    def judge(self) -> dict[str, float]:
        if self._val is None:
            return {}
        self._judge.reset()
        for images, truths in read_batches(self._val, self._val.validation()):
            self._judge.add(self._scores(images), truths)
        return self._judge.values("val_")

    def _inputs(self, images: Any, truths: Any, place: tuple[int, int]) -> Any:
        """Return what each device gets: its images, and what dropout and the like draw from."""
        ranks = self.plan.job.ranks
        rows = np.array_split(np.arange(len(images)), ranks)

        def given(context: Any) -> Any:
            rank = int(context.replica_id_in_sync_group)
            seed = Seed(self.plan.job.seed, rank, place[0])
            # The last batch may have fewer images than there are devices, and oneDNN fails without any: one stands in
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
        there = own > 0  # else the image of another device stands in, and counts for nothing
        # Each divides by the images of all: Keras' optimizer adds the devices' gradients up
        share = tf.cast(there, tf.float32) / tf.cast(count, tf.float32)
        self.plain.optimizer.apply([gradient * share for gradient in gradients], self._pure.trainable)
        kept = [tf.where(there, new, old) for new, old in zip(after, statistics, strict=True)]
        return scores[:own], kept
