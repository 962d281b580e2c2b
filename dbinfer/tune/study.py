"""The study in Optuna, its journal as a table of the database, and locks that show which workers are alive."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import optuna
import psycopg2
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import TrialState

from dbinfer.base.errors import DataError
from dbinfer.database.connection import sentence, session
from dbinfer.tune.options import TuneJob

TURN = 0  # number of the lock beside those of the workers, which count from 1
WAIT = 0.1  # seconds between looks for a free number


class Journal(BaseJournalBackend):  # type: ignore[misc]
    """The numbered entries of one study, through a connection of its own.

    Locks are the session's: the server releases them when a process dies, however it dies.

    Args:
        dsn: the database, where dbinfer is installed.
        study: its name.
    """

    def __init__(self, dsn: str, study: str) -> None:
        self.study = study
        self._stack = ExitStack()
        self._connection = self._stack.enter_context(session(dsn or None, autocommit=True))

    def close(self) -> None:
        """Give all locks back."""
        self._stack.close()

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """Return the entries from a number on."""
        rows = self._ask("SELECT dbinfer._journal(%s, %s)", (self.study, log_number_from))
        return [row[0] for row in rows]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append entries; the server numbers them without a gap."""
        for log in logs:
            self._ask("SELECT dbinfer._add_journal_entry(%s, %s::jsonb)", (self.study, json.dumps(log)))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let one process at a time decide which trial comes next."""
        with self._lock(TURN):
            yield

    def become_worker(self, most: int = 0) -> int:
        """Return the smallest number that no living worker has, and keep it; wait for one up to `most` if given."""
        number = 1
        while not self._try(number):
            number += 1
            if most and number > most:
                # The server has not noticed yet that the process which this one replaces is dead
                time.sleep(WAIT)
                number = 1
        return number

    def is_alive(self, worker: int) -> bool:
        """Return whether another process holds this worker's number."""
        if self._try(worker):
            self._unlock(worker)
            return False
        return True

    @contextmanager
    def _lock(self, number: int) -> Iterator[None]:
        self._ask("SELECT pg_catalog.pg_advisory_lock(pg_catalog.hashtext(%s), %s)", (self._name, number))
        try:
            yield
        finally:
            self._unlock(number)

    def _try(self, number: int) -> bool:
        text = "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext(%s), %s)"
        return bool(self._ask(text, (self._name, number))[0][0])

    def _unlock(self, number: int) -> None:
        self._ask("SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext(%s), %s)", (self._name, number))

    @property
    def _name(self) -> str:
        return f"dbinfer.tune {self.study}"

    def _ask(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(text, values)
                return list(cursor.fetchall())
        except psycopg2.Error as err:
            raise sentence(err, DataError) from err


optuna.logging.set_verbosity(optuna.logging.ERROR)
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
WORKER, ERROR, AGAIN = "worker", "error", "again"
# What trials must have in common to be compared
FIXED = ("network", "data", "val", "val_fraction", "epochs", "network_options", "on_bad")


@dataclass
class Worker:
    """What a worker keeps from trial to trial: its images, the study, and its number."""

    job: TuneJob
    setup: Any
    study: Any
    journal: Any
    number: int
    metric: str


def begin(journal: Journal, job: TuneJob, resume: bool) -> Any:
    """Return the study, a new one, or with `resume` one that has begun.

    Raises:
        DataError: it has begun and `resume` is not given, or the other way round, or it was about something else.
    """
    with journal.turn():
        begun = bool(list(journal.read_logs(0)))
        if begun and not resume:
            raise DataError(
                f"the study {job.study!r} has begun already", "Go on with --resume, or give another --study."
            )
        if resume and not begun:
            raise DataError(f"there is no study {job.study!r} to resume", "Leave --resume out to begin it.")
        study = load(journal, job, 0)
        if not begun:
            study.set_user_attr("job", job.to_dict())
    _check_same(study, job)
    return study


def load(journal: Journal, job: TuneJob, worker: int) -> Any:
    """Return the study with the sampler of one worker."""
    sampler = optuna.samplers.TPESampler(seed=job.train.seed + worker, constant_liar=True)
    storage = optuna.storages.JournalStorage(journal)
    return optuna.create_study(
        storage=storage,
        sampler=sampler,
        pruner=_pruner(job),
        study_name=job.study,
        direction="maximize",
        load_if_exists=True,
    )


def next_trial(study: Any, journal: Journal, job: TuneJob, worker: int) -> Any:
    """Return a trial for this worker; None where others run the last ones; raise StopIteration when all have ended."""
    with journal.turn():
        take_up_dead(study, journal, worker)
        trials = study.get_trials(deepcopy=False)
        ended = sum(has_ended(trial) for trial in trials)
        if ended >= job.trials:
            raise StopIteration
        running = sum(trial.state == TrialState.RUNNING for trial in trials)
        if ended + running >= job.trials:
            return None
        trial = study.ask()
        trial.set_user_attr(WORKER, worker)
        return trial


def has_ended(trial: Any) -> bool:
    """Return whether a trial counts: it ended, was pruned, or its values cannot be trained."""
    return trial.state in ENDED or (trial.state == TrialState.FAIL and ERROR in trial.user_attrs)


def take_up_dead(study: Any, journal: Journal, worker: int) -> list[int]:
    """Put the trials of dead workers in the queue again, with the same values; return their numbers.

    Whoever calls this has the turn, and no trial of its own: one without a worker's name, or with this one's number,
    was left by a process that is dead.
    """
    dead = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        owner = trial.user_attrs.get(WORKER, worker)
        if owner == worker or not journal.is_alive(owner):
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params, user_attrs={AGAIN: trial.number})
            dead.append(trial.number)
    return dead


def _pruner(job: TuneJob) -> Any:
    if job.pruner == "hyperband":
        # 4, not Optuna's 3: replayed over recorded trials of the digits with 5 to 10 epochs at most, the best value was
        # lost by 0.0003 to 0.0009 on average (with 3: 0.0014 to 0.0026), in fewer epochs
        return optuna.pruners.HyperbandPruner(
            min_resource=1, max_resource=job.train.epochs, reduction_factor=4
        )
    return (
        optuna.pruners.MedianPruner(n_startup_trials=4)
        if job.pruner == "median"
        else optuna.pruners.NopPruner()
    )


def _check_same(study: Any, job: TuneJob) -> None:
    before = study.user_attrs.get("job", {})
    ours = job.to_dict()
    pairs = [(key, before.get("train", {}).get(key), ours["train"][key]) for key in FIXED]
    pairs.append(("shards", before.get("shards", 0), ours["shards"]))
    pairs.append(("search", list(before.get("search", [])), list(ours["search"])))
    for key, old, new in pairs:
        if old != new:
            raise DataError(
                f"the study {job.study!r} was begun with {key} {old!r}, but this one has {new!r}",
                "Give the same options to go on, or another --study.",
            )
