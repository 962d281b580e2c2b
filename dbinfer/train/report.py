"""What a run leaves in its folder: the model with its manifest, run.json, history.csv, curves.png."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from dbinfer._version import __version__
from dbinfer.errors import TrainError
from dbinfer.report import Report
from dbinfer.train.history import Epoch
from dbinfer.train.options import TrainJob
from dbinfer_models import write_manifest
from dbinfer_udf.manifest import Manifest

RUN, HISTORY, CURVES = "run.json", "history.csv", "curves.png"


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
    """

    model: Path
    manifest: Path
    history: list[Epoch]
    metrics: dict[str, float]
    best_epoch: int
    run: dict[str, Any]


def versions(job: TrainJob) -> dict[str, str]:
    """Return the versions of what takes part in training."""
    # Two packages bring the module tensorflow; whichever is there is named
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
        "network",
        "network_options",
        "data",
        "epochs",
        "batch",
        "optimizer",
        "momentum",
        "lr",
        "seed",
        "sharding",
        "strategy",
        "launcher",
    )
    training = {key: job[key] for key in keys}
    outcome = ("started", "seconds", "ranks", "hosts", "versions", "images", "epoch")
    return {"training": {**training, **{key: run[key] for key in outcome}}}


def save_model(folder: Path, model: Any, manifest: Manifest, run: dict[str, Any]) -> tuple[Path, Path]:
    """Write NETWORK.keras and manifest.json, each whole or not at all; return both paths."""
    path = folder / f"{run['config']['network']}.keras"
    # The ending stays: by it Keras chooses the format
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
    model = folder / f"{job.network}.keras"
    return TrainReport(model, folder / "manifest.json", history, run["metrics"], run["best_epoch"], run)


def metrics_of(history: Sequence[Epoch], epoch: int) -> dict[str, float]:
    """Return the values of one epoch, rounded for people."""
    entry = next(entry for entry in history if entry.epoch == epoch)
    return {name: round(value, 6) for name, value in entry.values.items()}
