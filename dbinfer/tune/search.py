"""A search from start to report: checks first, then its workers here or on other hosts, then the best trial's model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, ClassVar

from dbinfer.base.apart import cores
from dbinfer.base.errors import DataError, DbinferError, TrainError, UsageError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import resolve
from dbinfer.database.pins import install
from dbinfer.tune.options import WAITING, TuneJob, TuneOptions, read_search
from dbinfer_models import write_manifest
from dbinfer_udf.manifest import Manifest

EVERY = 0.5  # seconds between looks at workers and trials
DEATHS = 3  # of one worker without an ended trial between them: more are no accident
FIGURE = "tuning.png"


@dataclass(frozen=True)
class Trial:
    """One trial that has ended.

    Attributes:
        number: from 0 on.
        state: complete, pruned or failed.
        value: the best score of its epochs; None where it failed.
        values: what was searched.
        scores: of each epoch.
        worker: its number.
        note: why it failed.
        orders: where the weights hopped: the order of the shards in each epoch.
    """

    number: int
    state: str
    value: float | None
    values: dict[str, Any]
    scores: dict[int, float] = field(default_factory=dict)
    worker: int = 0
    note: str = ""
    orders: list[list[int]] = field(default_factory=list)

    def line(self, metric: str) -> str:
        """Return the trial as a line for the terminal."""
        values = " ".join(f"{name}={_short(value)}" for name, value in self.values.items())
        scored = f"{metric} {self.value:.4f}" if self.value is not None else self.note
        return f"trial {self.number}: {scored}  {values}  ({self.state}, {len(self.scores)} epochs)"


@dataclass(frozen=True)
class TuneReport(Report):
    """The outcome of a search.

    Attributes:
        study: its name in the view dbinfer.trials.
        metric: what was maximised.
        best: the best trial.
        model: its .keras file, ready for `dbinfer convert`; manifest: beside it, with the provenance.
        trials: all that have ended, by their numbers.
        epochs: that all trials took together; full_epochs: that they would have taken without pruning.
        taken_up: trials of workers that died, each of which was trained again.
        figure: the picture.
    """

    study: str
    metric: str
    best: Trial
    model: Path
    manifest: Path
    trials: list[Trial]
    epochs: int
    full_epochs: int
    taken_up: list[int]
    figure: Path
    derived: ClassVar[tuple[str, ...]] = ("epoch_share",)

    @property
    def epoch_share(self) -> float:
        """Epochs with pruning over epochs without."""
        return self.epochs / self.full_epochs if self.full_epochs else 0.0


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
    from dbinfer.train.setup import check_enough, make_setup
    from dbinfer.tune.study import Journal, begin

    hosts = _hosts(options)
    setup = make_setup(job.train)
    setup.close()
    if job.shards and setup.network.finds_boxes:
        raise UsageError(
            f"with --hop each shard is evaluated by itself, but the precision of {network} is no mean over shards",
            "Leave out --hop.",
        )
    if setup.val is None:
        raise DataError("there is no validation image, but a search compares its trials by their validation")
    check_enough(len(setup.train.rows), job.shards, "workers")
    metric = f"val_{setup.network.metrics[0]}"
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


def _check_installed() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError as err:
        raise TrainError("a search needs Optuna, which is not installed", install("tune")) from err


def _hosts(options: TuneOptions) -> list[str]:
    """Return the host of each worker."""
    from dbinfer.train.hosts import check_reachable, slots_of

    if not options.hosts:
        return ["localhost"] * options.workers
    slots = slots_of(options.hosts, options.workers, "workers")
    check_reachable(slots)
    return [host for host, count in slots.items() for _ in range(count)]


def _clear(job: TuneJob) -> None:
    """Remove travelling weights that dead workers left behind; all trials have ended."""
    for pattern in ("trial-*/checkpoint-*", f"trial-*/{WAITING}"):
        for path in job.folder.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


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
        hosts: of each worker.
        environment: variables that they need.
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
        """Start killed workers again; the study gives their trials to whoever comes next."""
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
    from dbinfer.train.hosts import started_on

    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "PYTHONUNBUFFERED": "1"}
    command = started_on(host, [sys.executable, "-m", "dbinfer.tune.worker"], environment)
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True, env=environment
    )


def _failure(log: Path) -> DbinferError | None:
    """Return the error that a worker has sent before it ended."""
    from dbinfer.train.processes import find, to_error

    events = map(find, log.read_text(errors="replace").splitlines())
    return next((to_error(event) for event in events if event and event["event"] == "error"), None)


def _died(worker: _Worker) -> TrainError:
    from dbinfer.train.processes import last_lines

    told = last_lines(worker.log.read_text(errors="replace").splitlines(), 5)
    return TrainError(f"a worker on {worker.host} died again and again.{told}", f"See {worker.log}.")


def ended_trials(study: Any, shards: int = 0) -> list[Trial]:
    """Return the trials that count."""
    from dbinfer.tune.hop import Route
    from dbinfer.tune.study import ERROR, WORKER, has_ended

    found = []
    for trial in study.get_trials(deepcopy=False):
        if has_ended(trial):
            state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
            scores = {int(step): float(score) for step, score in trial.intermediate_values.items()}
            value = max(scores.values()) if scores and state != "failed" else None
            attributes = trial.user_attrs
            found.append(
                Trial(
                    number=trial.number,
                    state=state,
                    value=value,
                    values=dict(trial.params),
                    scores=scores,
                    worker=attributes[WORKER],
                    note=attributes.get(ERROR, ""),
                    orders=Route.of(attributes, shards).orders if shards else [],
                )
            )
    return found


def make_report(study: Any, job: TuneJob, metric: str) -> TuneReport:
    """Choose the best trial, put its model into the folder of the search, and draw the picture.

    Raises:
        DataError: no trial was trained to its end.
    """
    from dbinfer.tune.study import AGAIN

    trials = ended_trials(study, job.shards)
    complete = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    if not complete:
        notes = [trial.note for trial in trials if trial.note]
        raise DataError(f"none of the {len(trials)} trials was trained to its end", notes[0] if notes else "")
    best = max(complete, key=lambda trial: trial.value or 0.0)
    model, manifest = _keep_model(job, best, len(trials))
    again = sorted({t.user_attrs[AGAIN] for t in study.get_trials(deepcopy=False) if AGAIN in t.user_attrs})
    figure = job.folder / FIGURE
    write_figure(figure, trials, best, metric)
    return TuneReport(
        study=job.study,
        metric=metric,
        best=best,
        model=model,
        manifest=manifest,
        trials=trials,
        epochs=sum(len(trial.scores) for trial in trials),
        full_epochs=job.train.epochs * sum(bool(trial.scores) for trial in trials),
        taken_up=again,
        figure=figure,
    )


def _keep_model(job: TuneJob, best: Trial, trials: int) -> tuple[Path, Path]:
    """Copy the best trial's model beside the picture, and note in its manifest how it was found."""
    folder = job.folder / f"trial-{best.number}"
    model = job.folder / f"{job.train.network}.keras"
    try:
        shutil.copy2(folder / model.name, model)
        manifest = Manifest.from_json((folder / "manifest.json").read_text(encoding="utf-8"))
    except OSError as err:
        raise DataError(
            f"the model of the best trial cannot be read: {err}",
            "All hosts of --hosts must share the folder of --out.",
        ) from err
    tuning: dict[str, Any] = {
        "study": job.study,
        "trial": best.number,
        "trials": trials,
        "search": list(job.search),
        "values": best.values,
    }
    if best.orders:
        tuning |= {"shards": job.shards, "orders": best.orders}
    provenance = {**manifest.provenance, "tuning": tuning}
    return model, write_manifest(job.folder, replace(manifest, provenance=provenance))


def write_figure(path: Path, trials: Sequence[Trial], best: Trial, metric: str) -> None:
    """Draw each trial's scores over its epochs, and its value over each option that was searched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(best.values)
    figure = Figure(figsize=(4 * (1 + len(names)), 3.8), layout="constrained")
    axes = figure.subplots(1, 1 + len(names), squeeze=False)[0]
    for trial in trials:
        color = "#d95f02" if trial is best else "#1f77b4" if trial.state == "complete" else "#bbbbbb"
        axes[0].plot(list(trial.scores), list(trial.scores.values()), marker="o", markersize=3, color=color)
    axes[0].set(title="each trial; grey: pruned", xlabel="epoch", ylabel=metric.replace("_", " "))
    for axis, name in zip(axes[1:], names, strict=True):
        scored = [trial for trial in trials if trial.value is not None and name in trial.values]
        axis.scatter(
            [_position(trial.values[name]) for trial in scored], [trial.value for trial in scored], s=14
        )
        axis.scatter([_position(best.values[name])], [best.value], s=40, color="#d95f02")
        positive = all(isinstance(trial.values[name], float) and trial.values[name] > 0 for trial in scored)
        axis.set(title=name, xscale="log" if positive else "linear")
    for axis in axes:
        axis.grid(alpha=0.3)
    FigureCanvasAgg(figure).print_png(path)


def _position(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
