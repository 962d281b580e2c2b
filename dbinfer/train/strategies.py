"""The strategies of training by name, and when to use which; choosing one imports neither TensorFlow nor numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.database.pins import install
from dbinfer.train.device import import_tensorflow
from dbinfer.train.hosts import check_network
from dbinfer.train.options import STRATEGIES, TrainJob

if TYPE_CHECKING:
    from dbinfer.train.plan import Plan

__all__ = ["ALL", "Strategy", "Tell", "explained"]


Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Strategy:
    """A way to train one network with several processes or devices.

    Attributes:
        name: its name on the command line.
        when: a paragraph that says when to use it; --help shows it.
        check: raises where it cannot train with these options; before any data is looked at.
        train: trains and leaves the run's folder (dbinfer.train.course does that); it closes the plan's snapshot
            when the rows are read, or before other processes read theirs. `Tell` gets the events start, step, epoch.
    """

    name: str
    when: str
    check: Callable[[TrainJob], None]
    train: Callable[[Plan, Tell], None]


WHEN_HOROVOD = (
    "the default, on one core or many hosts. Each of --ranks processes trains on its own part of the images, and after "
    "each step all apply the mean of their gradients. Use it when the network fits into each process and the hosts are "
    "alike: all wait for the slowest."
)


def _check_horovod(job: TrainJob) -> None:
    """Horovod trains every network of the zoo; hosts and launcher are checked when they start."""


def _train_horovod(plan: Plan, tell: Tell) -> None:
    if plan.job.ranks > 1:
        from dbinfer.train.processes import launch

        plan.close()  # the ranks read a snapshot of their own, all the same one
        launch(plan.job, tell)
        return
    # First: the modules below import Keras, whose noise would not be silenced
    import_tensorflow()
    from dbinfer.train.one_rank import train_rank
    from dbinfer.train.ranks import Alone

    train_rank(plan, Alone(), tell)


HOROVOD = Strategy("horovod", WHEN_HOROVOD, _check_horovod, _train_horovod)


WHEN_MIRRORED = (
    "several GPUs of one host. One process deals each batch out to --ranks devices, which all have the weights and "
    "add their gradients up after each step. Use it instead of horovod where MPI and Horovod are not installed; "
    "without GPUs it trains rightly, but no faster than one process."
)


def check_mirrored(job: TrainJob) -> None:
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


def train_replicas(plan: Plan, tell: Tell) -> None:
    """Train in a process of its own: how many devices TensorFlow has is settled before it computes."""
    from dbinfer.train.processes import train_in_process

    plan.close()  # that process reads the rows
    train_in_process(plan.job, "dbinfer.train.replicas_worker", tell)


MIRRORED = Strategy("mirrored", WHEN_MIRRORED, check_mirrored, train_replicas)


WHEN_CENTRAL = (
    "as mirrored, but the weights and the optimizer's state lie once, in the host's memory, and each device fetches "
    "the weights for each step. Use it when a GPU has too little memory for the optimizer's state; else mirrored is "
    "faster."
)

CENTRAL = Strategy("central", WHEN_CENTRAL, check_mirrored, train_replicas)


WHEN_DOWNPOUR = (
    "workers of different speed, or that may be lost. Servers (--servers) hold the weights; each of --ranks workers "
    "fetches them, and sends its gradient when it has it, without waiting for others. A lost worker costs no update. "
    "Updates are of weights that others have changed meanwhile, so alike hosts learn more per step with horovod. "
    "TensorFlow's protocol has no authentication: the processes listen on this host's loopback, or with --hosts in "
    "the --private-network that you name."
)


def check_servers(job: TrainJob) -> None:
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


def train_servers(plan: Plan, tell: Tell) -> None:
    """Train with a chief, servers and workers, which this process starts."""
    from dbinfer.train.cluster.members import train_together

    plan.close()  # the chief reads the rows
    train_together(plan.job, tell)


DOWNPOUR = Strategy("downpour", WHEN_DOWNPOUR, check_servers, train_servers)


WHEN_SANDBLASTER = (
    "few images and a network without dropout and batch normalisation, where no learning rate is to be chosen. The "
    "chief runs L-BFGS over all images, which workers evaluate in pieces of --batch images; who is slow gets fewer "
    "pieces, and a lost worker's go to another. An epoch is 10 iterations. Processes listen as those of downpour."
)


def _check_sandblaster(job: TrainJob) -> None:
    check_servers(job)
    if job.augment:
        raise UsageError(
            "the strategy sandblaster needs the same images in every evaluation, but augment changes them",
            "Leave out --augment.",
        )


SANDBLASTER = Strategy("sandblaster", WHEN_SANDBLASTER, _check_sandblaster, train_servers)


WHEN_SPLIT = (
    "a network that does not fit into one device. Each of --ranks processes holds a part of it: --layout "
    "dense-by-outputs splits the dense layers (most of AlexNet and VGG), dense-in-pairs lets two of them share one "
    "exchange, all-by-outputs splits convolutions, too. --mesh 2x2 trains two such networks of two parts, each on its "
    "part of the images. Where the network fits, horovod is faster. It needs the package jax."
)


def _check_split(job: TrainJob) -> None:
    from dbinfer.train.hosts import check_reachable, hosts_of
    from dbinfer.train.split.layout import Mesh

    if find_spec("jax") is None:
        raise TrainError("the strategy split needs JAX, which is not installed", install("split"))
    Mesh.of(job)
    check_network(job)
    check_reachable(hosts_of(job))


def _train_split(plan: Plan, tell: Tell) -> None:
    from dbinfer.train.processes import train_in_process

    plan.close()  # the processes read a snapshot of their own, all the same one
    train_in_process(plan.job, "dbinfer.train.split.worker", tell, {"KERAS_BACKEND": "jax"})


SPLIT = Strategy("split", WHEN_SPLIT, _check_split, _train_split)


ALL: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (HOROVOD, MIRRORED, CENTRAL, DOWNPOUR, SANDBLASTER, SPLIT)
}
assert tuple(ALL) == STRATEGIES


def explained() -> str:
    """Return a paragraph for each strategy, for --help."""
    return "\n\n".join(f"{entry.name}: {entry.when}" for entry in ALL.values())
