"""Small data sets and runs for the tests of training."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dbinfer.base.errors import TrainError
from dbinfer.images import builtin
from dbinfer.images.builtin import write_strokes
from dbinfer.train import TrainJob
from dbinfer.train.processes import WORKER, check_built, launch

PROBE = Path(__file__).parent / "train_probe.py"
SMALL_UNET: dict[str, Any] = {"size": 16, "depth": 1, "base_width": 2}


def _left_out() -> str | None:
    try:
        check_built("mpi")
    except TrainError as err:
        return str(err)
    return None


needs_horovod = pytest.mark.skipif(_left_out() is not None, reason=str(_left_out()))


def strokes_folder(folder: Path, order: Sequence[int]) -> Path:
    """Write stroke images in this order, as Carvana's folders have them."""
    source = Path(tempfile.mkdtemp(dir=folder.parent))
    pairs = write_strokes(source, "train", max(order) + 1)
    folder.mkdir()
    for index, number in enumerate(order):
        shutil.copy(pairs[number][0], folder / f"{index:03d}.jpg")
        shutil.copy(pairs[number][1], folder / f"{index:03d}_mask.png")
    shutil.rmtree(source)
    return folder


def digits_folder(folder: Path, count: int) -> Path:
    """Write the first held-out digits by class."""
    for path, _ in builtin.write_digits(folder, "heldout")[count:]:
        path.unlink()
    return folder


def launched(job: TrainJob, mode: str = "") -> None:
    """Train with several ranks; with a mode, each rank runs train_probe.py."""
    job.folder.mkdir(parents=True, exist_ok=True)
    launch(job, worker=[str(PROBE), mode] if mode else WORKER)


def final_weights(job: TrainJob) -> list[NDArray[Any]]:
    """Return the weights of the last epoch's checkpoint."""
    with np.load(job.folder / f"checkpoint-{job.epochs}" / "weights.npz") as arrays:
        return [arrays[name] for name in sorted(arrays.files)]


def difference(first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]]) -> float:
    """Return the largest difference between two lists of arrays of the same shapes."""
    return max(float(np.abs(a - b).max()) for a, b in zip(first, second, strict=True))
