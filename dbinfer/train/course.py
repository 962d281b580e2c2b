"""The course of a training, whatever the strategy: resume, epochs, checkpoints, the files of the run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol

from dbinfer.train import checkpoint
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import Plan
from dbinfer.train.report import (
    CURVES,
    HISTORY,
    Epoch,
    best_epoch,
    metrics_of,
    save_model,
    versions,
    write_csv,
    write_curves,
    write_run,
)

Report = Callable[[dict[str, Any]], None]


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
        plan: what is trained.
        first: whether this process writes the files.
        plain: the Keras model that is saved.
        model: its `weights` and `optimizer.variables` are what a checkpoint holds.
    """

    plan: Plan
    first: bool
    model: Any

    @property
    def plain(self) -> Any:
        """See above."""

    def about(self) -> dict[str, Any]:
        """Return what run.json says of this strategy: hosts, one for each rank, and the like."""


class Trainer(Trained, Protocol):
    """What a strategy brings; each process that calls `follow` has one, and they make each call together.

    Attributes:
        steps: of an epoch.
    """

    steps: int

    def share(self, value: Any) -> Any:
        """Return the first process's value in every process."""

    def begin(self) -> None:
        """Give all processes the weights and the optimizer's state of the first one."""

    def epoch(self, number: int, report: Report) -> Pass:
        """Train one epoch; `model` has its result afterwards."""

    def judge(self) -> dict[str, float]:
        """Return val_loss and the metrics of the validation; nothing without one."""


@dataclass
class Training:
    """A trainer, its listener, and the epochs so far."""

    trainer: Trained
    report: Report
    history: list[Epoch] = field(default_factory=list)

    @property
    def job(self) -> TrainJob:
        """The options of the run."""
        return self.trainer.plan.job

    @property
    def metric(self) -> str:
        """Name of the metric that decides which epoch is best."""
        return self.trainer.plan.network.metrics[0]


def follow(trainer: Trainer, report: Report) -> None:
    """Train; the first process leaves checkpoints, the model and the files of dbinfer.train.report.

    Raises:
        DbinferError: an image is unreadable, a checkpoint does not fit, ...
    """
    started = datetime.now(timezone.utc)
    training = Training(trainer, report)
    first = _resume(training, trainer)
    report({"event": "start", "first": first, "steps": trainer.steps, "batch": training.job.batch})
    for number in range(first, training.job.epochs + 1):
        _epoch(training, trainer, number)
    finish(training, started)


def _resume(training: Training, trainer: Trainer) -> int:
    """Load the checkpoint to go on from, make all processes alike, and return the first epoch to train."""
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
            # A later --resume would go on from those of an earlier run
            checkpoint.clear(folder)
    trainer.begin()
    told = trainer.share([epoch.to_dict() for epoch in training.history])
    training.history = [Epoch.from_dict(epoch) for epoch in told]
    return int(trainer.share(done)) + 1


def _epoch(training: Training, trainer: Trainer, number: int) -> None:
    started = time.monotonic()
    done = trainer.epoch(number, training.report)
    seconds = time.monotonic() - started
    started = time.monotonic()
    values = {**done.values, **trainer.judge()}
    entry = Epoch(number, seconds, time.monotonic() - started, done.images, done.rate, values)
    training.history.append(entry)
    if trainer.first:
        record(training)
    training.report({"event": "epoch", **entry.to_dict()})


def record(training: Training) -> None:
    """Write the history, and the checkpoint of the epoch that is done."""
    job, folder = training.job, training.job.folder
    write_csv(folder / HISTORY, training.history)
    if job.keep:
        best = best_epoch(training.history, training.metric)
        state = checkpoint.Checkpoint(len(training.history), job.to_dict(), training.history, best)
        checkpoint.write(folder, training.trainer.model, state)
        checkpoint.prune(folder, job.keep, best)


def finish(training: Training, started: datetime) -> None:
    """Write the model and what is known of the run."""
    trainer, job, history = training.trainer, training.job, training.history
    # Before the other processes leave: all must take part in it
    about = trainer.about()
    if not trainer.first:
        return
    best = best_epoch(history, training.metric)
    there = checkpoint.epochs(job.folder)
    # With --keep 0 there is no checkpoint of the best epoch to go back to
    chosen = best if job.final == "best" and best in there else len(history)
    if chosen != len(history):
        checkpoint.load_weights(job.folder, chosen, trainer.model)
    plan = trainer.plan
    run = {
        "config": job.to_dict(),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(timezone.utc) - started).total_seconds(), 3),
        "ranks": job.ranks,
        "versions": versions(job),
        **about,
        "images": {"train": len(plan.train.rows), "validation": len(plan.val.rows) if plan.val else 0},
        "epoch": chosen,
        "best_epoch": best,
        "metrics": metrics_of(history, chosen),
        "history": [entry.to_dict() for entry in history],
    }
    # The plain network: no other program knows classes of ours
    save_model(job.folder, trainer.plain, plan.manifest, run)
    title = f"{job.network}, {job.ranks} {'rank' if job.ranks == 1 else 'ranks'}"
    write_curves(job.folder / CURVES, history, training.metric, title)
    write_run(job.folder, run)
