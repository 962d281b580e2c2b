"""One part of a network that lies split: what its process trains, tells others, and gathers for the model's file."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils
from numpy.typing import NDArray

from dbinfer.base.errors import TrainError
from dbinfer.train.answers import Reading, joined
from dbinfer.train.course import Pass, Schedule, StepReports
from dbinfer.train.loader import Pipeline, Seed
from dbinfer.train.mesh import Layout, Mesh, model_parallel
from dbinfer.train.model import build, compile_model, reseed
from dbinfer.train.own import everywhere
from dbinfer.train.ranks import length_of, packed, unpacked
from dbinfer.train.report import OnEvent
from dbinfer.train.setup import Setup

LONGEST = 256  # bytes of a text


def share(value: Any) -> Any:
    """Return the first process's value, which JSON can represent, in every process."""
    if jax.process_count() == 1:
        return value
    data = packed(value)
    length = length_of(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    padded = np.zeros(length, np.uint8)
    if jax.process_index() == 0:
        padded[:] = data
    return unpacked(np.asarray(multihost_utils.broadcast_one_to_all(padded)))


def gather(value: float) -> list[float]:
    """Return the numbers of all processes, in their order."""
    return [float(one) for one in np.atleast_1d(multihost_utils.process_allgather(np.float32(value)))]


def gather_texts(text: str) -> list[str]:
    """Return the texts of all processes, in their order."""
    data = np.zeros(LONGEST, np.uint8)
    encoded = text.encode()[:LONGEST]
    data[: len(encoded)] = list(encoded)
    rows = np.asarray(multihost_utils.process_allgather(data)).reshape(-1, LONGEST)
    return [bytes(row).rstrip(b"\0").decode() for row in rows]


class Held:
    """A variable as checkpoints see it; its values are only here while they are needed."""

    def __init__(self, variable: Any) -> None:
        self.shape = tuple(variable.shape)
        self.value: NDArray[Any] | None = None
        self._variable = variable

    def assign(self, value: Any) -> None:
        """Take a value; `spread` gives it to the network."""
        self.value = np.asarray(value)

    def gather(self, keep: bool) -> None:
        """Fetch the values from all processes, which make this call together; those that need none drop them."""
        whole = multihost_utils.process_allgather(self._variable.value, tiled=True)
        self.value = np.asarray(whole) if keep else None

    def spread(self) -> None:
        """Give the network the first process's values; all processes make this call together."""
        now = self._variable.value
        given = self.value if self.value is not None else np.zeros(now.shape, now.dtype)
        whole = np.asarray(multihost_utils.broadcast_one_to_all(given.astype(now.dtype)))
        # Each process makes its own part; assigning the whole would make JAX compare it on all processes
        self._variable.assign(
            jax.make_array_from_callback(now.shape, now.sharding, lambda index: whole[index])
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        assert self.value is not None, "the values have not been gathered"
        return self.value if dtype is None else self.value.astype(dtype)


class Mirror:
    """What a checkpoint holds of a network that lies split: see dbinfer.train.course.Trained.model."""

    def __init__(self, model: Any) -> None:
        self.weights = [Held(variable) for variable in model.weights]
        self.optimizer = SimpleNamespace(variables=[Held(variable) for variable in model.optimizer.variables])

    @property
    def variables(self) -> Sequence[Held]:
        """Weights and optimizer state."""
        return [*self.weights, *self.optimizer.variables]

    @property
    def filled(self) -> bool:
        """Whether a checkpoint has been read."""
        return any(one.value is not None for one in self.variables)

    def gather(self, keep: bool) -> None:
        """Fetch all values, one variable after the other."""
        for one in self.variables:
            one.gather(keep)

    def spread(self) -> None:
        """Give all values to the network, one variable after the other."""
        for one in self.variables:
            one.spread()

    def drop(self) -> None:
        """Free the memory: while the network trains, no process holds the whole."""
        for one in self.variables:
            one.value = None


AHEAD = 2  # batches that are decoded while the network computes
Batch = tuple[Any, Any]


class Part:
    """See dbinfer.train.course.Trainer; `model` is a mirror in the first process, which alone writes files.

    Args:
        setup: what is trained.
        process: number of this one.
    """

    def __init__(self, setup: Setup, process: int) -> None:
        job = setup.job
        setup = replace(setup, network=everywhere(setup.network, job, share))
        self.setup, self.first, self._mesh = setup, process == 0, Mesh.of(job)
        self._layout = Layout(job.layout, self._mesh.parts)
        # The same seed in all: each makes every variable once and keeps its part
        keras.utils.set_random_seed(job.seed)
        keras.distribution.set_distribution(model_parallel(self._mesh, self._layout))
        self._network, _ = build(setup.network, setup.options)
        compile_model(self._network, setup.network, job, jit=True)
        self.model = Mirror(self._network)
        self._train = setup.training(self._mesh.group(process), self._mesh.groups)
        self._val = setup.validation(0, 1)
        self._group = self._mesh.group(process)
        setup.close()
        self.steps = self._train.steps
        self._schedule = Schedule.of(job, self._mesh.groups, self.steps)
        setup.check_alike(share, gather)
        if self._mesh.parts > 1 and not self._layout.axes:
            raise TrainError(
                f"the layout {job.layout} splits no layer of the network {job.name} into {self._mesh.parts} parts",
                "Choose another --layout, or another strategy.",
            )

    @property
    def plain(self) -> Any:
        """The network as a whole, in the first process's memory: no other program could read it in parts."""
        with _undistributed():
            whole, _ = build(self.setup.network, self.setup.options)
        whole.set_weights([np.asarray(one) for one in self.model.weights])
        return whole

    def share(self, value: Any) -> Any:
        return share(value)

    def begin(self) -> None:
        # Without a checkpoint all have started alike
        if share(self.model.filled):
            self.model.spread()

    def epoch(self, number: int, on_event: OnEvent) -> Pass:
        self.model.drop()
        reseed(self._network, Seed(self.setup.job.seed, 0, number))
        sums: dict[str, float] = {}
        images, rate, tell = 0, 0.0, StepReports(on_event, number, self.steps)
        for step, (x, y) in enumerate(_batches(self._train, number)):
            rate = self._schedule.at((number - 1) * self.steps + step)
            self._network.optimizer.learning_rate = rate
            _add(sums, self._network.train_on_batch(x, y, return_dict=True), len(x))
            images += len(x)
            tell(step + 1)
        self.model.gather(self.first)
        return Pass({name: value / images for name, value in sums.items()}, rate, images * self._mesh.groups)

    def evaluate(self) -> dict[str, float]:
        if self._val is None:
            return {}
        sums: dict[str, float] = {}
        images = 0
        for x, y, count in _validation(self._val, self._mesh.groups, self._group):
            _add(sums, self._network.test_on_batch(x, y, return_dict=True), count)
            images += count
        return {f"val_{name}": value / images for name, value in sums.items()}

    def scored(self, reading: Reading) -> tuple[Any, Any]:
        if not self.first or self._val is None:
            return np.empty(0), np.empty(0)
        whole, val = self.plain, self._val
        rows = range(len(val.loader.samples))
        batches = [rows[start : start + val.job.batch] for start in rows[:: val.job.batch]]
        with _undistributed():
            return joined(
                (truths, reading(whole.predict_on_batch(images)))
                for images, truths in map(val.unchanged, batches)
            )

    def about(self) -> dict[str, Any]:
        """Return hosts, the mesh, and the share of the parameters that each process holds."""
        held, whole = held_parameters(self._network)
        return {
            "hosts": gather_texts(socket.gethostname()),
            "mesh": [self._mesh.groups, self._mesh.parts],
            "layout": self.setup.job.layout,
            "parameters": whole,
            "share_of_parameters": [round(one, 4) for one in gather(held / whole)],
        }


@contextmanager
def _undistributed() -> Iterator[None]:
    """Let what Keras does here lie in this process alone."""
    before = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(before)


def held_parameters(model: Any) -> tuple[int, int]:
    """Return how many numbers of the weights lie in this process, and how many there are."""
    arrays = [weight.value for weight in model.weights]
    held = sum(shard.data.size for array in arrays for shard in array.addressable_shards)
    return held, sum(array.size for array in arrays)


def _batches(pipeline: Pipeline, epoch: int) -> Iterator[Batch]:
    """Yield the batches of an epoch; the next ones are decoded meanwhile."""
    order = pipeline.order(epoch)
    with ThreadPoolExecutor(pipeline.job.decode_threads) as pool:
        waiting: deque[Future[Batch]] = deque()
        for step in range(pipeline.steps + AHEAD):
            if step < pipeline.steps:
                waiting.append(pool.submit(pipeline.batch, epoch, step, order))
            if step >= AHEAD or step >= pipeline.steps:
                yield waiting.popleft().result()
            if not waiting:
                return


def _validation(pipeline: Pipeline, groups: int, mine: int) -> Iterator[tuple[Any, Any, int]]:
    """Yield this group's part of each validation batch, and how many images the batch has.

    All parts of a batch must be equally large. What does not divide goes alone, as the same image in every group.
    """
    size = pipeline.job.batch * groups
    for start in range(0, len(pipeline.loader.samples), size):
        x, y = pipeline.unchanged(range(start, min(start + size, len(pipeline.loader.samples))))
        part = len(x) // groups
        if part:
            yield x[mine * part : (mine + 1) * part], y[mine * part : (mine + 1) * part], part * groups
        for one in range(part * groups, len(x)):
            yield x[one : one + 1], y[one : one + 1], 1


def _add(sums: dict[str, float], values: dict[str, float], images: int) -> None:
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + float(value) * images
