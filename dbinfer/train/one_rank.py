"""One rank's training from start to end; with one rank it is the whole run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from dbinfer.errors import TrainError
from dbinfer.machine import cores
from dbinfer.train import checkpoint
from dbinfer.train import model as models
from dbinfer.train.history import Epoch, best_epoch, write_csv, write_curves
from dbinfer.train.loader import Seed
from dbinfer.train.options import TrainJob
from dbinfer.train.pipeline import Pipeline
from dbinfer.train.plan import Plan
from dbinfer.train.ranks import Ranks, hosts_of
from dbinfer.train.report import CURVES, HISTORY, metrics_of, save_model, versions, write_run
from dbinfer.train.steps import Meter, Schedule, evaluate, one_epoch

Report = Callable[[dict[str, Any]], None]


@dataclass
class Training:
    """The state of one rank: its network, its images, and the epochs so far."""

    plan: Plan
    ranks: Ranks
    report: Report
    plain: Any
    model: Any
    train: Pipeline
    val: Pipeline | None
    schedule: Schedule
    history: list[Epoch] = field(default_factory=list)

    @property
    def job(self) -> TrainJob:
        """The options of the run."""
        return self.plan.job

    @property
    def metric(self) -> str:
        """Name of the metric that decides which epoch is best."""
        return self.plan.network.metrics[0]


def train_rank(plan: Plan, ranks: Ranks, report: Report) -> None:
    """Train; rank 0 leaves checkpoints, the model and the files of dbinfer.train.report in the run's folder.

    Raises:
        DbinferError: an image is unreadable, a checkpoint does not fit, ...
    """
    started = datetime.now(timezone.utc)
    training = _prepare(plan, ranks, report)
    first = _resume(training)
    report({"event": "start", "first": first, "steps": training.train.steps, "batch": plan.job.batch})
    for epoch in range(first, plan.job.epochs + 1):
        _epoch(training, epoch)
    _finish(training, started)


def _prepare(plan: Plan, ranks: Ranks, report: Report) -> Training:
    import keras

    job = plan.job
    _limit_threads(job, ranks)
    keras.utils.set_random_seed(job.seed + ranks.rank)  # dropout and the like differ from rank to rank
    plain, _ = models.build(plan.network, plan.options)
    model = models.distributed(plain, ranks)
    models.compile_model(model, plan.network, job)
    train = plan.training(ranks.rank, ranks.size)
    # A rank that makes one step more would wait for ever for the others' gradients
    steps = ranks.share(train.steps)
    if train.steps != steps:
        raise TrainError(f"rank {ranks.rank} has {train.steps} steps an epoch, but rank 0 has {steps}")
    schedule = Schedule(job.lr, ranks.size, job.warmup * steps, job.epochs * steps, job.schedule)
    val = plan.validation(ranks.rank, ranks.size)
    # All rows are read: no transaction stays open while the network trains
    plan.close()
    _check_alike(plan, ranks)
    return Training(plan, ranks, report, plain, model, train, val, schedule)


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
    import tensorflow as tf

    if ranks.size > 1 or job.threads:
        threads = job.threads or max(1, cores() // ranks.local_size)
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))
        except RuntimeError:
            pass  # TensorFlow has computed in this process before: it keeps its threads


def _resume(training: Training) -> int:
    """Load the checkpoint to go on from, make all ranks alike, and return the first epoch to train."""
    job, ranks, folder = training.job, training.ranks, training.job.folder
    done = 0
    if ranks.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        if job.resume:
            done = checkpoint.choose(folder, job.resume)
            state = checkpoint.read(folder, done)
            checkpoint.check_same(state, job)
            checkpoint.load(folder, done, training.model)
            training.history = state.history
        else:
            # A later --resume would go on from those of an earlier run
            checkpoint.clear(folder)
    models.synchronise(training.model, ranks)
    training.history = ranks.share(training.history)
    return int(ranks.share(done)) + 1


def _epoch(training: Training, epoch: int) -> None:
    job, ranks = training.job, training.ranks
    models.reseed(training.model, Seed(job.seed, ranks.rank, epoch))
    meter = Meter(training.model, training.schedule, training.report, epoch, training.train.steps)
    started = time.monotonic()
    values = one_epoch(training.model, training.train, meter, ranks)
    seconds = time.monotonic() - started
    # Before the validation, which is to judge the model that is saved
    if job.average_batch_norm:
        models.average_batch_norm(training.model, ranks)
    started = time.monotonic()
    values.update(evaluate(training.model, training.val, ranks) if training.plan.val else {})
    images = training.train.length * ranks.size
    entry = Epoch(epoch, seconds, time.monotonic() - started, images, meter.rate, values)
    training.history.append(entry)
    if ranks.rank == 0:
        _record(training)
    training.report({"event": "epoch", **entry.to_dict()})


def _record(training: Training) -> None:
    job, folder = training.job, training.job.folder
    write_csv(folder / HISTORY, training.history)
    if job.keep:
        best = best_epoch(training.history, training.metric)
        state = checkpoint.Checkpoint(len(training.history), job.to_dict(), training.history, best)
        checkpoint.write(folder, training.model, state)
        checkpoint.prune(folder, job.keep, best)


def _finish(training: Training, started: datetime) -> None:
    """Rank 0 writes the model and what is known of the run."""
    job, ranks, history = training.job, training.ranks, training.history
    # Before the other ranks leave: all must take part in a gather
    hosts = hosts_of(ranks)
    if ranks.rank:
        return
    best = best_epoch(history, training.metric)
    there = checkpoint.epochs(job.folder)
    # With --keep 0 there is no checkpoint of the best epoch to go back to
    chosen = best if job.final == "best" and best in there else len(history)
    if chosen != len(history):
        checkpoint.load_weights(job.folder, chosen, training.model)
    run = {
        "config": job.to_dict(),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(timezone.utc) - started).total_seconds(), 3),
        "ranks": ranks.size,
        "hosts": hosts,
        "versions": versions(ranks.size),
        "images": {
            "train": len(training.plan.train.rows),
            "validation": len(training.plan.val.rows) if training.plan.val else 0,
        },
        "epoch": chosen,
        "best_epoch": best,
        "metrics": metrics_of(history, chosen),
        "history": [entry.to_dict() for entry in history],
    }
    # The plain network: no other program knows the class Distributed
    save_model(job.folder, training.plain, training.plan.manifest, run)
    title = f"{job.network}, {ranks.size} {'rank' if ranks.size == 1 else 'ranks'}"
    write_curves(job.folder / CURVES, history, training.metric, title)
    write_run(job.folder, run)
