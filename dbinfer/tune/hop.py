"""The model hopper (MADlib, Cerebro): a worker keeps its shard of the images, and the trials' weights come to it.

The journal tells the route of each trial and who holds it; the weights travel as checkpoints in the search's folder.
"""

from __future__ import annotations

import gc
import math
import shutil
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from dbinfer.errors import DbinferError
from dbinfer.train import checkpoint, course
from dbinfer.train.device import limit_threads
from dbinfer.tune.journal import Journal
from dbinfer.tune.options import WAITING, TuneJob
from dbinfer.tune.route import PREFIX, Hop, Route
from dbinfer.tune.search import read_search, with_values
from dbinfer.tune.study import ERROR, WORKER, Worker, has_ended
from dbinfer.tune.visit import Visitor

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
    """Train whatever comes by on this worker's shard, until the study has its trials."""
    limit_threads(worker.job.train.threads)
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
    """Return whether nobody has the weights, or somebody who is dead: what is noted of this worker, too, is old."""
    holder = trial.user_attrs.get(HOLDER, 0)
    return holder in (0, worker) or not journal.is_alive(holder)


def _held(trial: Any, job: TuneJob, worker: int) -> Any:
    trial.set_user_attr(HOLDER, worker)
    # Again after a worker died in between: a value that is set already stays
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
    """Train or judge a trial's weights, and note it; an error of its values ends the trial, not the search."""
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
    if not route.judging:
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
        hopper.kept[trial.number] = Visitor(worker.plan.for_job(job), hopper.shard, worker.job.shards)
    visitor = hopper.kept[trial.number]
    if route.trained:
        checkpoint.load(_folder(hopper, trial), route.trained, visitor.model)
    return visitor


def _end_epoch(hopper: Hopper, trial: Any, route: Route, visitor: Visitor) -> float | None:
    """Report the epoch's score, and end the trial after its last epoch or where it is pruned."""
    training = course.Training(visitor, _nobody, route.history())
    entry = training.history[-1]
    name = hopper.worker.metric
    scores = [epoch.values[name] for epoch in training.history]
    if not math.isfinite(scores[-1]):
        raise ArithmeticError(f"{name} is {scores[-1]} after epoch {entry.epoch}.")
    course.record(training)
    trial.report(scores[-1], entry.epoch)
    if trial.should_prune():
        raise optuna.TrialPruned
    if entry.epoch == training.job.epochs:
        course.finish(training, _started(trial))
        return max(scores)
    # Last: a worker that dies before it leaves the epoch to be judged again, by the same weights
    _note(trial, route, route.hops[-1], number=len(route.hops) - 1)
    return None


def _note(trial: Any, route: Route, hop: Hop, number: int | None = None) -> None:
    trial.set_user_attr(f"{PREFIX}{len(route.hops) if number is None else number}", hop.to_dict())


def _started(trial: Any) -> datetime:
    started: datetime = trial.datetime_start or datetime.now()
    return started.astimezone(timezone.utc)


def _state(visitor: Visitor, hops: int) -> checkpoint.Checkpoint:
    return checkpoint.Checkpoint(hops, visitor.plan.job.to_dict(), [])


def _folder(hopper: Hopper, trial: Any) -> Path:
    return hopper.worker.job.folder / f"trial-{trial.number}" / WAITING


def _nobody(event: dict[str, Any]) -> None:
    pass
