"""The model hopper (MADlib, Cerebro): a worker keeps its shard of the images, and the weights of the trials travel.

In each epoch the weights visit every shard once to be trained there, and then every shard once to be evaluated on its
validation images. Any order will do, so a trial goes wherever a worker is free.

The journal has the route of each trial and its holder; the weights travel as checkpoints in the search's folder.
"""

from __future__ import annotations

import gc
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState

from dbinfer.base.errors import DbinferError
from dbinfer.train import checkpoint
from dbinfer.train.course import Schedule, Training, finish, record
from dbinfer.train.device import choose_precision, limit_threads
from dbinfer.train.loader import Seed
from dbinfer.train.model import Meter, build, compile_model, distributed, evaluate, one_epoch, reseed
from dbinfer.train.ranks import Alone, hosts_of
from dbinfer.train.report import Epoch
from dbinfer.train.setup import Setup, shard
from dbinfer.tune.options import WAITING, TuneJob, read_search, with_values
from dbinfer.tune.study import ERROR, WORKER, Journal, Worker, has_ended

PREFIX = "hop-"  # of a trial's attributes that record its hops


@dataclass(frozen=True)
class Hop:
    """One visit that is done.

    Attributes:
        shard: from 0 on.
        images: that the weights were trained or evaluated on.
        seconds: that took.
        values: loss and metrics over these images.
        lr: of the last step; 0 where the weights were evaluated.
    """

    shard: int
    images: int
    seconds: float
    values: dict[str, float] = field(default_factory=dict)
    lr: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Route:
    """The hops of a trial so far, and what comes next.

    Attributes:
        shards: how many there are.
        hops: in their order; in each epoch `shards` that train, then `shards` that evaluate.
    """

    shards: int
    hops: tuple[Hop, ...] = ()

    @classmethod
    def of(cls, attributes: Mapping[str, Any], shards: int) -> Route:
        """Read it from a trial's attributes."""
        numbers = sorted(int(name.removeprefix(PREFIX)) for name in attributes if name.startswith(PREFIX))
        return cls(shards, tuple(Hop(**attributes[f"{PREFIX}{number}"]) for number in numbers))

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next hop belongs to, from 1 on."""
        return len(self.hops) // (2 * self.shards) + 1

    @property
    def evaluating(self) -> bool:
        """Whether the next hop evaluates the weights."""
        return self._within >= self.shards

    @property
    def trained(self) -> int:
        """How many hops have changed the weights."""
        return (self.epoch - 1) * self.shards + min(self._within, self.shards)

    @property
    def visited(self) -> list[int]:
        """The shards that the weights have visited in this round, in their order."""
        return [hop.shard for hop in self.hops[len(self.hops) - self._within % self.shards :]]

    @property
    def left(self) -> set[int]:
        """The shards that the next hop may go to."""
        return set(range(self.shards)) - set(self.visited)

    @property
    def orders(self) -> list[list[int]]:
        """The order of the shards in the training of each epoch that has begun."""
        each = 2 * self.shards
        starts = range(0, len(self.hops), each)
        return [[hop.shard for hop in self.hops[start : start + self.shards]] for start in starts]

    def history(self) -> list[Epoch]:
        """Return the epochs that are done: means over the images of all shards."""
        each = 2 * self.shards
        ends = range(each, len(self.hops) + 1, each)
        return [_epoch(number, self.hops[end - each : end]) for number, end in enumerate(ends, start=1)]

    def after(self, hop: Hop) -> Route:
        """Return the route with another hop."""
        return Route(self.shards, (*self.hops, hop))

    @property
    def _within(self) -> int:
        return len(self.hops) % (2 * self.shards)


def _epoch(number: int, hops: Sequence[Hop]) -> Epoch:
    half = len(hops) // 2
    train, evaluated = hops[:half], hops[half:]
    seconds = [sum(hop.seconds for hop in part) for part in (train, evaluated)]
    values = {**_means(train), **_means(evaluated)}
    images = sum(hop.images for hop in train)
    return Epoch(
        epoch=number,
        seconds=seconds[0],
        val_seconds=seconds[1],
        images=images,
        lr=train[-1].lr,
        values=values,
    )


def _means(hops: Sequence[Hop]) -> dict[str, float]:
    """Return the means over all images; a shard without validation images does not count."""
    counted = [hop for hop in hops if hop.images]
    weights = [hop.images for hop in counted]
    names = sorted(counted[0].values) if counted else []
    return {name: float(np.average([hop.values[name] for hop in counted], weights=weights)) for name in names}


class Visitor:
    """A trial's network at one shard; dbinfer.train.course writes its files as those of any training.

    Args:
        setup: of the trial; the images of the shard are read already.
        number: of the shard.
        shards: how many there are.
    """

    first = True

    def __init__(self, setup: Setup, number: int, shards: int) -> None:
        import keras

        # The same on every worker: wherever the trial begins, it begins with these weights
        keras.utils.set_random_seed(setup.job.seed)
        self.setup = setup
        self.plain, _ = build(setup.network, setup.options)
        self.model = distributed(self.plain, Alone())
        compile_model(self.model, setup.network, setup.job)
        self._train, self._val = setup.visited(number, shards)
        rows = [len(shard(setup.train.rows, one, shards)) for one in range(shards)]
        self._each = [-(-count // setup.job.batch) for count in rows]
        self._schedule = Schedule.of(setup.job, 1, sum(self._each))

    def train(self, route: Route) -> Hop:
        """Train one pass over the shard, at the learning rates of the trial's next steps."""
        pipeline, epoch = self._train, route.epoch
        reseed(self.model, Seed(self.setup.job.seed, pipeline.rank, epoch))
        done = (epoch - 1) * sum(self._each) + sum(self._each[number] for number in route.visited)
        # Meter counts from the epoch's number and this shard's steps, as if there were no other shards
        schedule = replace(self._schedule, done=done - (epoch - 1) * pipeline.steps)
        meter = Meter(self.model, schedule, _nobody, epoch, pipeline.steps)
        started = time.monotonic()
        values = one_epoch(self.model, pipeline, meter, Alone())
        return Hop(pipeline.rank, pipeline.length, time.monotonic() - started, values, meter.rate)

    def validate(self) -> Hop:
        """Evaluate the weights on the shard's validation images."""
        if self._val is None:
            return Hop(self._train.rank, 0, 0.0)
        started = time.monotonic()
        values = evaluate(self.model, self._val, Alone())
        return Hop(self._train.rank, self._val.length, time.monotonic() - started, values)

    def about(self) -> dict[str, Any]:
        """Return what run.json says of the host."""
        return {"hosts": hosts_of(Alone())}


def _nobody(event: dict[str, Any]) -> None:
    pass


HOLDER = "holder"  # the worker that a trial's weights are at; 0: they wait
IN_FLIGHT = 2  # trials per worker that have begun: while one is elsewhere, there is another
WAIT = 0.05  # seconds between looks, when all trials are elsewhere


@dataclass
class Hopper:
    """What one worker keeps: its shard, and the networks of the trials that come and go."""

    worker: Worker
    kept: dict[int, Visitor] = field(default_factory=dict)

    @property
    def shard(self) -> int:
        """A worker that takes a dead one's number takes its shard."""
        return self.worker.number - 1


def work(worker: Worker) -> None:
    """Train whatever trial comes by on this worker's shard, until the study has its trials."""
    limit_threads(worker.job.train.threads)
    choose_precision(worker.job.train.precision)
    hopper = Hopper(worker)
    while True:
        try:
            trial = next_visit(worker.study, worker.journal, worker.job, worker.number)
        except StopIteration:
            return
        if trial is None:
            time.sleep(WAIT)
        else:
            _drop_ended(hopper)
            _visit(hopper, trial)


def next_visit(study: Any, journal: Journal, job: TuneJob, worker: int) -> Any:
    """Return a trial whose weights may visit this worker's shard; None where all are elsewhere.

    Raises:
        StopIteration: all trials have ended.
    """
    with journal.turn():
        trials = study.get_trials(deepcopy=False)
        ended = sum(has_ended(trial) for trial in trials)
        if ended >= job.trials:
            raise StopIteration
        running = [trial for trial in trials if trial.state == TrialState.RUNNING]
        for one in running:
            if worker - 1 in Route.of(one.user_attrs, job.shards).left and _is_free(one, journal, worker):
                return _held(optuna.trial.Trial(study, one._trial_id), job, worker)
        if ended + len(running) >= job.trials or len(running) >= IN_FLIGHT * job.shards:
            return None
        trial = study.ask()
        trial.set_user_attr(WORKER, worker)
        return _held(trial, job, worker)


def _is_free(trial: Any, journal: Journal, worker: int) -> bool:
    """Return whether no living worker has the weights; a note that this worker has them is old."""
    holder = trial.user_attrs.get(HOLDER, 0)
    return holder in (0, worker) or not journal.is_alive(holder)


def _held(trial: Any, job: TuneJob, worker: int) -> Any:
    trial.set_user_attr(HOLDER, worker)
    # Also after a worker died in between: values that are set stay
    for one in read_search(job.search, job.train.network):
        one.suggest(trial)
    return trial


def _drop_ended(hopper: Hopper) -> None:
    running = hopper.worker.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    ended = set(hopper.kept) - {trial.number for trial in running}
    for number in ended:
        del hopper.kept[number]
    if ended:
        gc.collect()


def _visit(hopper: Hopper, trial: Any) -> None:
    """Train or evaluate a trial's weights, and note it; an error of its values ends the trial, not the search."""
    study = hopper.worker.study
    try:
        value = _hop(hopper, trial)
    except optuna.TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
    except (DbinferError, ValueError, ArithmeticError) as err:
        trial.set_user_attr(ERROR, str(err).splitlines()[0])
        study.tell(trial, state=TrialState.FAIL)
    else:
        if value is None:
            trial.set_user_attr(HOLDER, 0)
            return
        study.tell(trial, value)
    for path in (_folder(hopper, trial), *_folder(hopper, trial).parent.glob("checkpoint-*")):
        shutil.rmtree(path, ignore_errors=True)


def _hop(hopper: Hopper, trial: Any) -> float | None:
    """Make one hop; return the trial's value after its last one."""
    route = Route.of(trial.user_attrs, hopper.worker.job.shards)
    visitor = _visitor(hopper, trial, route)
    if not route.evaluating:
        hop = visitor.train(route)
        # First the weights, then the note: a worker that dies in between leaves the hop undone
        checkpoint.write(_folder(hopper, trial), visitor.model, _state(visitor, route.trained + 1))
        _note(trial, route, hop)
        checkpoint.prune(_folder(hopper, trial), 1, 0)
        return None
    hop = visitor.validate()
    if len(route.left) > 1:
        _note(trial, route, hop)
        return None
    return _end_epoch(hopper, trial, route.after(hop), visitor)


def _visitor(hopper: Hopper, trial: Any, route: Route) -> Visitor:
    """Return the trial's network with the weights that have arrived."""
    worker = hopper.worker
    if trial.number not in hopper.kept or not route.trained:
        out = worker.job.folder / f"trial-{trial.number}"
        job = replace(with_values(worker.job.train, trial.params), out=str(out))
        hopper.kept[trial.number] = Visitor(worker.setup.for_job(job), hopper.shard, worker.job.shards)
    visitor = hopper.kept[trial.number]
    if route.trained:
        checkpoint.load(_folder(hopper, trial), route.trained, visitor.model)
    return visitor


def _end_epoch(hopper: Hopper, trial: Any, route: Route, visitor: Visitor) -> float | None:
    """Report the epoch's score, and end the trial after its last epoch or where it is pruned."""
    training = Training(visitor, _nobody, route.history())
    entry = training.history[-1]
    name = hopper.worker.metric
    scores = [epoch.values[name] for epoch in training.history]
    if not math.isfinite(scores[-1]):
        raise ArithmeticError(f"{name} is {scores[-1]} after epoch {entry.epoch}.")
    record(training)
    trial.report(scores[-1], entry.epoch)
    if trial.should_prune():
        raise optuna.TrialPruned
    if entry.epoch == training.job.epochs:
        finish(training, _started(trial))
        return max(scores)
    # Last: a worker that dies before it leaves the epoch to be evaluated again, with the same weights
    _note(trial, route, route.hops[-1], number=len(route.hops) - 1)
    return None


def _note(trial: Any, route: Route, hop: Hop, number: int | None = None) -> None:
    trial.set_user_attr(f"{PREFIX}{len(route.hops) if number is None else number}", hop.to_dict())


def _started(trial: Any) -> datetime:
    started: datetime = trial.datetime_start or datetime.now()
    return started.astimezone(timezone.utc)


def _state(visitor: Visitor, hops: int) -> checkpoint.Checkpoint:
    return checkpoint.Checkpoint(hops, visitor.setup.job.to_dict(), [])


def _folder(hopper: Hopper, trial: Any) -> Path:
    return hopper.worker.job.folder / f"trial-{trial.number}" / WAITING
