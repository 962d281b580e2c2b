"""Asynchronous data parallel, with TensorFlow's ParameterServerStrategy: Downpour SGD of DistBelief."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbinfer.errors import UsageError
from dbinfer.train.cluster.address import check_network
from dbinfer.train.options import TrainJob
from dbinfer.train.strategies._strategy import Strategy, Tell

if TYPE_CHECKING:
    from dbinfer.train.plan import Plan

WHEN = (
    "workers of different speed, or that may be lost. Servers (--servers) hold the weights; each of --ranks workers "
    "fetches them, and sends its gradient when it has it, without waiting for others. A lost worker costs no update. "
    "Updates are of weights that others have changed meanwhile, so alike hosts learn more per step with horovod. "
    "TensorFlow's protocol has no authentication: the processes listen on this host's loopback, or with --hosts in "
    "the --private-network that you name."
)


def check(job: TrainJob) -> None:
    """Raise UsageError for options that a cluster of workers does not have, or that would open it to strangers."""
    check_network(job)
    if job.sharding != "split":
        raise UsageError(
            f"the strategy {job.strategy} hands every batch to one worker, but sharding is {job.sharding!r}",
            "Leave out --sharding.",
        )
    if job.port + job.ranks + job.servers > 65535:
        raise UsageError(
            f"port is {job.port}, but {job.ranks + job.servers + 1} processes need one each, and 65535 is the last"
        )


def train(plan: Plan, tell: Tell) -> None:
    """Train with a chief, servers and workers, which this process starts."""
    from dbinfer.train.cluster.members import train_together

    plan.close()  # the chief reads the rows
    train_together(plan.job, tell)


STRATEGY = Strategy("downpour", WHEN, check, train)
