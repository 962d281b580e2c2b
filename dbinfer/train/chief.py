"""The chief of a training with servers: Downpour SGD and Sandblaster's L-BFGS (Dean et al. 2012).

Variables lie on the parameter servers, and the chief deals work out to whichever worker is free.

Downpour: no worker owns a part of the images. The chief decodes them and hands out batches, so that a lost worker's
batch goes to another one, and an epoch sees each image once. Keras' optimizers read a variable, compute and write it
back: when two workers do so at once, one update is lost. The operations here change a variable on its server, under its
lock.

Sandblaster: a piece of work is `batch` images, so slow workers get fewer. SciPy's L-BFGS-B begins anew in each epoch,
which is 10 of its iterations, so that a resumed run repeats an uninterrupted one.
"""

from __future__ import annotations

import itertools
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from scipy.optimize import minimize

from dbinfer.base.errors import TrainError
from dbinfer.train.answers import Reading, joined
from dbinfer.train.course import Pass, Schedule, StepReports, follow
from dbinfer.train.listening import check_listening
from dbinfer.train.loader import Pipeline, Seed, read_batches
from dbinfer.train.model import Metrics, Pure, build
from dbinfer.train.options import DEFAULT_OPTIMIZER, TrainJob
from dbinfer.train.processes import how_to_go_on, send
from dbinfer.train.report import OnEvent
from dbinfer.train.setup import Setup

Cluster = dict[str, list[str]]
Apply = Callable[[Any, Sequence[Any], Any, Any, Any], None]
AHEAD = 3  # pieces per worker at a time: one is computed, the others are on their way
ITERATIONS = 10  # of an epoch of Sandblaster
# Errors that mean: the worker that had computed a value is lost, and the value with it
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InternalError, tf.errors.CancelledError)
BETA1, BETA2, TINY = 0.9, 0.999, 1e-7  # as Keras has them


class Served:
    """Variables that are spread over the servers: each goes to the server that holds the least so far.

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


class Optimizer(NamedTuple):
    """An operation of TensorFlow that changes a variable on its server.

    Attributes:
        operation: its name in tf.raw_ops.
        slots: the tensors that it keeps for each variable, by their argument, with their first values.
        constants: other arguments.
        rate, gradient: the names of these two arguments.
    """

    operation: str
    slots: Mapping[str, float] = {}
    constants: Mapping[str, Any] = {}
    rate: str = "lr"
    gradient: str = "grad"


def optimizer_of(job: TrainJob) -> Optimizer:
    """Return the job's optimizer; it computes what Keras' optimizer of that name does."""
    momentum = {"momentum": job.momentum, "use_nesterov": True}
    rms = {"rho": 0.9, "momentum": 0.0, "epsilon": TINY}
    adam = {"beta1": BETA1, "beta2": BETA2, "epsilon": TINY}
    optimizers = {
        "sgd": Optimizer("ResourceApplyKerasMomentum", {"accum": 0.0}, momentum)
        if job.momentum
        else Optimizer("ResourceApplyGradientDescent", rate="alpha", gradient="delta"),
        "adagrad": Optimizer("ResourceApplyAdagradV2", {"accum": 0.1}, {"epsilon": TINY}),
        "rmsprop": Optimizer("ResourceApplyRMSProp", {"ms": 0.0, "mom": 0.0}, rms),
        "adam": Optimizer("ResourceApplyAdam", {"m": 0.0, "v": 0.0}, adam),
    }
    return optimizers[job.optimizer or DEFAULT_OPTIMIZER]


def applying(job: TrainJob) -> Apply:
    """Return a function (variable, slots, gradient, rate, step from 1 on) that changes variable and slots, locked."""
    own = optimizer_of(job)
    operation = getattr(tf.raw_ops, own.operation)

    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        given = {own.rate: rate, own.gradient: gradient, **own.constants}
        given.update({name: slot.handle for name, slot in zip(own.slots, slots, strict=True)})
        if job.optimizer == "adam":
            # Powers of the number of the step: a counter that all workers write would need a lock, too
            given.update(beta1_power=tf.pow(BETA1, step), beta2_power=tf.pow(BETA2, step))
        operation(var=variable.handle, use_locking=True, **given)

    return apply


class Work:
    """Work that is dealt out in pieces to whichever worker is free.

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
            function: computes on the values of a piece; it is traced by TensorFlow.
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

    TensorFlow does not tell a function where it runs, so the worker reads its own command line: ... worker 1
    """
    words = tf.data.TextLineDataset("/proc/self/cmdline")
    number = words.map(lambda line: tf.strings.to_number(tf.strings.split(line, "\0")[-2], tf.int64))
    return number.cache().repeat()


def connect(cluster: Cluster) -> Any:
    """Return TensorFlow's coordinator of the cluster."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return tf.distribute.coordinator.ClusterCoordinator(strategy)


class Led:
    """What both kinds of chief have in common, see dbinfer.train.course.Trainer.

    Attributes:
        plain: the network in this process; `fetch` and `push` copy between it and the servers.
        values, statistics: its weights on the servers: those that gradients change, and the others.
    """

    first = True

    def __init__(self, setup: Setup, cluster: Cluster) -> None:
        self.setup, self._cluster = setup, cluster
        # First: what TensorFlow makes before it knows the cluster does not belong to it
        coordinator = connect(cluster)
        keras.utils.set_random_seed(setup.job.seed)
        self.plain, _ = build(setup.network, setup.options)
        self.pure, self.metrics = Pure(self.plain, setup.network), Metrics(self.plain, setup.network)
        self.check()
        self.train, self.val = setup.training(0, 1), setup.validation(0, 1)
        setup.close()  # all rows are read
        self.work = Work(coordinator, len(cluster["worker"]))
        self.served = Served(len(cluster["ps"]))
        self.values = self.served.make(self.pure.trainable)
        self.statistics = self.served.make(self.pure.statistics)

    def check(self) -> None:
        """Raise TrainError where the network cannot be trained this way."""

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

    def evaluate(self) -> dict[str, float]:
        if self.val is None:
            return {}
        self.metrics.reset()
        for truths, scores in self._validated(self.val):
            self.metrics.add(scores, truths)
        return self.metrics.values("val_")

    def scored(self, reading: Reading) -> tuple[Any, Any]:
        assert self.val is not None
        return joined((truths, reading(scores)) for truths, scores in self._validated(self.val))

    def _validated(self, val: Pipeline) -> Iterator[tuple[Any, Any]]:
        """Yield truths and scores of the batches, in the order in which workers have done them."""
        waiting: dict[int, Any] = {}

        def pieces() -> Iterator[tuple[Any, ...]]:
            for number, (images, truths) in enumerate(read_batches(val, val.validation())):
                waiting[number] = truths
                yield (images,)

        for number, scores in self.work.results(self._scores, pieces(), again=True):
            yield waiting.pop(number), scores

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


class Downpour(Led):
    """The chief's part, see dbinfer.train.course.Trainer."""

    def __init__(self, setup: Setup, cluster: Cluster) -> None:
        super().__init__(setup, cluster)
        job = setup.job
        self.steps = self.train.steps
        # The rate of one process: batches are applied one by one, never summed
        self._schedule = Schedule.of(job, 1, self.steps)
        self._columns = [self.served.beside(self.values, first) for first in optimizer_of(job).slots.values()]
        self._applied = self.served.make([[0]])[0]
        self._handed_out, self._stale = 0, 0
        self._apply = applying(job)
        slots = [one for column in self._columns for one in column]
        # What checkpoints keep: the weights of this process, and what the optimizer keeps on the servers
        self.model = SimpleNamespace(weights=self.plain.weights, optimizer=SimpleNamespace(variables=slots))

    def epoch(self, number: int, on_event: OnEvent) -> Pass:
        self.metrics.reset()
        truths: dict[int, Any] = {}
        tell = StepReports(on_event, number, self.steps)
        done = self.work.results(self._update, self._batches(number, truths), again=False)
        for number_done, (step, found) in enumerate(done, 1):
            truth = truths.pop(step)
            if found is not None:
                scores, stale = found
                self.metrics.add(scores, truth)
                self._stale += int(stale)
            tell(number_done)
        self._check_applied()
        self.fetch()
        return Pass(self.metrics.values(), self._schedule.at(number * self.steps - 1), self.train.length)

    def about(self) -> dict[str, Any]:
        applied = int(self._applied.numpy()[0])
        staleness = round(self._stale / max(1, applied), 3)
        updates = {"handed_out": self._handed_out, "applied": applied, "staleness": staleness}
        return {**super().about(), "updates": updates}

    def _batches(self, epoch: int, truths: dict[int, Any]) -> Iterator[tuple[Any, ...]]:
        first = (epoch - 1) * self.steps
        seed = Seed(self.setup.job.seed, 0, epoch)
        for step, (images, truth) in enumerate(read_batches(self.train, self.train.training(epoch))):
            truths[step] = truth
            rate = tf.constant(self._schedule.at(first + step), tf.float32)
            number = tf.constant(first + step + 1, tf.float32)
            self._handed_out += 1
            yield images, truth, self.pure.states(seed, step), rate, number

    def _update(self, images: Any, truths: Any, states: Any, rate: Any, number: Any) -> Any:
        """Run on a worker: fetch, differentiate, push; return scores, and how many updates others made meanwhile."""
        seen = tf.identity(self._applied)[0]
        with tf.control_dependencies([seen]):
            values = [tf.identity(one) for one in self.values]
        statistics = [tf.identity(one) for one in self.statistics]
        gradients, scores, after = self.pure.gradients(values, (statistics, states), images, truths)
        with tf.control_dependencies(gradients):
            stale = tf.identity(self._applied)[0] - seen
        if self.setup.job.staleness_aware:
            # Zhang et al. 2015 (arXiv:1511.05950): a gradient of weights that are long gone counts less
            rate = rate / tf.cast(tf.maximum(stale, 1), tf.float32)
        count = tf.cast(tf.shape(images)[0], tf.float32)
        for place, (variable, gradient) in enumerate(zip(self.values, gradients, strict=True)):
            self._apply(variable, [column[place] for column in self._columns], gradient / count, rate, number)
        for one, new, old in zip(self.statistics, after, statistics, strict=True):
            one.assign_add(new - old)  # added under the lock, so that changes by other workers stay
        self._applied.assign_add([1])
        return scores, stale

    def _check_applied(self) -> None:
        applied = int(self._applied.numpy()[0])
        if applied < self._handed_out:
            raise TrainError(f"{self._handed_out - applied} of {self._handed_out} updates were lost")


class Sandblaster(Led):
    """The chief's part, see dbinfer.train.course.Trainer."""

    def __init__(self, setup: Setup, cluster: Cluster) -> None:
        super().__init__(setup, cluster)
        self.steps = ITERATIONS
        # Every evaluation goes through all of them in the same order
        self._pieces = list(read_batches(self.train, self.train.validation()))
        self._count = sum(len(images) for images, _ in self._pieces)
        self._losses: list[float] = []
        self._last = np.empty(0)  # the weights that were evaluated last
        self.model = SimpleNamespace(weights=self.plain.weights, optimizer=SimpleNamespace(variables=[]))

    def check(self) -> None:
        refuse(self.setup.job.network, self.plain)

    def epoch(self, number: int, on_event: OnEvent) -> Pass:
        evaluations, steps = len(self._losses), itertools.count(1)

        def tell(_: Any) -> None:
            on_event({"event": "step", "epoch": number, "step": next(steps), "steps": ITERATIONS})

        start = _flat([one.numpy() for one in self.values])
        options = {"maxiter": ITERATIONS}
        found = minimize(self._evaluate, start, jac=True, method="L-BFGS-B", callback=tell, options=options)
        if not np.array_equal(found.x, self._last):
            self._evaluate(found.x)  # the search looked further and came back
        self.fetch()
        return Pass(self.metrics.values(), 1.0, (len(self._losses) - evaluations) * self._count)

    def about(self) -> dict[str, Any]:
        return {**super().about(), "losses": self._losses}

    def _evaluate(self, weights: Any) -> tuple[float, Any]:
        """Return the mean loss over all images and its gradient."""
        self._put(weights)
        self.metrics.reset()
        parts: dict[int, tuple[float, Any]] = {}
        for number, (loss, gradient, scores) in self.work.results(self._piece, self._pieces, again=True):
            self.metrics.add(scores, self._pieces[number][1])
            parts[number] = float(loss), gradient
        # In the order of the pieces, not of the answers: so the sum is the same in every run
        loss = sum(parts[number][0] for number in sorted(parts)) / self._count
        gradient = (
            np.sum([parts[number][1] for number in sorted(parts)], axis=0, dtype=np.float64) / self._count
        )
        self._losses.append(loss)
        self._last = np.array(weights)
        return loss, gradient

    def _piece(self, images: Any, truths: Any) -> Any:
        """Run on a worker."""
        values = [tf.identity(one) for one in self.values]
        gradients, scores, _ = self.pure.gradients(values, ((), ()), images, truths)
        return (
            self.pure.loss(truths, scores),
            tf.concat([tf.reshape(one, [-1]) for one in gradients], 0),
            scores,
        )

    def _put(self, weights: Any) -> None:
        start = 0
        for one in self.values:
            size = int(np.prod(one.shape))
            one.assign(weights[start : start + size].reshape(one.shape).astype(np.float32))
            start += size


def _flat(arrays: Sequence[Any]) -> Any:
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def refuse(network: str, model: Any) -> None:
    """Raise TrainError for a network whose loss is not a function of its weights and the images alone."""
    random = [layer for layer in model.layers if getattr(layer, "rate", 0)]
    kept = [layer for layer in model.layers if layer.non_trainable_variables]
    if wrong := [*random, *kept]:
        raise TrainError(
            f"the strategy sandblaster cannot train {network} with layers {type(wrong[0]).__name__}: L-BFGS needs a "
            "loss that the weights alone decide",
            "Leave such layers out where the network has an option for it: --set dropout=0, --set batch_norm=false.",
        )


def lead(setup: Setup, cluster: Cluster, address: str) -> None:
    """Train on the cluster.

    Raises:
        TrainError: a parameter server was lost.
        DbinferError: as dbinfer.train.course.follow.
    """
    trainer = Downpour(setup, cluster) if setup.job.strategy == "downpour" else Sandblaster(setup, cluster)
    check_listening(address)
    try:
        follow(trainer, send)
    except tf.errors.OpError as err:
        raise TrainError(
            f"a parameter server was lost: {(err.message or '').splitlines()[0]}", how_to_go_on(setup.job)
        ) from err
