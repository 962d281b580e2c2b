"""The course of a training, whatever the strategy: resume, learning rate, epochs, checkpoints, the run's files."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, Protocol

from dbinfer.train import checkpoint
from dbinfer.train.answers import Reading, by_label, classes_of, confusion, probabilities_of
from dbinfer.train.options import TrainJob
from dbinfer.train.report import (
    CURVES,
    HISTORY,
    RUN,
    Epoch,
    OnEvent,
    best_epoch,
    metrics_of,
    save_model,
    versions,
    write_csv,
    write_curves,
    write_run,
)
from dbinfer.train.setup import Setup
from dbinfer.train.source import LABELLED, ONE_LABEL

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

    @classmethod
    def of(cls, job: TrainJob, ranks: int, steps: int) -> Schedule:
        """Return the rates of a job with this number of ranks, and of steps in an epoch."""
        return cls(job.rate, ranks, job.warmup * steps, job.epochs * steps, job.schedule)

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


class StepReports:
    """Reports the steps of an epoch to a listener: the last one, and before it at most four a second."""

    def __init__(self, on_event: OnEvent, epoch: int, steps: int) -> None:
        self._on_event, self._epoch, self._steps = on_event, epoch, steps
        self._reported = 0.0

    def __call__(self, step: int) -> None:
        """Report that so many steps are done."""
        if time.monotonic() - self._reported > REPORT_EVERY or step == self._steps:
            self._reported = time.monotonic()
            self._on_event({"event": "step", "epoch": self._epoch, "step": step, "steps": self._steps})


@dataclass(frozen=True)
class Pass:
    """One pass over the images.

    Attributes:
        values: loss and metrics of the training.
        rate: learning rate of the last step.
        images: how many all processes saw together.
    """

    values: dict[str, float]
    rate: float
    images: int


class Trained(Protocol):
    """A network in training, as far as the files of the run show it.

    Attributes:
        setup: what is trained.
        first: whether this process writes the files.
        model: its `weights` and `optimizer.variables` are what a checkpoint holds.
    """

    setup: Setup
    first: bool
    model: Any

    @property
    def plain(self) -> Any:
        """The Keras model that is saved."""

    def about(self) -> dict[str, Any]:
        """Return what run.json says of this strategy: hosts, one for each rank, and the like."""


class Trainer(Trained, Protocol):
    """What a strategy brings: each process that calls `follow` has one, and all make each call together.

    Attributes:
        steps: of an epoch.
    """

    steps: int

    def share(self, value: Any) -> Any:
        """Return the first process's value in every process."""

    def begin(self) -> None:
        """Give all processes the first one's weights and optimizer state."""

    def epoch(self, number: int, on_event: OnEvent) -> Pass:
        """Train one epoch; `model` has its result afterwards."""

    def evaluate(self) -> dict[str, float]:
        """Return val_loss and the validation's metrics; nothing without a validation."""

    def scored(self, reading: Reading) -> tuple[Any, Any]:
        """Return truths and readings of the scores of all validation images; they count in the first process."""


@dataclass
class Training:
    """A trainer, its listener, and the epochs so far."""

    trainer: Trained
    on_event: OnEvent
    history: list[Epoch] = field(default_factory=list)

    @property
    def job(self) -> TrainJob:
        """The options of the run."""
        return self.trainer.setup.job

    @property
    def metric(self) -> str:
        """Name of the metric that decides which epoch is best."""
        return self.trainer.setup.network.metrics[0]


def follow(trainer: Trainer, on_event: OnEvent) -> None:
    """Train; the first process leaves checkpoints, the model and the files of dbinfer.train.report.

    Raises:
        DbinferError: an image is unreadable, a checkpoint does not fit, ...
    """
    started = datetime.now(timezone.utc)
    training = Training(trainer, on_event)
    first = _resume(training, trainer)
    job = training.job
    start = {"first": first, "epochs": job.epochs, "steps": trainer.steps, "batch": job.batch}
    on_event({"event": "start", **start})
    for number in range(first, job.epochs + 1):
        # One decides for all: who stops alone leaves the others waiting
        if trainer.share(is_over(job, training.history, training.metric)):
            break
        _epoch(training, trainer, number)
    finish(training, started, _answered(training, trainer))


def is_over(job: TrainJob, history: Sequence[Epoch], metric: str) -> bool:
    """Return whether all epochs are trained, or the last `early_stop` were no better than one before them."""
    best = best_epoch(history, metric)
    stopped = job.early_stop and best and len(history) - best >= job.early_stop
    return len(history) >= job.epochs or bool(stopped)


def _answered(training: Training, trainer: Trainer) -> dict[str, Any]:
    """Return what run.json says of the answers to the validation images; all processes make this call together."""
    setup = training.trainer.setup
    task, labels = setup.train.source.task, setup.manifest.labels
    if setup.val is None or task not in LABELLED:
        return {}
    if trainer.first:
        choose(training)
    trainer.begin()  # the others have the last epoch's weights
    reading = classes_of if task in ONE_LABEL else probabilities_of
    truths, read = trainer.scored(partial(reading, manifest=setup.manifest))
    if not trainer.first:
        return {}
    if task in ONE_LABEL:
        return {"confusion": confusion(truths, read, labels)}
    return {"by_label": by_label(truths, read, labels)}


def _resume(training: Training, trainer: Trainer) -> int:
    """Load the checkpoint to continue from, make all processes alike, and return the first epoch to train."""
    job, folder = training.job, training.job.folder
    done = 0
    if trainer.first:
        folder.mkdir(parents=True, exist_ok=True)
        if job.resume:
            done = checkpoint.choose(folder, job.resume)
            state = checkpoint.read(folder, done)
            checkpoint.check_same(state, job)
            checkpoint.load(folder, done, trainer.model)
            training.history = state.history
        else:
            # Otherwise a later --resume would continue an earlier run, or find it complete
            checkpoint.clear(folder)
            (folder / RUN).unlink(missing_ok=True)
    trainer.begin()
    told = trainer.share([epoch.to_dict() for epoch in training.history])
    training.history = [Epoch.from_dict(epoch) for epoch in told]
    return int(trainer.share(done)) + 1


def _epoch(training: Training, trainer: Trainer, number: int) -> None:
    started = time.monotonic()
    done = trainer.epoch(number, training.on_event)
    seconds = time.monotonic() - started
    started = time.monotonic()
    values = {**done.values, **trainer.evaluate()}
    entry = Epoch(
        epoch=number,
        seconds=seconds,
        val_seconds=time.monotonic() - started,
        images=done.images,
        lr=done.rate,
        values=values,
    )
    training.history.append(entry)
    if trainer.first:
        record(training)
    training.on_event({"event": "epoch", **entry.to_dict()})


def record(training: Training) -> None:
    """Write the history, and the checkpoint of the epoch that is done."""
    job, folder = training.job, training.job.folder
    write_csv(folder / HISTORY, training.history)
    if job.keep:
        best = best_epoch(training.history, training.metric)
        state = checkpoint.Checkpoint(len(training.history), job.to_dict(), training.history, best)
        checkpoint.write(folder, training.trainer.model, state)
        checkpoint.prune(folder, job.keep, best)


def choose(training: Training) -> tuple[int, int]:
    """Give the network the weights of the epoch that is kept; return that epoch and the best one."""
    job, history = training.job, training.history
    best = best_epoch(history, training.metric)
    # With --keep 0 no checkpoint of the best epoch exists
    chosen = best if job.final == "best" and best in checkpoint.epochs(job.folder) else len(history)
    if chosen != len(history):
        checkpoint.load_weights(job.folder, chosen, training.trainer.model)
    return chosen, best


def finish(training: Training, started: datetime, answered: dict[str, Any] | None = None) -> None:
    """Write the model, its manifest, run.json and the curves."""
    trainer, job, history = training.trainer, training.job, training.history
    # Before the other processes leave: all must take part
    about = trainer.about()
    if not trainer.first:
        return
    chosen, best = choose(training)
    setup = trainer.setup
    run = {
        "config": job.to_dict(),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(timezone.utc) - started).total_seconds(), 3),
        "ranks": job.ranks,
        "versions": versions(job),
        **about,
        "images": setup.images,
        "epoch": chosen,
        "best_epoch": best,
        "metrics": metrics_of(history, chosen),
        **(answered or {}),
        "history": [entry.to_dict() for entry in history],
    }
    # The plain network: no other program knows our classes
    manifest = setup.manifest
    if "by_label" in run:
        manifest = replace(manifest, thresholds=tuple(found["threshold"] for found in run["by_label"]))
    save_model(job.folder, trainer.plain, manifest, run)
    title = f"{job.name}, {job.ranks} {'rank' if job.ranks == 1 else 'ranks'}"
    write_curves(job.folder / CURVES, history, training.metric, title)
    write_run(job.folder, run)
