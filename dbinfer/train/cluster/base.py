"""What both strategies with a coordinator have: network, images, servers and workers, as the chief sees them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from dbinfer.train import model as models
from dbinfer.train.arrays import Pure
from dbinfer.train.cluster.variables import Served
from dbinfer.train.cluster.work import Work
from dbinfer.train.judge import Judge
from dbinfer.train.pipeline import read_batches
from dbinfer.train.plan import Plan

Cluster = dict[str, list[str]]


def connect(cluster: Cluster) -> Any:
    """Return TensorFlow's coordinator of the cluster."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return tf.distribute.coordinator.ClusterCoordinator(strategy)


class Led:
    """See the module, and dbinfer.train.course.Trainer.

    Attributes:
        plain: the network in this process; `fetch` and `push` copy between it and the servers.
        values, statistics: its weights on the servers: those that gradients change, and the others.
    """

    first = True

    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        self.plan, self._cluster = plan, cluster
        # First: what TensorFlow has made before belongs to a process without a cluster
        coordinator = connect(cluster)
        keras.utils.set_random_seed(plan.job.seed)
        self.plain, _ = models.build(plan.network, plan.options)
        self.pure, self.judged = Pure(self.plain, plan.network), Judge(self.plain, plan.network)
        self.check()
        self.train, self.val = plan.training(0, 1), plan.validation(0, 1)
        plan.close()  # all rows are read
        self.work = Work(coordinator, len(cluster["worker"]))
        self.served = Served(len(cluster["ps"]))
        self.values = self.served.make(self.pure.trainable)
        self.statistics = self.served.make(self.pure.statistics)

    def check(self) -> None:
        """Raise TrainError where the network cannot be trained so."""

    def share(self, value: Any) -> Any:
        return value

    def begin(self) -> None:
        self.push()

    def push(self) -> None:
        """Give the servers the weights of this process."""
        for here, there in self._pairs():
            there.assign(here.value)

    def fetch(self) -> None:
        """Give this process the weights of the servers."""
        for here, there in self._pairs():
            here.assign(there.numpy())

    def judge(self) -> dict[str, float]:
        if self.val is None:
            return {}
        self.judged.reset()
        truths: dict[int, Any] = {}

        def pieces() -> Iterator[tuple[Any, ...]]:
            assert self.val is not None
            for number, (images, truth) in enumerate(read_batches(self.val, self.val.validation())):
                truths[number] = truth
                yield (images,)

        for number, scores in self.work.results(self._scores, pieces(), again=True):
            self.judged.add(scores, truths.pop(number))
        return self.judged.values("val_")

    def about(self) -> dict[str, Any]:
        """Return where all processes listened, and how many pieces of work each worker did."""
        done = [self.work.done[number] for number in range(len(self._cluster["worker"]))]
        return {"hosts": [socket.gethostname()], "cluster": self._cluster, "done": done}

    def _scores(self, images: Any) -> Any:
        return self.pure.scores(
            list(map(tf.identity, self.values)), list(map(tf.identity, self.statistics)), images
        )

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        yield from zip(self.pure.trainable, self.values, strict=True)
        yield from zip(self.pure.statistics, self.statistics, strict=True)
