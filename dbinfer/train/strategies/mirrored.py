"""Data parallel in one process with TensorFlow's MirroredStrategy: every device has the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbinfer.errors import UsageError
from dbinfer.train.options import TrainJob
from dbinfer.train.strategies._strategy import Strategy, Tell

if TYPE_CHECKING:
    from dbinfer.train.plan import Plan

WHEN = (
    "several GPUs of one host. One process deals each batch out to --ranks devices, which all have the weights and "
    "add their gradients up after each step. Use it instead of horovod where MPI and Horovod are not installed; "
    "without GPUs it trains rightly, but no faster than one process."
)


def check(job: TrainJob) -> None:
    """Raise UsageError for options that make no sense with several devices of one process."""
    if job.hosts:
        raise UsageError(
            f"the strategy {job.strategy} uses the devices of this host, but hosts is {job.hosts!r}",
            "Use --strategy horovod to train on several hosts.",
        )
    if job.sharding != "split":
        raise UsageError(
            f"the strategy {job.strategy} deals every batch out to its devices, but sharding is {job.sharding!r}",
            "Leave out --sharding.",
        )


def train(plan: Plan, tell: Tell) -> None:
    """Train in a process of its own: how many devices TensorFlow has is settled before it computes."""
    from dbinfer.train.processes import train_in_process

    plan.close()  # that process reads the rows
    train_in_process(plan.job, "dbinfer.train.replicas_worker", tell)


STRATEGY = Strategy("mirrored", WHEN, check, train)
