"""Starts a search: checks first, then the workers; its report at the end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace

from dbinfer.dsn import resolve
from dbinfer.errors import DataError, TrainError, UsageError
from dbinfer.pins import install
from dbinfer.progress import OnProgress, silent
from dbinfer.tune.options import WAITING, TuneJob, TuneOptions
from dbinfer.tune.report import TuneReport, make_report
from dbinfer.tune.search import read_search


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
    from dbinfer.train.data.share import held_for_ranks
    from dbinfer.train.plan import check_enough, make_plan
    from dbinfer.tune.crew import Crew
    from dbinfer.tune.journal import Journal
    from dbinfer.tune.study import begin

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
