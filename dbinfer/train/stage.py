"""One stage of a pipeline: its process computes some consecutive layers, for one part of a batch after the other.

As in GPipe (Huang et al. 2018, arXiv:1811.06965) all parts of a batch go forth through the stages, then all come back,
and then the weights change. So the network learns what it learns in one process, however many parts a batch has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dbinfer.base.errors import UsageError
from dbinfer.train import checkpoint
from dbinfer.train.answers import Reading, joined
from dbinfer.train.course import Pass, Schedule, StepReports, follow
from dbinfer.train.cuts import Chain, Span, cut_at, cut_by_time, example
from dbinfer.train.device import choose_device, share_cores
from dbinfer.train.loader import Seed, read_batches
from dbinfer.train.mesh import Mesh
from dbinfer.train.model import (
    Metrics,
    average_batch_norm,
    build,
    check_losses,
    compile_model,
    mean_over,
    reseed,
    summed,
)
from dbinfer.train.options import TrainJob
from dbinfer.train.own import everywhere
from dbinfer.train.ranks import Among, Ranks, hosts_of
from dbinfer.train.report import OnEvent
from dbinfer.train.setup import Setup

TIMED = 5  # times that a stage computes without the others, to say how long it waits in a step


def groups_of(job: TrainJob) -> list[list[int]]:
    """Return the ranks that exchange something without the others: neighbours, and one stage of all groups."""
    mesh = Mesh.of(job)
    lines = [[group * mesh.parts + place for place in range(mesh.parts)] for group in range(mesh.groups)]
    neighbours = [line[place : place + 2] for line in lines for place in range(mesh.parts - 1)]
    return [*neighbours, *(map(list, zip(*lines, strict=True)) if mesh.groups > 1 else [])]


def train_stage(setup: Setup, ranks: Ranks, on_event: OnEvent) -> None:
    """Train with this process as one stage; say how the network is cut, and how long the stages waited.

    Raises:
        DbinferError: the network cannot be cut so, an image is unreadable, a checkpoint does not fit, ...
    """
    stage = Stage(setup, ranks)
    on_event({"event": "network", "text": stage.told()})
    follow(stage, on_event)
    if ranks.size > 1:
        on_event({"event": "network", "text": stage.told_waiting()})


class Stage:
    """See dbinfer.train.course.Trainer. The first process also has the whole network, in its host's memory."""

    plain: Any
    model: Any

    def __init__(self, setup: Setup, ranks: Ranks) -> None:
        job = setup.job
        choose_device(job.device, ranks.local_rank, job.precision)
        share_cores(job, ranks)
        # The same in all: each makes the whole network once, and keeps its stage
        keras.utils.set_random_seed(job.seed)
        setup = replace(setup, network=everywhere(setup.network, job, ranks.share))
        self.first, self._ranks, self._mesh = ranks.rank == 0, ranks, Mesh.of(job)
        self._group, self._place = divmod(ranks.rank, self._mesh.parts)
        self._last = self._place == self._mesh.parts - 1
        # Not where the stages compute: such a device may have no room for the whole
        with tf.device("/cpu:0"):
            whole, _ = build(setup.network, setup.options)
        check_losses(whole, setup.network.name)
        chain = Chain.of(whole)
        cuts, seconds = ranks.share(_cut(chain, job) if self.first else None)
        ends = [0, *cuts, len(chain.nodes)]
        spans = [Span.of(chain, *pair) for pair in pairwise(ends)]
        self._stages = [
            {**span.about, "share": round(sum(seconds[start:end]) / sum(seconds), 3)}
            for span, (start, end) in zip(spans, pairwise(ends), strict=True)
        ]
        # In the checkpoints, for a resume: measured again, the times may be others
        self.setup = replace(setup, job=replace(job, cuts=",".join(one["last"] for one in self._stages[:-1])))
        self._span = spans[self._place].copied()
        compile_model(self._span.layers, setup.network, job)
        _check_clipping(self._span.layers.optimizer)
        self._loss, self._metrics = keras.losses.get(setup.network.make_loss()), Metrics(whole, setup.network)
        self._hold(whole, spans)
        self._gather()
        self._train = setup.training(self._group, self._mesh.groups)
        self._val = setup.validation(self._group, self._mesh.groups)
        setup.close()  # all rows are read
        self.steps = self._train.steps
        self._schedule = Schedule.of(job, self._mesh.groups, self.steps)
        setup.check_alike(ranks.share, ranks.gather)
        self._step, self._forth = tf.function(self._both_ways), tf.function(self._one_way)
        self._seconds: list[float] = []
        self._seen: tuple[Any, Any] = (None, None)
        self._waiting: dict[str, Any] = {}

    def told(self) -> str:
        """Return how the network is cut, for people."""
        stages = ", ".join(
            f"{one['first']} to {one['last']} ({one['parameters']:,} weights, {one['share']:.0%} of the time)"
            for one in self._stages
        )
        return f"stages: {stages}; {self.setup.job.micro_batches} parts a batch"

    def told_waiting(self) -> str:
        """Return how long the stages waited, for people; once `about` has found out."""
        found = self._waiting
        return (
            f"a step took {found['step_ms']:.1f} ms, of which the stages waited {found['waiting']:.0%} "
            f"(stages of the same time would wait {found['bubble']:.0%})"
        )

    @property
    def _variables(self) -> list[Any]:
        """What this stage has: weights, and the optimizer's state."""
        return [*self._span.layers.weights, *self._span.layers.optimizer.variables]

    def _hold(self, whole: Any, spans: Sequence[Span]) -> None:
        """Give the first process a place for what each stage has: the whole network, and all states of optimizers."""
        shapes = [[list(one.shape), str(one.dtype)] for one in self._variables]
        self._shapes = self._ranks.gather(shapes)[: self._mesh.parts]
        if not self.first:
            return
        weights = [list(span.layers.weights) for span in spans]
        with tf.device("/cpu:0"):
            states = [
                [tf.Variable(tf.zeros(*one), trainable=False) for one in shapes[len(own) :]]
                for own, shapes in zip(weights, self._shapes, strict=True)
            ]
        self._held = [[*own, *state] for own, state in zip(weights, states, strict=True)]
        optimizer = SimpleNamespace(variables=[one for state in states for one in state])
        self.plain, self.model = whole, SimpleNamespace(weights=whole.weights, optimizer=optimizer)

    def _gather(self) -> None:
        """Give the first process what the stages of its group have; all processes make this call together."""
        own = self._variables
        for place, number, value in self._moved(None, lambda place, number: own[number]):
            if self.first:
                self._held[place][number].assign(value)

    def begin(self) -> None:
        own = self._variables
        for place, number, value in self._moved(0, lambda place, number: self._held[place][number]):
            if place == self._place:
                own[number].assign(value)

    def _moved(self, sender: int | None, own: Callable[[int, int], Any]) -> Iterator[tuple[int, int, Any]]:
        """Yield stage, number and value of each variable, one after the other: no process needs room for all.

        Args:
            sender: whose value; None: of the process that has this stage, in the first group.
            own: returns this process's variable, of a stage and number.
        """
        together = self._ranks.among(range(self._ranks.size))
        for place, shapes in enumerate(self._shapes):
            root = place if sender is None else sender
            for number, (shape, dtype) in enumerate(shapes):
                mine = self._ranks.rank == root
                value = tf.constant(np.asarray(own(place, number))) if mine else tf.zeros(shape, dtype)
                yield place, number, together.move(value, root, f"variable.{place}.{number}")

    def share(self, value: Any) -> Any:
        return self._ranks.share(value)

    def epoch(self, number: int, on_event: OnEvent) -> Pass:
        job, layers = self.setup.job, self._span.layers
        reseed(layers, Seed(job.seed, self._ranks.rank, number))
        rate, tell = 0.0, StepReports(on_event, number, self.steps)
        self._metrics.reset()
        for step, (images, truths) in enumerate(read_batches(self._train, self._train.training(number))):
            rate = self._schedule.at((number - 1) * self.steps + step)
            layers.optimizer.learning_rate = rate
            started = time.perf_counter()
            scores = self._step(len(images), images, truths, tf.zeros(()))[0]
            if len(images) == job.batch:
                self._seconds.append(time.perf_counter() - started)
                self._seen = images, truths
            if self._last:
                self._metrics.add(scores, truths)
            tell(step + 1)
        if job.average_batch_norm and self._mesh.groups > 1:
            average_batch_norm(layers, self._peers)
        self._gather()
        return Pass(
            self._means(self._train.length if self._last else 0), rate, self._train.length * self._mesh.groups
        )

    def evaluate(self) -> dict[str, float]:
        if self.setup.val is None:
            return {}
        self._metrics.reset()
        images = 0
        for truths, scores in self._validated():
            self._metrics.add(scores, truths)
            images += len(truths)
        return {f"val_{name}": value for name, value in self._means(images).items()}

    def _means(self, images: int) -> dict[str, float]:
        """Return loss and metrics over the images of all groups; `images`: how many this process has added."""
        # Keras raises where nothing was added
        values = self._metrics.values() if images else {}
        return mean_over(values, float(images), self._ranks)

    def scored(self, reading: Reading) -> tuple[Any, Any]:
        own = [[truths.tolist(), reading(scores).tolist()] for truths, scores in self._validated()]
        return joined((truths, read) for part in self._ranks.gather(own) for truths, read in part)

    def _validated(self) -> Iterator[tuple[Any, Any]]:
        """Yield truths and scores of the validation images of this group, in its last stage."""
        batches = read_batches(self._val, self._val.validation()) if self._val else ()
        for images, truths in batches:
            scores = self._forth(len(images), images, tf.zeros(()))[0]
            if self._last:
                yield truths, scores

    def about(self) -> dict[str, Any]:
        """Return hosts, mesh and stages, and how long a stage computes and waits in a step."""
        computing, step = self._computing(), median(self._seconds[2:] or self._seconds or [0.0])
        gathered = self._ranks.gather([computing, step])
        stages, parts = len(self._stages), self.setup.job.micro_batches
        busy = [min(1.0, parts * one / whole) if whole else 0.0 for one, whole in gathered]
        self._waiting = {
            "step_ms": round(1e3 * step, 3),
            "waiting": round(1 - fmean(busy), 3),
            "bubble": round((stages - 1) / (parts + stages - 1), 3),
        }
        milliseconds = [round(1e3 * one, 3) for one, _ in gathered[:stages]]
        told = [{**one, "ms": ms} for one, ms in zip(self._stages, milliseconds, strict=True)]
        return {
            "hosts": hosts_of(self._ranks),
            "mesh": [self._mesh.groups, self._mesh.parts],
            "micro_batches": parts,
            "stages": told,
            **self._waiting,
        }

    def _computing(self) -> float:
        """Return the seconds that this stage computes for one part of a batch, without waiting for others."""
        images, truths = self._seen
        if images is None:
            return 0.0
        rows = _rows(len(images), self.setup.job.micro_batches)[0]
        given = [tf.constant(example(one, rows.stop)) for one in self._span.given]

        def compute() -> Any:
            _, target, tape = self._forwards(given, truths[rows], len(images))
            return self._gradients(given, target, tape)

        step, seconds = tf.function(compute), []
        for _ in range(TIMED + 1):  # the first one compiles
            started = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - started)
        return median(seconds[1:])

    def _both_ways(self, images: int, pixels: Any, truths: Any, zero: Any) -> tuple[Any, list[Any]]:
        """Train on one batch; return its scores, in the last stage, and what must be computed so that all is sent.

        Args:
            images: how many; for another number TensorFlow compiles another function.
            zero: of which what is to be received is made: TensorFlow would compute with constants, and send them, while
                it compiles.
        """
        before, after = self._links(zero)
        parts, sent, scores = [], [], []
        for number, rows in enumerate(_rows(images, self.setup.job.micro_batches)):
            given = before.receive(number, self._span.given, rows) or [pixels[rows]]
            made, target, tape = self._forwards(given, truths[rows], images)
            sent += after.send(number, made)
            scores.append(made[0])
            parts.append((number, rows, given, target, tape))
        totals = None
        for number, rows, given, target, tape in reversed(parts):
            back = after.receive(number, self._span.made, rows) or None
            gradients, onward = self._gradients(given, target, tape, back)
            totals = gradients if totals is None else [a + b for a, b in zip(totals, gradients, strict=True)]
            sent += before.send(number, onward)
        if self._mesh.groups > 1:
            totals = self._peers.average(totals)
        if totals:
            self._span.layers.optimizer.apply(totals, self._span.layers.trainable_variables)
        return self._told(scores, sent)

    def _one_way(self, images: int, pixels: Any, zero: Any) -> tuple[Any, list[Any]]:
        """Return the scores of one batch, in the last stage, as the network is used; else as `_both_ways`."""
        before, after = self._links(zero)
        sent, scores = [], []
        for number, rows in enumerate(_rows(images, self.setup.job.micro_batches)):
            made = self._span(
                before.receive(number, self._span.given, rows) or [pixels[rows]], training=False
            )
            sent += after.send(number, made)
            scores.append(made[0])
        return self._told(scores, sent)

    def _told(self, scores: Sequence[Any], sent: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Return the scores of a batch, None before the last stage; and a number of each tensor that is sent."""
        return tf.concat(scores, 0) if self._last else None, [tf.reshape(one, [-1])[0] for one in sent]

    def _forwards(self, given: Sequence[Any], truths: Any, images: int) -> tuple[Any, Any, Any]:
        """Return what this stage makes; what is to be derived (that, or the part's share of the loss); and the tape."""
        with tf.GradientTape() as tape:
            tape.watch(given)
            made = self._span(given, training=True)
            target = summed(self._loss, truths, made[0]) / images if self._last else made
        return made, target, tape

    def _gradients(self, given: Sequence[Any], target: Any, tape: Any, back: Any = None) -> Any:
        """Return the gradients of this stage's weights, and those of what it was given."""
        learned = [variable.value for variable in self._span.layers.trainable_variables]
        zero = tf.UnconnectedGradients.ZERO
        return tape.gradient(target, [learned, given], output_gradients=back, unconnected_gradients=zero)

    @property
    def _peers(self) -> Any:
        """The processes with this stage, one of each group."""
        parts = self._mesh.parts
        return self._ranks.among([group * parts + self._place for group in range(self._mesh.groups)])

    def _links(self, zero: Any) -> tuple[_Link, _Link]:
        """Return how this stage exchanges tensors with the one before it, and with the one after it."""
        rank, ticks = self._ranks.rank, count(1)
        before = None if self._place == 0 else self._ranks.among([rank - 1, rank])
        after = None if self._last else self._ranks.among([rank, rank + 1])
        return (
            _Link(before, rank, rank - 1, zero=zero, ticks=ticks),
            _Link(after, rank, rank + 1, zero=zero, ticks=ticks),
        )


@dataclass(frozen=True)
class _Link:
    """What a stage exchanges with a neighbour, `other`; nothing where there is none."""

    both: Among | None
    rank: int
    other: int
    zero: Any
    ticks: Iterator[int]

    def receive(self, number: int, symbols: Sequence[Any], rows: slice) -> list[Any]:
        """Return the tensors of these shapes that the neighbour sends, for one part of a batch."""
        rooms = [self._room(symbol, rows) for symbol in symbols] if self.both else []
        return self._moved(rooms, self.other, number)

    def send(self, number: int, tensors: Sequence[Any]) -> list[Any]:
        """Send these to the neighbour; they are sent once what is returned is computed."""
        return self._moved(tensors, self.rank, number)

    def _moved(self, tensors: Sequence[Any], sender: int, number: int) -> list[Any]:
        if self.both is None:
            return []
        # Sender and part: no two tensors of a step have the same name
        name = f"{sender}.{self.rank + self.other - sender}.{number}"
        return [self.both.move(tensor, sender, f"{name}.{place}") for place, tensor in enumerate(tensors)]

    def _room(self, symbol: Any, rows: slice) -> Any:
        """Return a tensor of a symbol's shape, unlike any other here: of equal ones TensorFlow would make one."""
        shape = (rows.stop - rows.start, *symbol.shape[1:])
        return tf.cast(tf.fill(shape, self.zero + next(self.ticks)), symbol.dtype)


def _rows(images: int, parts: int) -> list[slice]:
    """Return the parts of a batch, none of them empty."""
    ends = np.linspace(0, images, min(parts, images) + 1).round().astype(int)
    return [slice(int(start), int(end)) for start, end in pairwise(ends)]


def _cut(chain: Chain, job: TrainJob) -> tuple[list[int], list[float]]:
    """Return after how many nodes the network is cut, and the seconds of each node."""
    parts = Mesh.of(job).parts
    names = job.cuts
    if job.resume:
        before = checkpoint.read(job.folder, checkpoint.choose(job.folder, job.resume)).job.get("cuts", "")
        if names and sorted(names.split(",")) != sorted(before.split(",")):
            raise UsageError(
                f"cuts is {names!r}, but the run that goes on is cut at {before!r}", "Leave out --cuts."
            )
        names = before
    seconds = chain.seconds(example(chain.model.inputs[0], -(-job.batch // job.micro_batches)))
    cuts = cut_at(chain, names.split(","), parts) if names else cut_by_time(chain, seconds, parts)
    return cuts, seconds


def _check_clipping(optimizer: Any) -> None:
    if getattr(optimizer, "global_clipnorm", None):
        raise UsageError(
            "global_clipnorm clips the gradients of all layers together, but they lie in several stages",
            "Compile the network with clipnorm or clipvalue, or leave out --strategy.",
        )
