"""Sandblaster (Dean et al. 2012, DistBelief): L-BFGS on the chief, loss and gradient in pieces on workers.

A piece is `batch` images. Who is slow gets fewer pieces. SciPy's L-BFGS-B forgets at the end of each epoch, which is 10
of its iterations, so that a resumed run repeats an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from dbinfer.errors import TrainError
from dbinfer.train.cluster.base import Cluster, Led
from dbinfer.train.course import Pass, Report
from dbinfer.train.pipeline import read_batches
from dbinfer.train.plan import Plan

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
