"""What a run leaves in its folder: the model with its manifest, run.json, and each epoch in history.csv and
curves.png.
"""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbinfer.base.errors import TrainError
from dbinfer.base.report import Report
from dbinfer.base.version import __version__
from dbinfer.train.options import TrainJob, own_name
from dbinfer_models import write_manifest
from dbinfer_udf.manifest import Manifest

if TYPE_CHECKING:
    from dbinfer.models.deployment import DeployReport

OnEvent = Callable[[dict[str, Any]], None]  # gets the events of a run: start, step, epoch
# Metrics of Keras of which less is better
ERRORS = ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error")
TRAIN, VALIDATION = "#1f77b4", "#d95f02"


@dataclass(frozen=True)
class Epoch:
    """One epoch, averaged over all ranks.

    Attributes:
        epoch: its number, from 1 on.
        seconds: of training, without validation; val_seconds: of validation.
        images: seen by all ranks together.
        lr: learning rate of its last step.
        values: loss and metrics, those of the validation with the prefix val_.
    """

    epoch: int
    seconds: float
    val_seconds: float
    images: int
    lr: float
    values: dict[str, float] = field(default_factory=dict)

    @property
    def images_per_second(self) -> float:
        """Images per second of training."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Epoch:
        """Make it from JSON values."""
        return cls(**values)


def best_epoch(history: Sequence[Epoch], metric: str) -> int:
    """Return the epoch with the best val_`metric` (the first of equals); 0 without a validation."""
    scored = [entry for entry in history if f"val_{metric}" in entry.values]
    choose = min if metric in ERRORS else max
    return choose(scored, key=lambda entry: entry.values[f"val_{metric}"]).epoch if scored else 0


def write_csv(path: Path, history: Sequence[Epoch]) -> None:
    """Write one line per epoch: epoch, loss and metrics, lr, seconds, images per second."""
    names = sorted({name for entry in history for name in entry.values})
    temporary = path.with_name(f".{path.name}")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", *names, "lr", "seconds", "val_seconds", "images_per_second"])
        for entry in history:
            numbers = [f"{entry.values[name]:.6g}" if name in entry.values else "" for name in names]
            times = [f"{entry.seconds:.3f}", f"{entry.val_seconds:.3f}", f"{entry.images_per_second:.1f}"]
            writer.writerow([entry.epoch, *numbers, f"{entry.lr:.6g}", *times])
    temporary.replace(path)


def line(entry: Epoch, epochs: int) -> str:
    """Return one epoch as a line for the terminal."""
    values = "  ".join(f"{name} {value:.4f}" for name, value in entry.values.items())
    return f"epoch {entry.epoch}/{epochs}  {values}  {entry.seconds:.1f} s  {entry.images_per_second:.0f} images/s"


def write_curves(path: Path, history: Sequence[Epoch], metric: str, title: str) -> None:
    """Draw loss, metric and seconds per epoch side by side, each over the epochs; needs matplotlib."""
    # Without pyplot, which looks for a display and keeps figures until the process ends
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _curve(left, history, "loss")
    _curve(middle, history, metric)
    numbers = [entry.epoch for entry in history]
    right.bar(numbers, [entry.seconds for entry in history], color=TRAIN, label="training")
    below = [entry.seconds for entry in history]
    right.bar(
        numbers, [entry.val_seconds for entry in history], bottom=below, color=VALIDATION, label="validation"
    )
    _dress(right, "seconds per epoch")
    right.set_ylim(bottom=0)
    figure.suptitle(title)
    temporary = path.with_name(f".{path.name}")
    FigureCanvasAgg(figure).print_png(temporary)
    temporary.replace(path)


def _curve(axes: Any, history: Sequence[Epoch], name: str) -> None:
    for key, label, color in ((name, "training", TRAIN), (f"val_{name}", "validation", VALIDATION)):
        points = [(entry.epoch, entry.values[key]) for entry in history if key in entry.values]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, color=color, label=label)
    _dress(axes, name.replace("_", " "))


def _dress(axes: Any, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, fontsize=10)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


ANSWERS = ("confusion", "by_label")  # of the validation images, see dbinfer.train.answers
RUN, HISTORY, CURVES = "run.json", "history.csv", "curves.png"


@dataclass(frozen=True)
class Comparison(Report):
    """How a new version does against the one that was active.

    Attributes:
        verdict: all of it in one or two sentences; also why nothing was compared.
        active: the other version, as NAME@VERSION; empty where there was none.
        measure: accuracy, f1, dice or error; empty where nothing was compared, as all below are zero then.
        images: that both have scored.
        new, old: the mean of the measure over these images.
        new_better, old_better: images on which only the one is right, or nearer to the truth than the other.
        confidence: that the difference has the sign that it shows, 1 - p of a two-sided test.
    """

    verdict: str
    active: str = ""
    measure: str = ""
    images: int = 0
    new: float = 0.0
    old: float = 0.0
    new_better: int = 0
    old_better: int = 0
    confidence: float = 0.0


@dataclass(frozen=True)
class TrainReport(Report):
    """The outcome of a run.

    Attributes:
        model: the .keras file, without optimizer state, ready for `dbinfer convert`.
        manifest: manifest.json beside it, with metrics and provenance.
        history: of all epochs, those before a resume too.
        metrics: of the epoch whose weights the model has.
        best_epoch: number of the epoch with the best validation; 0 without one.
        run: what run.json holds.
        deployed: the version in the database, of --deploy.
        comparison: of that one with the version that was active.
    """

    model: Path
    manifest: Path
    history: list[Epoch]
    metrics: dict[str, float]
    best_epoch: int
    run: dict[str, Any]
    deployed: DeployReport | None = None
    comparison: Comparison | None = None


def versions(job: TrainJob) -> dict[str, str]:
    """Return the versions of the libraries that train."""
    # Two packages provide the module tensorflow; the installed one is named
    names = ["tensorflow-cpu", "tensorflow", "keras", "numpy", "opencv-python-headless"]
    names += ["horovod"] if job.ranks > 1 and job.strategy == "horovod" else []
    names += ["jax"] if job.strategy == "split" else []
    found = {"dbinfer": __version__, "python": platform.python_version()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def provenance(run: dict[str, Any]) -> dict[str, Any]:
    """Return the part of run.json that goes with the model into the registry."""
    job = run["config"]
    keys = (
        *(
            "network",
            "network_options",
            "data",
            "val",
            "epochs",
            "batch",
            "optimizer",
            "momentum",
            "lr",
            "seed",
        ),
        *("sharding", "strategy", "launcher"),
    )
    training = {key: job[key] for key in keys}
    if job.get("balance"):
        training["balance"] = True
    if job.get("version"):
        training["network"] = job["version"]
    if job.get("described"):
        training |= {
            "optimizer": job["optimizer"] or job["described"]["optimizer"]["class_name"],
            "loss": job["described"]["loss"],
        }
    if job.get("fine_tune") is not None:
        training |= {key: job[key] for key in ("fine_tune", "head_epochs")}
    outcome = ("started", "seconds", "ranks", "hosts", "versions", "images", "epoch", *ANSWERS)
    return {"training": {**training, **{key: run[key] for key in outcome if key in run}}}


def save_model(folder: Path, model: Any, manifest: Manifest, run: dict[str, Any]) -> tuple[Path, Path]:
    """Write NETWORK.keras and manifest.json, each whole or not at all; return both paths."""
    network = run["config"]["network"]
    path = folder / f"{own_name(network) or network}.keras"
    # The ending stays, because Keras chooses the format by it
    temporary = folder / f".{os.getpid()}.{path.name}"
    model.save(temporary)
    temporary.replace(path)
    full = replace(manifest, metrics=dict(run["metrics"]), provenance=provenance(run))
    return path, write_manifest(folder, full)


def write_run(folder: Path, run: dict[str, Any]) -> None:
    """Write run.json."""
    temporary = folder / f".{RUN}"
    temporary.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(folder / RUN)


def read_report(job: TrainJob) -> TrainReport:
    """Return what rank 0 left in the folder of the run.

    Raises:
        TrainError: there is none.
    """
    folder = job.folder
    try:
        run = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise TrainError(
            f"the run ended, but {folder / RUN} cannot be read: {err}",
            "Rank 0 writes it. Name this machine first in --hosts, or let all hosts share the folder.",
        ) from err
    history = [Epoch.from_dict(entry) for entry in run["history"]]
    model = folder / f"{job.name}.keras"
    return TrainReport(
        model=model,
        manifest=folder / "manifest.json",
        history=history,
        metrics=run["metrics"],
        best_epoch=run["best_epoch"],
        run=run,
    )


def metrics_of(history: Sequence[Epoch], epoch: int) -> dict[str, float]:
    """Return the values of one epoch, rounded for people."""
    entry = next(entry for entry in history if entry.epoch == epoch)
    return {name: round(value, 6) for name, value in entry.values.items()}
