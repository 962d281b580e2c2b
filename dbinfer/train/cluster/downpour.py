"""Downpour SGD (Dean et al. 2012, DistBelief): each worker fetches the weights and pushes its gradient.

No worker owns a part of the images. The chief decodes them and hands out batches, so that a lost worker's batch goes to
another one, and an epoch sees each image once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from dbinfer.errors import TrainError
from dbinfer.train.cluster.base import Cluster, Led
from dbinfer.train.cluster.variables import applying, slots_of
from dbinfer.train.course import Pass, Report
from dbinfer.train.loader import Seed
from dbinfer.train.pipeline import read_batches
from dbinfer.train.plan import Plan
from dbinfer.train.steps import REPORT_EVERY, Schedule


class Downpour(Led):
    """The chief's part, see dbinfer.train.course.Trainer."""

    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        super().__init__(plan, cluster)
        job = plan.job
        self.steps = self.train.steps
        # The rate of one process: the batches are applied one by one, and never summed up
        self._schedule = Schedule(job.lr, 1, 0, job.epochs * self.steps, job.schedule)
        self._columns = [self.served.beside(self.values, first) for first in slots_of(job)]
        self._applied = self.served.make([[0]])[0]
        self._handed_out = 0
        self._apply = applying(job)
        slots = [one for column in self._columns for one in column]
        # What checkpoints keep: the weights of this process, and what the optimizer keeps on the servers
        self.model = SimpleNamespace(weights=self.plain.weights, optimizer=SimpleNamespace(variables=slots))

    def epoch(self, number: int, report: Report) -> Pass:
        self.judged.reset()
        truths: dict[int, Any] = {}
        reported = 0.0
        done = self.work.results(self._update, self._batches(number, truths), again=False)
        for count, (step, scores) in enumerate(done, 1):
            truth = truths.pop(step)
            if scores is not None:
                self.judged.add(scores, truth)
            if time.monotonic() - reported > REPORT_EVERY or count == self.steps:
                reported = time.monotonic()
                report({"event": "step", "epoch": number, "step": count, "steps": self.steps})
        self._check_applied()
        self.fetch()
        return Pass(self.judged.values(), self._schedule.at(number * self.steps - 1), self.train.length)

    def about(self) -> dict[str, Any]:
        updates = {"handed_out": self._handed_out, "applied": int(self._applied.numpy()[0])}
        return {**super().about(), "updates": updates}

    def _batches(self, epoch: int, truths: dict[int, Any]) -> Iterator[tuple[Any, ...]]:
        first = (epoch - 1) * self.steps
        seed = Seed(self.plan.job.seed, 0, epoch)
        for step, (images, truth) in enumerate(read_batches(self.train, self.train.training(epoch))):
            truths[step] = truth
            rate = tf.constant(self._schedule.at(first + step), tf.float32)
            number = tf.constant(first + step + 1, tf.float32)
            self._handed_out += 1
            yield images, truth, self.pure.states(seed, step), rate, number

    def _update(self, images: Any, truths: Any, states: Any, rate: Any, number: Any) -> Any:
        """Run on a worker: fetch, differentiate, push."""
        values = [tf.identity(one) for one in self.values]
        statistics = [tf.identity(one) for one in self.statistics]
        gradients, scores, after = self.pure.gradients(values, (statistics, states), images, truths)
        count = tf.cast(tf.shape(images)[0], tf.float32)
        for place, (variable, gradient) in enumerate(zip(self.values, gradients, strict=True)):
            self._apply(variable, [column[place] for column in self._columns], gradient / count, rate, number)
        for one, new, old in zip(self.statistics, after, statistics, strict=True):
            one.assign_add(new - old)  # the change, added under the lock: what others have added stays
        self._applied.assign_add([1])
        return scores

    def _check_applied(self) -> None:
        applied = int(self._applied.numpy()[0])
        if applied < self._handed_out:
            raise TrainError(f"{self._handed_out - applied} of {self._handed_out} updates were lost")
