"""One worker of a search: reads the data once and trains one trial after the other; started by dbinfer.tune.search."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dbinfer.base.errors import DbinferError
from dbinfer.train.processes import end_with_input, sending_errors
from dbinfer.tune.options import TuneJob

if TYPE_CHECKING:
    from dbinfer.tune.study import Worker

WAIT = 0.3  # seconds between looks at whether the last trials of others have ended


def main() -> None:
    """Read the job from standard input and work until the study has its trials; end when the input ends."""
    given = json.loads(sys.stdin.readline())
    os.environ.update(given["environment"])
    end_with_input()
    sending_errors(_work, TuneJob.from_dict(given["job"], os.environ.get("DBINFER_DSN", "")))


def _work(job: TuneJob) -> None:
    from dbinfer.train.device import import_tensorflow
    from dbinfer.train.setup import make_setup
    from dbinfer.tune.study import Journal, Worker, load, next_trial

    import_tensorflow()
    journal = Journal(job.train.dsn, job.study)
    number = journal.become_worker(job.shards)
    shard = (number - 1, job.shards) if job.shards else (0, 1)
    setup = make_setup(job.train).keeping_images(*shard)
    study = load(journal, job, number)
    worker = Worker(
        job=job,
        setup=setup,
        study=study,
        journal=journal,
        number=number,
        metric=f"val_{setup.network.metrics[0]}",
    )
    if job.shards:
        from dbinfer.tune import hop

        hop.work(worker)
        return
    while True:
        try:
            trial = next_trial(study, journal, job, number)
        except StopIteration:
            return
        if trial is None:
            time.sleep(WAIT)
        else:
            run_trial(worker, trial)


def run_trial(worker: Worker, trial: Any) -> None:
    """Train one trial and tell the study how it ended."""
    import keras
    import optuna

    from dbinfer.tune.study import ERROR

    keras.backend.clear_session()
    try:
        value = _trained(worker, trial)
    except optuna.TrialPruned:
        worker.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    except (DbinferError, ValueError, ArithmeticError) as err:
        # No network can be built or trained with these values: the search goes on without them
        trial.set_user_attr(ERROR, str(err).splitlines()[0])
        worker.study.tell(trial, state=optuna.trial.TrialState.FAIL)
    else:
        worker.study.tell(trial, value)


def _trained(worker: Worker, trial: Any) -> float:
    import optuna

    from dbinfer.train.one_rank import train_rank
    from dbinfer.train.ranks import Alone
    from dbinfer.tune.options import read_search, with_values

    job = worker.job
    values = {one.name: one.suggest(trial) for one in read_search(job.search, job.train.network)}
    out = job.folder / f"trial-{trial.number}"
    best = -math.inf

    def tell(event: dict[str, Any]) -> None:
        nonlocal best
        if event["event"] != "epoch":
            return
        score = event["values"][worker.metric]
        if not math.isfinite(score):
            raise ArithmeticError(f"{worker.metric} is {score} after epoch {event['epoch']}.")
        best = max(best, score)
        trial.report(score, event["epoch"])
        if trial.should_prune():
            raise optuna.TrialPruned

    try:
        train_rank(worker.setup.for_job(replace(with_values(job.train, values), out=str(out))), Alone(), tell)
    finally:
        for path in out.glob("checkpoint-*"):
            shutil.rmtree(path)
    return best


if __name__ == "__main__":
    main()
