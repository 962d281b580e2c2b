"""Several devices of one process equal one process: weights, and what is reported; here the devices are two CPUs."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from float32 import tolerance
from train_runs import SMALL_UNET, difference, digits_folder, final_weights, strokes_folder

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train import TrainJob, run
from dbinfer.train.report import read_report
from dbinfer_udf.manifest import Manifest

pytestmark = pytest.mark.wide

TOGETHER = ("mirrored", "central")
STEPS = 2 * 6  # two epochs of 41 images by 8
TERMS = 8 * 28 * 28  # the gradient of the first bias is a sum over all pixels of a batch


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    """One process, trained with batches of 8 on 41 images: the last batch has one image, for two devices."""
    folder = tmp_path_factory.mktemp("replicas")
    job = TrainJob(
        "digits",
        str(digits_folder(folder / "images", 41)),
        out=str(folder / "alone"),
        val=str(digits_folder(folder / "val", 7)),
        network_options={"dropout": 0.0},
        epochs=2,
        batch=8,
        optimizer="sgd",
        lr=0.05,
        warmup=0,
        device="cpu",
        final="last",
    )
    run(job)
    return job


@pytest.fixture(scope="module", params=TOGETHER)
def together(request: pytest.FixtureRequest, alone: TrainJob) -> TrainJob:
    """The same with two devices: half the batch and half the rate for each."""
    out = f"{alone.out}-{request.param}"
    job = replace(alone, strategy=request.param, out=out, ranks=2, batch=4, lr=0.025)
    run(job)
    return job


def test_two_devices_equal_one_process(alone: TrainJob, together: TrainJob) -> None:
    weights = difference(final_weights(together), final_weights(alone))
    pairs = list(zip(read_report(alone).history, read_report(together).history, strict=True))
    losses = max(
        abs(two.values[name] - one.values[name]) for one, two in pairs for name in ("loss", "val_loss")
    )
    print(f"{together.strategy}: weights {weights:.1e} and losses {losses:.1e} from those of one process")
    assert weights <= tolerance(final_weights(alone), STEPS, TERMS)
    for one, two in pairs:
        largest = max(one.values.values())
        assert two.values == pytest.approx(one.values, abs=tolerance(largest, STEPS, TERMS))
        assert (two.images, two.lr) == (one.images, pytest.approx(one.lr))


def test_they_leave_what_every_run_leaves(together: TrainJob) -> None:
    import keras

    report = read_report(together)
    assert report.run["config"]["strategy"] == together.strategy
    assert len(report.run["hosts"]) == report.run["ranks"] == 2
    model = keras.models.load_model(report.model)
    assert difference([weight.numpy() for weight in model.weights], final_weights(together)) == 0
    provenance = Manifest.from_json(report.manifest.read_text()).provenance
    assert provenance["training"]["strategy"] == together.strategy
    assert {path.name for path in together.folder.iterdir()} >= {"history.csv", "curves.png", "run.json"}


@pytest.mark.parametrize("strategy", TOGETHER if os.environ.get("LONG") else TOGETHER[:1])
def test_resuming_equals_no_interruption_with_dropout_and_batch_norm(strategy: str, tmp_path: Path) -> None:
    job = TrainJob(
        "unet",
        str(strokes_folder(tmp_path / "images", range(9))),
        out=str(tmp_path / "whole"),
        network_options=SMALL_UNET,
        val="none",
        epochs=2,
        batch=2,
        ranks=2,
        strategy=strategy,
        device="cpu",
        augment=True,
    )
    run(job)
    # As if it had been interrupted after the first epoch
    parted = replace(job, out=str(tmp_path / "parted"))
    shutil.copytree(job.folder / "checkpoint-1", parted.folder / "checkpoint-1")
    result = run(replace(parted, resume="last"))
    assert [entry.epoch for entry in result.history] == [1, 2]
    # two epochs of 9 images by 2 for each of 2 devices; sums over the pixels of a batch
    assert difference(final_weights(parted), final_weights(job)) <= tolerance(
        final_weights(job), 2 * 3, 4 * 16 * 16
    )


@pytest.mark.parametrize("strategy", TOGETHER)
def test_what_they_refuse(strategy: str, alone: TrainJob) -> None:
    job = replace(alone, strategy=strategy, ranks=2, out=alone.out + "-refused")
    with pytest.raises(UsageError, match=f"{strategy} uses the devices of this host, but hosts is 'a:1,b:1'"):
        run(replace(job, hosts="a:1,b:1"))
    with pytest.raises(UsageError, match=f"{strategy} deals every batch out .* but sharding is 'all'"):
        run(replace(job, sharding="all"))
    with pytest.raises(TrainError, match="42 ranks are more than the 41 training images"):
        run(replace(job, ranks=42))
    with pytest.raises(TrainError, match="the checkpoint belongs to a run with strategy"):
        run(replace(alone, strategy=strategy, resume="last"))
