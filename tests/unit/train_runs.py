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

from dbinfer.errors import TrainError
from dbinfer.train import TrainConfig, datasets
from dbinfer.train.launch import WORKER, check_built, launch

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
    pairs = datasets.write_strokes(source, "train", max(order) + 1)
    folder.mkdir()
    for place, number in enumerate(order):
        shutil.copy(pairs[number][0], folder / f"{place:03d}.jpg")
        shutil.copy(pairs[number][1], folder / f"{place:03d}_mask.png")
    shutil.rmtree(source)
    return folder


def digits_folder(folder: Path, count: int) -> Path:
    """Write the first held-out digits by class."""
    for path, _ in datasets.write_digits(folder, "heldout")[count:]:
        path.unlink()
    return folder


def launched(config: TrainConfig, mode: str = "") -> None:
    """Train with several ranks; with a mode, each rank runs train_probe.py."""
    config.folder.mkdir(parents=True, exist_ok=True)
    launch(config, worker=[str(PROBE), mode] if mode else WORKER)


def final_weights(config: TrainConfig) -> list[NDArray[Any]]:
    """Return the weights of the last epoch's checkpoint."""
    with np.load(config.folder / f"checkpoint-{config.epochs}" / "weights.npz") as arrays:
        return [arrays[name] for name in sorted(arrays.files)]


def difference(first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]]) -> float:
    """Return the largest difference between two lists of arrays of the same shapes."""
    return max(float(np.abs(a - b).max()) for a, b in zip(first, second, strict=True))
