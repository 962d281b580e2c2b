"""The chief of a cluster: deals the work out by Downpour SGD or Sandblaster's L-BFGS (Dean et al. 2012), and
leaves the files of the run.

Downpour: no worker owns a part of the images. The chief decodes them and hands out batches, so that a lost worker's
batch goes to another one, and an epoch sees each image once.

Sandblaster: a piece is `batch` images. Who is slow gets fewer pieces. SciPy's L-BFGS-B forgets at the end of each
epoch, which is 10 of its iterations, so that a resumed run repeats an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from dbinfer.base.errors import TrainError
from dbinfer.train import processes
from dbinfer.train.cluster.base import Cluster, Led, applying, slots_of
from dbinfer.train.cluster.listening import check_listening
from dbinfer.train.course import Pass, Report, Trainer, follow
from dbinfer.train.loader import Seed, read_batches
from dbinfer.train.plan import REPORT_EVERY, Plan, Schedule


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


ITERATIONS = 10  # of an epoch


class Sandblaster(Led):
    """The chief's part, see dbinfer.train.course.Trainer."""

    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        super().__init__(plan, cluster)
        self.steps = ITERATIONS
        # Each evaluation asks for all of them again, always in the same order
        self._pieces = list(read_batches(self.train, self.train.validation()))
        self._count = sum(len(images) for images, _ in self._pieces)
        self._losses: list[float] = []
        self._last = np.empty(0)  # the weights that were judged last
        self.model = SimpleNamespace(weights=self.plain.weights, optimizer=SimpleNamespace(variables=[]))

    def check(self) -> None:
        refuse(self.plan.job.network, self.plain)

    def epoch(self, number: int, report: Report) -> Pass:
        from scipy.optimize import minimize

        evaluations, step = len(self._losses), 0

        def tell(_: Any) -> None:
            nonlocal step
            step += 1
            report({"event": "step", "epoch": number, "step": step, "steps": ITERATIONS})

        start = _flat([one.numpy() for one in self.values])
        options = {"maxiter": ITERATIONS}
        found = minimize(self._evaluate, start, jac=True, method="L-BFGS-B", callback=tell, options=options)
        if not np.array_equal(found.x, self._last):
            self._evaluate(found.x)  # the search has looked further, and came back
        self.fetch()
        return Pass(self.judged.values(), 1.0, (len(self._losses) - evaluations) * self._count)

    def about(self) -> dict[str, Any]:
        return {**super().about(), "losses": self._losses}

    def _evaluate(self, weights: Any) -> tuple[float, Any]:
        """Return the mean loss over all images and its gradient."""
        self._put(weights)
        self.judged.reset()
        parts: dict[int, tuple[float, Any]] = {}
        for number, (loss, gradient, scores) in self.work.results(self._piece, self._pieces, again=True):
            self.judged.add(scores, self._pieces[number][1])
            parts[number] = float(loss), gradient
        # In the order of the pieces, whoever was first: the sum is the same in every run
        loss = sum(parts[number][0] for number in sorted(parts)) / self._count
        gradient = (
            np.sum([parts[number][1] for number in sorted(parts)], axis=0, dtype=np.float64) / self._count
        )
        self._losses.append(loss)
        self._last = np.array(weights)
        return loss, gradient

    def _piece(self, images: Any, truths: Any) -> Any:
        """Run on a worker."""
        values = [tf.identity(one) for one in self.values]
        gradients, scores, _ = self.pure.gradients(values, ((), ()), images, truths)
        return (
            self.pure.loss(truths, scores),
            tf.concat([tf.reshape(one, [-1]) for one in gradients], 0),
            scores,
        )

    def _put(self, weights: Any) -> None:
        start = 0
        for one in self.values:
            size = int(np.prod(one.shape))
            one.assign(weights[start : start + size].reshape(one.shape).astype(np.float32))
            start += size


def _flat(arrays: Sequence[Any]) -> Any:
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def refuse(network: str, model: Any) -> None:
    """Raise TrainError for a network whose loss is not a function of its weights and the images alone."""
    random = [layer for layer in model.layers if getattr(layer, "rate", 0)]
    kept = [layer for layer in model.layers if layer.non_trainable_variables]
    if wrong := [*random, *kept]:
        raise TrainError(
            f"the strategy sandblaster cannot train {network} with layers {type(wrong[0]).__name__}: L-BFGS needs a "
            "loss that the weights alone decide",
            "Leave such layers out where the network has an option for it: --set dropout=0, --set batch_norm=false.",
        )


def lead(plan: Plan, cluster: Cluster, address: str) -> None:
    """Train on the cluster.

    Raises:
        TrainError: a parameter server was lost.
        DbinferError: as dbinfer.train.course.follow.
    """
    trainer = _trainer(plan, cluster)
    check_listening(address)
    try:
        follow(trainer, processes.send)
    except tf.errors.OpError as err:
        raise TrainError(
            f"a parameter server was lost: {(err.message or '').splitlines()[0]}",
            processes.how_to_go_on(plan.job),
        ) from err


def _trainer(plan: Plan, cluster: Cluster) -> Trainer:

    kinds: dict[str, type[Downpour | Sandblaster]] = {"downpour": Downpour, "sandblaster": Sandblaster}
    return kinds[plan.job.strategy](plan, cluster)
