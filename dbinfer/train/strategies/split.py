"""Model parallel: a network larger than a device lies split over several processes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dbinfer.errors import TrainError
from dbinfer.pins import install
from dbinfer.train.options import TrainJob
from dbinfer.train.strategies._strategy import Strategy, Tell

if TYPE_CHECKING:
    from dbinfer.train.plan import Plan

WHEN = (
    "a network that does not fit into one device. Each of --ranks processes holds a part of it: --layout "
    "dense-by-outputs splits the dense layers (most of AlexNet and VGG), dense-in-pairs lets two of them share one "
    "exchange, all-by-outputs splits convolutions, too. --mesh 2x2 trains two such networks of two parts, each on its "
    "part of the images. Where the network fits, horovod is faster. It needs the package jax."
)


def _check(job: TrainJob) -> None:
    from dbinfer.train.cluster.address import check_network
    from dbinfer.train.hosts import check_reachable, hosts_of
    from dbinfer.train.split.layout import Mesh

    if find_spec("jax") is None:
        raise TrainError("the strategy split needs JAX, which is not installed", install("split"))
    Mesh.of(job)
    check_network(job)
    check_reachable(hosts_of(job))


def _train(plan: Plan, tell: Tell) -> None:
    from dbinfer.train.processes import train_in_process

    plan.close()  # the processes read a snapshot of their own, all the same one
    train_in_process(plan.job, "dbinfer.train.split.worker", tell, {"KERAS_BACKEND": "jax"})


STRATEGY = Strategy("split", WHEN, _check, _train)
