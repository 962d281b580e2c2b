"""Two ranks equal one with twice the batch; without averaging they do not; a lost rank, a resume."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float32 import tolerance
from numpy.typing import NDArray
from train_runs import (
    SMALL_UNET,
    difference,
    final_weights,
    launched,
    needs_horovod,
    strokes_folder,
)
from variants import at_length

from dbinfer.base.apart import cores
from dbinfer.base.errors import DataError, TrainError
from dbinfer.train import TrainJob, checkpoint, run
from dbinfer.train.model import build, compile_model
from dbinfer.train.processes import launch
from dbinfer.train.report import read_report
from dbinfer.train.setup import make_setup

pytestmark = needs_horovod
LAUNCHERS = ("gloo", "mpi") if os.environ.get("LONG") else ("mpi",)
# One rank with batch 4 sees in each step what two ranks with batch 2 see: 0 1 and 4 5, then 2 3 and 6 7
ALONE_ORDER = (0, 1, 4, 5, 2, 3, 6, 7)
STEPS = 3 * 2  # three epochs of 8 images by 4
TERMS = 4 * 16 * 16  # gradients are sums over all pixels of a batch


@pytest.fixture(scope="module")
def unet(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    """Two ranks x 2 images, without batch normalisation."""
    folder = tmp_path_factory.mktemp("ranks")
    return TrainJob(
        network="unet",
        data=str(strokes_folder(folder / "images", range(8))),
        out=str(folder / "two"),
        network_options={**SMALL_UNET, "batch_norm": False},
        val="none",
        epochs=3,
        batch=2,
        optimizer="sgd",
        lr=0.1,
        warmup=0,
        shuffle=False,
        ranks=2,
    )


@pytest.fixture(scope="module")
def alone(unet: TrainJob) -> TrainJob:
    """One rank x 4 images, trained; the rate is what two ranks make of theirs."""
    folder = Path(unet.out).parent
    data = strokes_folder(folder / "alone_images", ALONE_ORDER)
    job = replace(unet, data=str(data), out=str(folder / "one"), ranks=1, batch=4, lr=0.2)
    run(job)
    return job


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_ranks_equal_one_with_twice_the_batch(unet: TrainJob, alone: TrainJob, launcher: str) -> None:
    job = replace(unet, launcher=launcher, out=unet.out + launcher)
    launched(job)
    trained = final_weights(alone)
    assert difference(final_weights(job), trained) <= tolerance(trained, STEPS, TERMS)


@pytest.mark.wide
@pytest.mark.skipif(cores() < 2, reason="each of two ranks is bound to a core of its own")
def test_bound_ranks_say_where(unet: TrainJob, alone: TrainJob) -> None:
    job = replace(unet, launcher="mpi", bind="core", out=unet.out + "-bound")
    said: list[str] = []
    job.folder.mkdir(parents=True)
    launch(job, lambda event: said.append(event.get("text", "")))
    where = [found for text in said if (found := re.match(r"rank (\d) bound to .*core (\d)", text))]
    assert sorted(found[1] for found in where) == ["0", "1"]
    assert len({found[2] for found in where}) == 2
    trained = final_weights(alone)
    assert difference(final_weights(job), trained) <= tolerance(trained, STEPS, TERMS)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@at_length
def test_without_averaged_gradients_they_differ(unet: TrainJob, alone: TrainJob, launcher: str) -> None:
    job = replace(unet, launcher=launcher, out=f"{unet.out}-unaveraged-{launcher}")
    launched(job, "unaveraged")
    trained = final_weights(alone)
    assert difference(final_weights(job), trained) > tolerance(trained, STEPS, TERMS)


@pytest.mark.wide
def test_a_group_of_another_size_stops_the_run(unet: TrainJob) -> None:
    with pytest.raises(TrainError, match="2 ranks were requested, but the launcher made a group of 1"):
        launched(replace(unet, launcher="mpi", out=unet.out + "-alone"), "alone")


@pytest.mark.wide
def test_an_unreadable_image_of_one_rank_is_named(unet: TrainJob, tmp_path: Path) -> None:
    images = strokes_folder(tmp_path / "images", range(4))
    (images / "003.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"image of .*003\.jpg is unreadable"):
        launched(replace(unet, data=str(images), out=str(tmp_path / "run")))


@pytest.mark.wide
def test_batch_norm_statistics_are_those_over_all_ranks(unet: TrainJob, tmp_path: Path) -> None:
    """One epoch trains the same weights either way: the statistics only matter in validation."""
    job = replace(unet, network_options=SMALL_UNET, launcher="mpi", epochs=1, batch=4)
    apart = _watched(replace(job, out=str(tmp_path / "apart"), average_batch_norm=False))
    pooled = _watched(replace(job, out=str(tmp_path / "pooled")))
    assert set(apart[0]) == set(pooled[0])
    means = [name for name in apart[0] if name.endswith("moving_mean")]
    assert len(means) == 6
    for name in means:
        spread = name.replace("moving_mean", "moving_variance")
        mean = (apart[0][name] + apart[1][name]) / 2
        square = sum(rank[spread] + rank[name] ** 2 for rank in apart) / 2
        assert np.abs(apart[0][name] - apart[1][name]).max() > 1e-5
        for rank in pooled:
            # a sum of two, halved; and six roundings of squares, sums and differences
            assert rank[name] == pytest.approx(mean, abs=tolerance(mean, 2))
            assert rank[spread] == pytest.approx(square - mean**2, abs=tolerance(square, 6))


def _watched(job: TrainJob) -> list[dict[str, NDArray[Any]]]:
    """Train with two ranks and return the weights of each by name."""
    launched(job, "watched")
    ranks = []
    for rank in range(2):
        with np.load(job.folder / f"rank-{rank}.npz") as arrays:
            ranks.append({name: arrays[name] for name in arrays.files})
    return ranks


@pytest.fixture(scope="module")
def normalised(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    """Two ranks that trained with batch normalisation, and validated on 3 and 2 images."""
    folder = tmp_path_factory.mktemp("normalised")
    job = TrainJob(
        network="unet",
        data=str(strokes_folder(folder / "images", range(12))),
        val=str(strokes_folder(folder / "val", range(12, 17))),
        out=str(folder / "whole"),
        network_options=SMALL_UNET,
        epochs=3,
        batch=2,
        lr=0.001,
        warmup=2,
        augment=True,
        ranks=2,
        final="last",
        launcher="mpi",
    )
    launched(job)
    return job


@pytest.mark.wide
def test_the_rate_grows_over_the_warm_up_epochs_and_is_never_an_epoch_late(normalised: TrainJob) -> None:
    """3 steps an epoch: the last steps of the epochs are 2, 5 and 8, and 6 steps warm up from 0.001 to 0.002."""
    rates = [entry.lr for entry in read_report(normalised).history]
    assert rates == pytest.approx([0.001 * (1 + 2 / 6), 0.001 * (1 + 5 / 6), 0.002], rel=1e-6)


@pytest.mark.wide
def test_the_reported_validation_is_that_of_the_pooled_model_over_all_images(normalised: TrainJob) -> None:
    """Not of statistics before they were pooled, of one rank's images, or of a mean that ignores how many they are."""
    from dbinfer.train.model import evaluate
    from dbinfer.train.ranks import Alone

    setup = make_setup(replace(normalised, ranks=1))
    network, _ = build(setup.network, setup.options)
    compile_model(network, setup.network, normalised)
    checkpoint.load_weights(normalised.folder, 3, network)
    expected = evaluate(network, setup.validation(0, 1), Alone())
    values = read_report(normalised).history[-1].values
    # ten layers and the sum of a loss over the pixels of five images
    rounding = tolerance(max(expected.values()), 10, 5 * 16 * 16)
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=rounding)


@pytest.mark.wide
def test_a_killed_rank_stops_the_run_and_resuming_equals_no_interruption(
    normalised: TrainJob, tmp_path: Path
) -> None:
    """Statistics of batch normalisation and the optimizer's state are broadcast after a resume, too."""
    broken = replace(normalised, out=str(tmp_path / "broken"))
    with pytest.raises(
        TrainError, match=r"rank 1 stopped with signal 9, [^\0]*Epoch 1 is kept: go on with --resume"
    ):
        launched(broken, "killed")
    result = run(replace(broken, resume="last"))
    assert [entry.epoch for entry in result.history] == [1, 2, 3]
    assert result.run["hosts"] == [result.run["hosts"][0]] * 2
    # three epochs of 12 images by 2 for each of 2 ranks
    whole = final_weights(normalised)
    assert difference(final_weights(broken), whole) <= tolerance(whole, 3 * 3, 4 * 16 * 16)
