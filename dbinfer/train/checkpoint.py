"""Checkpoints: a folder per epoch with weights, optimizer state and configuration, written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.base.errors import TrainError
from dbinfer.train.options import TrainJob, renamed
from dbinfer.train.report import Epoch

PREFIX = "checkpoint-"
STATE, WEIGHTS, OPTIMIZER = "checkpoint.json", "weights.npz", "optimizer.npz"
# What a run must have in common with the one that it continues; epochs, hosts and launcher may differ
FIXED = (
    *("network", "network_options", "data", "batch", "optimizer", "momentum", "lr", "seed"),
    *("shuffle", "augment", "strategy", "mesh", "ranks", "sharding", "fine_tune", "version", "balance"),
    *("block", "block_momentum", "precision"),
)
# What older checkpoints do not say
BEFORE = {
    **{"momentum": 0.9, "strategy": "horovod", "mesh": "", "version": "", "balance": False},
    **{"block": 16, "precision": "f32"},
}


@dataclass(frozen=True)
class Checkpoint:
    """What is known after an epoch.

    Attributes:
        epoch: epochs that are done.
        job: of the run, as TrainJob.to_dict gives it.
        history: of all epochs so far.
        best: the epoch with the best validation so far; 0 without one.
    """

    epoch: int
    job: dict[str, Any]
    history: list[Epoch]
    best: int = 0


def write(folder: Path, model: Any, state: Checkpoint) -> Path:
    """Write folder/checkpoint-EPOCH, and replace one of this name."""
    final = folder / f"{PREFIX}{state.epoch}"
    # Under a name that `epochs` does not see until it is complete
    temporary = folder / f".{final.name}.{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    _save(temporary / WEIGHTS, model.weights)
    _save(temporary / OPTIMIZER, model.optimizer.variables)
    values = {
        "epoch": state.epoch,
        "best": state.best,
        "config": state.job,
        "history": [epoch.to_dict() for epoch in state.history],
    }
    (temporary / STATE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    # rename does not replace a folder with files in it
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
    return final


def epochs(folder: Path) -> list[int]:
    """Return the epochs that have a checkpoint, rising."""
    names = [path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*") if (path / STATE).is_file()]
    return sorted(int(name) for name in names if name.isdigit())


def choose(folder: Path, resume: str) -> int:
    """Return the epoch to continue after.

    Raises:
        TrainError: there is no such checkpoint.
    """
    there = epochs(folder)
    if not there:
        raise TrainError(f"there is no checkpoint in {folder}", "Leave out --resume to start over.")
    if resume == "last":
        return there[-1]
    if int(resume) not in there:
        raise TrainError(
            f"there is no checkpoint of epoch {resume} in {folder}",
            f"Checkpoints: {', '.join(map(str, there))}.",
        )
    return int(resume)


def read(folder: Path, epoch: int) -> Checkpoint:
    """Return what is known of a checkpoint, without its arrays.

    Raises:
        TrainError: it cannot be read.
    """
    path = folder / f"{PREFIX}{epoch}" / STATE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        history = [Epoch.from_dict(entry) for entry in values["history"]]
        return Checkpoint(int(values["epoch"]), renamed(values["config"]), history, int(values["best"]))
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise TrainError(
            f"the checkpoint {path.parent} cannot be read: {err}", "Resume from an earlier one."
        ) from err


def difference(config: dict[str, Any], job: TrainJob) -> str | None:
    """Return the option for which a run with this configuration cannot be continued as the job says, if any."""
    ours = job.to_dict()
    return next((key for key in FIXED if config.get(key, BEFORE.get(key)) != ours[key]), None)


def check_same(state: Checkpoint, job: TrainJob) -> None:
    """Raise TrainError where the checkpoint belongs to another network or to a run with other options."""
    key = difference(state.job, job)
    if key is not None:
        ours = job.to_dict()[key]
        raise TrainError(
            f"the checkpoint belongs to a run with {key} {state.job.get(key)!r}, but this one has {ours!r}",
            "Use the same options to continue, or another --out to start over.",
        )


def load(folder: Path, epoch: int, model: Any) -> None:
    """Put the weights and the optimizer's state of a checkpoint into the model.

    Raises:
        TrainError: a file is missing or damaged, or it is of another network.
    """
    path = folder / f"{PREFIX}{epoch}"
    _load(path / WEIGHTS, model.weights)
    _load(path / OPTIMIZER, model.optimizer.variables)


def load_weights(folder: Path, epoch: int, model: Any) -> None:
    """Put the weights of a checkpoint into the model."""
    _load(folder / f"{PREFIX}{epoch}" / WEIGHTS, model.weights)


def prune(folder: Path, keep: int, best: int) -> None:
    """Remove all checkpoints but the newest `keep` and the best."""
    # [:-0] would be empty, but with keep 0 all must go
    for epoch in epochs(folder)[: -keep or None]:
        if epoch != best:
            shutil.rmtree(folder / f"{PREFIX}{epoch}")


def clear(folder: Path) -> None:
    """Remove all checkpoints: a run starts over here."""
    for path in [*folder.glob(f"{PREFIX}*"), *folder.glob(f".{PREFIX}*")]:
        shutil.rmtree(path)


def _save(path: Path, variables: Any) -> None:
    # Four digits, because _load sorts the names as texts
    arrays = {f"{number:04d}": np.asarray(variable) for number, variable in enumerate(variables)}
    # A file of our own, so that fsync is possible before the folder gets its final name
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())


def _load(path: Path, variables: Any) -> None:
    try:
        with np.load(path) as arrays:
            values = [arrays[name] for name in sorted(arrays.files)]
    except (OSError, ValueError, KeyError) as err:
        raise TrainError(
            f"the checkpoint {path} cannot be read: {err}", "Resume from an earlier one."
        ) from err
    if [value.shape for value in values] != [tuple(variable.shape) for variable in variables]:
        raise TrainError(f"{path} belongs to another network: the shapes of its variables differ")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
