"""One process without a launcher: what it reaches, what it leaves, and that resuming is exact."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from float32 import tolerance
from train_runs import SMALL_UNET, difference, digits_folder, final_weights, strokes_folder

from dbinfer.base.errors import TrainError
from dbinfer.train import TrainJob, TrainReport, run
from dbinfer_udf.manifest import Manifest


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits_folder(tmp_path_factory.mktemp("alone") / "images", 60)


@pytest.fixture
def digits(images: Path, tmp_path: Path) -> TrainJob:
    return TrainJob(
        "digits", str(images), out=str(tmp_path / "run"), epochs=3, batch=8, augment=True, final="last"
    )


@dataclass(frozen=True)
class Whole:
    """A run that nothing interrupted, and what it told."""

    job: TrainJob
    result: TrainReport
    events: list[str]


@pytest.fixture(scope="module")
def whole(images: Path) -> Whole:
    """The digits trained for three epochs, with all checkpoints; the tests copy them and change nothing."""
    out = str(images.parent / "whole")
    job = TrainJob("digits", str(images), out=out, epochs=3, batch=8, augment=True, final="last", keep=9)
    events: list[str] = []
    return Whole(job, run(job, lambda event: events.append(event["event"])), events)


def after_one(whole: Whole, job: TrainJob) -> None:
    """Leave the first checkpoint in a run's folder, as if it had been interrupted then."""
    shutil.copytree(whole.job.folder / "checkpoint-1", job.folder / "checkpoint-1")


@pytest.mark.wide
def test_digits_reach_97_percent(tmp_path: Path) -> None:
    job = TrainJob("digits", "digits", out=str(tmp_path), epochs=12, lr=2e-3, schedule="cosine", augment=True)
    result = run(job)
    assert result.metrics["val_accuracy"] >= 0.97
    assert result.run["images"] == {"train": 1438, "validation": 359}


def test_a_run_leaves_model_manifest_history_and_curves(whole: Whole) -> None:
    import keras

    digits, result, events = whole.job, whole.result, whole.events
    assert events[0] == "start"
    assert events.count("epoch") == 3
    assert "step" in events
    model = keras.models.load_model(result.model)
    assert getattr(model, "optimizer", None) is None
    assert difference([*map(_array, model.weights)], final_weights(digits)) == 0
    manifest = Manifest.from_json(result.manifest.read_text())
    assert manifest.labels == tuple("0123456789")
    assert manifest.metrics == result.metrics
    assert manifest.provenance["training"]["epochs"] == 3
    assert manifest.provenance["training"]["ranks"] == 1
    assert manifest.provenance["training"]["versions"]["keras"]
    lines = list(csv.DictReader((digits.folder / "history.csv").read_text().splitlines()))
    assert [line["epoch"] for line in lines] == ["1", "2", "3"]
    assert float(lines[-1]["val_accuracy"]) == pytest.approx(result.metrics["val_accuracy"], abs=1e-4)
    assert (digits.folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((digits.folder / "run.json").read_text())["config"] == digits.to_dict()


@pytest.mark.wide
def test_the_rate_of_a_step_is_that_of_the_schedule(digits: TrainJob) -> None:
    """54 images in 7 steps an epoch; a cosine over 21 steps, also after a resume."""
    job = replace(digits, schedule="cosine", lr=0.01)
    run(replace(job, epochs=3))
    history = run(replace(job, epochs=3, resume="1")).history
    expected = [0.005 * (1 + math.cos(math.pi * step / 21)) for step in (6, 13, 20)]
    assert [entry.lr for entry in history] == pytest.approx(expected, rel=1e-6)


def test_an_interrupted_and_resumed_run_equals_an_uninterrupted_one(whole: Whole, digits: TrainJob) -> None:
    run(replace(digits, epochs=1))
    run(replace(digits, resume="1"))
    # 3 epochs of 7 steps; the gradient of the first bias is a sum over all pixels of 8 images
    trained = final_weights(whole.job)
    assert difference(final_weights(digits), trained) <= tolerance(trained, 3 * 7, 8 * 28 * 28)


@pytest.mark.wide
def test_the_model_is_of_the_best_epoch(tmp_path: Path) -> None:
    data = strokes_folder(tmp_path / "images", range(12))
    job = TrainJob(
        "unet",
        str(data),
        out=str(tmp_path / "run"),
        network_options=SMALL_UNET,
        epochs=4,
        batch=4,
        keep=1,
        lr=0.3,
    )
    result = run(job)
    values = [entry.values["val_dice_coefficient"] for entry in result.history]
    assert result.run["epoch"] == result.best_epoch == values.index(max(values)) + 1
    assert result.metrics["val_dice_coefficient"] == pytest.approx(max(values), abs=1e-6)  # six decimals
    kept = sorted(path.name for path in job.folder.glob("checkpoint-*"))
    assert kept == sorted({f"checkpoint-{result.best_epoch}", "checkpoint-4"})


def test_checkpoints_that_do_not_fit(whole: Whole, digits: TrainJob) -> None:
    with pytest.raises(TrainError, match="there is no checkpoint in"):
        run(replace(digits, resume="last"))
    after_one(whole, digits)
    with pytest.raises(TrainError, match=r"no checkpoint of epoch 4 [^\0]*Checkpoints: 1"):
        run(replace(digits, resume="4"))
    with pytest.raises(TrainError, match="the checkpoint belongs to a run with batch 8, but this one has 4"):
        run(replace(digits, resume="1", batch=4))
    state = digits.folder / "checkpoint-1"
    (state / "weights.npz").write_bytes(b"cut off")
    with pytest.raises(TrainError, match=r"weights\.npz cannot be read"):
        run(replace(digits, resume="1"))
    values = json.loads((state / "checkpoint.json").read_text())
    values["config"]["network"] = "vgg19bn"
    (state / "checkpoint.json").write_text(json.dumps(values))
    with pytest.raises(
        TrainError, match="belongs to a run with network 'vgg19bn', but this one has 'digits'"
    ):
        run(replace(digits, resume="1"))


def _array(variable: object) -> object:
    import numpy as np

    return np.asarray(variable)
