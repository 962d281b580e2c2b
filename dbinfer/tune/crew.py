"""Starts a search: checks first, then its workers, here or on other hosts, replaced when they die, and a report at
the end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from dbinfer.base.apart import cores
from dbinfer.base.errors import DataError, DbinferError, TrainError, UsageError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.database.connection import resolve
from dbinfer.database.pins import install
from dbinfer.tune.options import WAITING, TuneJob, TuneOptions, read_search
from dbinfer.tune.report import TuneReport, ended_trials, make_report

MODULE = "dbinfer.tune.worker"
EVERY = 0.5  # seconds between looks at workers and trials
DEATHS = 3  # of one worker, without an ended trial between them: then it is no accident


@dataclass
class _Worker:
    """A process, its host, and where its output goes."""

    host: str
    process: subprocess.Popen[str]
    log: Path
    deaths: int = 0


class Crew:
    """All workers of a search.

    Args:
        job: what they search.
        hosts: of each worker; an empty name is this one.
        environment: what they need beside it.
    """

    def __init__(self, job: TuneJob, hosts: Sequence[str], environment: dict[str, str]) -> None:
        threads = job.train.threads or max(1, cores() // len(hosts))
        self._job = replace(job, train=replace(job.train, threads=threads))
        self._environment = environment
        self._ended = 0
        self._workers: list[_Worker] = []
        self._hosts = hosts

    def work(self, study: Any, metric: str, progress: OnProgress) -> None:
        """Return when all trials have ended and all workers with them."""
        try:
            self._workers = [self._start(place, host) for place, host in enumerate(self._hosts)]
            while any(worker.process.poll() is None for worker in self._workers) or not self._done(study):
                self._replace_dead()
                self._tell(study, metric, progress)
                time.sleep(EVERY)
            self._tell(study, metric, progress)
        finally:
            for worker in self._workers:
                worker.process.kill()
                worker.process.wait()
                if worker.process.stdin is not None:
                    worker.process.stdin.close()

    def _done(self, study: Any) -> bool:
        return len(ended_trials(study)) >= self._job.trials

    def _start(self, place: int, host: str) -> _Worker:
        log = self._job.folder / f"worker-{place}.log"
        with log.open("w") as output:
            process = _process(host, output)
        assert process.stdin is not None
        given = {"job": self._job.to_dict(), "environment": self._environment}
        process.stdin.write(json.dumps(given) + "\n")
        process.stdin.flush()
        return _Worker(host, process, log)

    def _replace_dead(self) -> None:
        """Start a worker anew that was killed; the study gives its trial to whoever comes next."""
        for place, worker in enumerate(self._workers):
            if worker.process.poll() in (None, 0):
                continue
            failure = _failure(worker.log)
            if failure is not None or worker.deaths >= DEATHS:
                raise failure or _died(worker)
            if worker.process.stdin is not None:
                worker.process.stdin.close()
            self._workers[place] = replace(self._start(place, worker.host), deaths=worker.deaths + 1)

    def _tell(self, study: Any, metric: str, progress: OnProgress) -> None:
        trials = ended_trials(study)
        for trial in trials[self._ended :]:
            for worker in self._workers:
                worker.deaths = 0
            progress(Progress("tuning", len(trials), self._job.trials, "trials", trial.line(metric)))
        if not trials:
            progress(Progress("tuning", 0, self._job.trials, "trials"))
        self._ended = len(trials)


def _process(host: str, output: IO[str]) -> subprocess.Popen[str]:
    from dbinfer.train.hosts import SSH, is_here

    command = [sys.executable, "-m", MODULE]
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "PYTHONUNBUFFERED": "1"}
    if host and not is_here(host):
        words = [
            "env",
            f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}",
            "KERAS_BACKEND=tensorflow",
            *command,
        ]
        command = [*SSH, host, f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(words)}"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True, env=environment
    )


def _failure(log: Path) -> DbinferError | None:
    """Return the error that a worker has sent before it ended."""
    from dbinfer.train import processes

    for line in log.read_text(errors="replace").splitlines():
        event = processes.find(line)
        if event is not None and event["event"] == "error":
            return processes.to_error(event)
    return None


def _died(worker: _Worker) -> TrainError:
    lines = worker.log.read_text(errors="replace").splitlines()
    told = "".join(f"\n  {line}" for line in [line for line in lines if line.strip()][-5:])
    return TrainError(
        f"a worker on {worker.host or 'this host'} died again and again.{told}", f"See {worker.log}."
    )


def tune(
    network: str,
    data: str,
    search: Sequence[str],
    options: TuneOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> TuneReport:
    """Search for the options that train the best model.

    Args:
        network, data: as for `dbinfer.train`.
        search: the options to search and their values: ["lr=1e-4..1e-1:log", "batch=32,64"].
        options: how many trials, workers, ...
        dsn: the database that keeps the trials (view dbinfer.trials), and that a query reads.
        progress: is told of each trial that has ended.

    Raises:
        UsageError, DataError, TrainError: one sentence each.
    """
    options = options or TuneOptions()
    read_search(search, network)
    job = TuneJob.of(network, data, search, options, resolve(dsn))
    _check_installed()
    from dbinfer.train.data import held_for_ranks
    from dbinfer.train.plan import check_enough, make_plan
    from dbinfer.tune.study import Journal, begin

    hosts = _hosts(options)
    plan = make_plan(job.train)
    plan.close()
    if job.shards and plan.network.finds_boxes:
        raise UsageError(
            f"with --hop each shard is judged by itself, but the precision of {network} is no mean over shards",
            "Leave out --hop.",
        )
    if plan.val is None:
        raise DataError("there is no validation image, but a search compares its trials by their validation")
    check_enough(len(plan.train.rows), job.shards, "workers")
    metric = f"val_{plan.network.metrics[0]}"
    job.folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(job.train.dsn, job.study)
    try:
        study = begin(journal, job, options.resume)
        with held_for_ranks(replace(job.train, hosts=options.hosts)) as shared:
            environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "DBINFER_DSN": job.train.dsn, **shared}
            Crew(job, hosts, environment).work(study, metric, progress)
        _clear(job)
        return make_report(study, job, metric)
    finally:
        journal.close()


def _clear(job: TuneJob) -> None:
    """Remove the weights on the way that workers left behind when they died; all trials have ended."""
    for pattern in ("trial-*/checkpoint-*", f"trial-*/{WAITING}"):
        for path in job.folder.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


def _check_installed() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError as err:
        raise TrainError("a search needs Optuna, which is not installed", install("tune")) from err


def _hosts(options: TuneOptions) -> list[str]:
    """Return the host of each worker; an empty name is this one."""
    from dbinfer.train.hosts import check_reachable, slots_of

    if not options.hosts:
        return [""] * options.workers
    slots = slots_of(options.hosts, options.workers, "workers")
    check_reachable(slots)
    return [host for host, count in slots.items() for _ in range(count)]
