"""One pass over the images: training with a moving learning rate, or evaluation; averaged over the ranks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from dbinfer.train.pipeline import Pipeline
from dbinfer.train.ranks import Ranks

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
