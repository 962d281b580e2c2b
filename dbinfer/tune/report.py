"""What a search found: its trials, the best one's model with its provenance, and a picture."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from dbinfer.base.errors import DataError
from dbinfer.base.report import Report
from dbinfer.tune.options import TuneJob
from dbinfer_models import write_manifest
from dbinfer_udf.manifest import Manifest

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
                    trial.number,
                    state,
                    value,
                    dict(trial.params),
                    scores,
                    attributes[WORKER],
                    attributes.get(ERROR, ""),
                    Route.of(attributes, shards).orders if shards else [],
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
    epochs = sum(len(trial.scores) for trial in trials)
    full = job.train.epochs * sum(bool(trial.scores) for trial in trials)
    figure = job.folder / FIGURE
    write_figure(figure, trials, best, metric)
    return TuneReport(job.study, metric, best, model, manifest, trials, epochs, full, again, figure)


def _keep_model(job: TuneJob, best: Trial, trials: int) -> tuple[Path, Path]:
    """Copy the best trial's model beside the picture, and say in its manifest how it was found."""
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
