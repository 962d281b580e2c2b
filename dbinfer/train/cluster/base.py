"""What strategies with a coordinator have: variables on parameter servers, and work dealt out to whoever is free.

Keras' optimizers read a variable, compute and write it back: of two workers that do so at once one loses its update.
The operations here change the variable on its server, under its lock.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dbinfer.train import model as models
from dbinfer.train.arrays import Judge, Pure
from dbinfer.train.loader import read_batches
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import Plan

RHO, BETA1, BETA2, TINY = 0.9, 0.9, 0.999, 1e-7  # as Keras has them
Apply = Callable[[Any, Sequence[Any], Any, Any, Any], None]


class Served:
    """Variables that are spread over the servers: each goes to the one that has least so far.

    Args:
        servers: how many there are.
    """

    def __init__(self, servers: int) -> None:
        self._sizes = [0] * servers

    def make(self, values: Sequence[Any]) -> list[Any]:
        """Return variables with these first values."""
        return [self._one(np.asarray(value)) for value in values]

    def beside(self, variables: Sequence[Any], value: float) -> list[Any]:
        """Return variables of the same shapes on the same servers, filled with a number."""
        return [_on(one.device, np.full(one.shape, value, one.dtype.as_numpy_dtype)) for one in variables]

    def _one(self, value: Any) -> Any:
        server = int(np.argmin(self._sizes))
        self._sizes[server] += value.nbytes
        return _on(f"/job:ps/replica:0/task:{server}/device:CPU:0", value)


def _on(device: str, value: Any) -> Any:
    with tf.device(device):
        return tf.Variable(value, trainable=False)


def _sgd(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        if not slots:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=rate, delta=gradient, use_locking=True
            )
            return
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=slots[0].handle,
            lr=rate,
            grad=gradient,
            momentum=job.momentum,
            use_locking=True,
            use_nesterov=True,
        )

    return apply


def _adagrad(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle, accum=slots[0].handle, lr=rate, epsilon=TINY, grad=gradient, use_locking=True
        )

    return apply


def _rmsprop(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        tf.raw_ops.ResourceApplyRMSProp(
            var=variable.handle,
            ms=slots[0].handle,
            mom=slots[1].handle,
            lr=rate,
            rho=RHO,
            momentum=0.0,
            epsilon=TINY,
            grad=gradient,
            use_locking=True,
        )

    return apply


def _adam(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            # Powers of the number of the step: a counter that all workers write would be a third thing to lock
            beta1_power=tf.pow(BETA1, step),
            beta2_power=tf.pow(BETA2, step),
            lr=rate,
            beta1=BETA1,
            beta2=BETA2,
            epsilon=TINY,
            grad=gradient,
            use_locking=True,
        )

    return apply


def slots_of(job: TrainJob) -> tuple[float, ...]:
    """Return the first values of what the optimizer keeps for each variable."""
    momentum = (0.0,) if job.momentum else ()
    return {"sgd": momentum, "adagrad": (0.1,), "rmsprop": (0.0, 0.0), "adam": (0.0, 0.0)}[job.optimizer]


def applying(job: TrainJob) -> Apply:
    """Return the optimizer: a function (variable, slots, gradient, rate, step from 1 on) that changes them locked."""
    return {"sgd": _sgd, "adagrad": _adagrad, "rmsprop": _rmsprop, "adam": _adam}[job.optimizer](job)


AHEAD = 3  # pieces per worker that are under way: one computed, and the next ones on their way
# The worker that had computed a value is lost, and the value with it
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InternalError, tf.errors.CancelledError)


class Work:
    """See the module.

    Attributes:
        done: how many pieces each worker has done.

    Args:
        coordinator: TensorFlow's.
        workers: how many there are.
    """

    def __init__(self, coordinator: Any, workers: int) -> None:
        self._coordinator = coordinator
        self._pool = ThreadPoolExecutor(AHEAD * workers)
        self._limit = AHEAD * workers
        self._names = iter(coordinator.create_per_worker_dataset(_names))
        self.done: Counter[int] = Counter()

    def results(
        self, function: Callable[..., Any], pieces: Iterable[tuple[Any, ...]], again: bool
    ) -> Iterator[tuple[int, Any]]:
        """Yield (number, result) of each piece, in the order in which they are done.

        Args:
            function: gets the values of a piece; a tf.function over what `run` adds the worker's name to.
            pieces: what is computed.
            again: whether a piece may be done once more when its result was lost with its worker; else None is yielded.
        """
        run = _named(function)
        waiting: dict[Future[Any], tuple[int, tuple[Any, ...]]] = {}

        def hand_out(number: int, piece: tuple[Any, ...]) -> None:
            remote = self._coordinator.schedule(run, args=(self._names, *piece))
            waiting[self._pool.submit(remote.fetch)] = number, piece

        for number, piece in enumerate(pieces):
            hand_out(number, piece)
            while len(waiting) >= self._limit:
                yield from self._collect(waiting, hand_out, again)
        while waiting:
            yield from self._collect(waiting, hand_out, again)

    def _collect(
        self, waiting: dict[Future[Any], Any], hand_out: Callable[..., None], again: bool
    ) -> Iterator[Any]:
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            number, piece = waiting.pop(future)
            try:
                name, result = future.result()
            except LOST:
                self._coordinator.schedule(_nothing)  # raises where a server is lost, not a worker
                if again:
                    hand_out(number, piece)
                else:
                    yield number, None
                continue
            self.done[int(name)] += 1
            yield number, result


def _named(function: Callable[..., Any]) -> Any:
    """Return a tf.function that also says which worker it ran on."""

    def run(names: Any, *piece: Any) -> Any:
        return next(names), function(*piece)

    return tf.function(run, reduce_retracing=True)


@tf.function  # type: ignore[untyped-decorator]
def _nothing() -> Any:
    return tf.constant(0)


def _names() -> Any:
    """Return a data set that gives the number of the worker that reads it, again and again.

    TensorFlow tells a function not where it runs. So the worker reads its own command line: ... member worker 1
    """
    words = tf.data.TextLineDataset("/proc/self/cmdline")
    number = words.map(lambda line: tf.strings.to_number(tf.strings.split(line, "\0")[-2], tf.int64))
    return number.cache().repeat()


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
