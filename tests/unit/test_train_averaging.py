"""`--strategy averaging`: ranks that average their weights after blocks of steps, with the momentum of blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from float32 import tolerance
from train_runs import SMALL_UNET, difference, final_weights, launched, needs_horovod, strokes_folder
from variants import at_length

from dbinfer.base.errors import UsageError
from dbinfer.train import TrainJob, run
from dbinfer.train.ranks import Alone

pytest.importorskip("tensorflow")

IMAGES, BATCH = 8, 2
TERMS = BATCH * 16 * 16  # gradients are sums over all pixels of a batch


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    """Two ranks of four images each, in two steps an epoch."""
    folder = tmp_path_factory.mktemp("averaging")
    options: dict[str, Any] = {
        "optimizer": "sgd",
        "momentum": 0.0,
        "warmup": 0,
        "val": "none",
        "shuffle": False,
    }
    return TrainJob(
        "unet",
        str(strokes_folder(folder / "images", range(IMAGES))),
        out=str(folder / "averaged"),
        network_options={**SMALL_UNET, "batch_norm": False},
        strategy="averaging",
        ranks=2,
        epochs=2,
        batch=BATCH,
        lr=0.2,
        device="cpu",
        **options,
    )


@needs_horovod
def test_after_each_step_it_is_horovod(averaged: TrainJob, tmp_path: Path) -> None:
    """The mean of the weights after a step is the step of the mean gradient; horovod doubles its rate by itself."""
    job = replace(averaged, block=1, block_momentum=0.0)
    result = run(job)
    assert (result.run["block"], result.run["block_momentum"]) == (1, 0.0)
    same = replace(job, strategy="horovod", lr=0.1, out=str(tmp_path))
    launched(same)
    trained = final_weights(same)
    assert difference(final_weights(job), trained) <= tolerance(trained, 2 * 2, TERMS)


@needs_horovod
@pytest.mark.wide
def test_a_block_is_what_each_rank_learns_alone(averaged: TrainJob, tmp_path: Path) -> None:
    """A block does not end later than its epoch; here the mean of two processes, each with half of the images."""
    job = replace(averaged, epochs=1, out=str(tmp_path / "both"))
    run(job)
    alone = []
    for part, images in enumerate((range(IMAGES // 2), range(IMAGES // 2, IMAGES))):
        data = str(strokes_folder(tmp_path / f"images{part}", images))
        one = replace(job, strategy="horovod", ranks=1, data=data, out=str(tmp_path / str(part)))
        run(one)
        alone.append(final_weights(one))
    assert difference(*alone) > 1e-4
    means = [(a + b) / 2 for a, b in zip(*alone, strict=True)]
    assert difference(final_weights(job), means) <= tolerance(means, 3, TERMS)


@needs_horovod
@at_length
def test_a_resume_repeats_the_run(averaged: TrainJob, tmp_path: Path) -> None:
    """With what the optimizers remember, and the change of the last block."""
    whole = replace(averaged, optimizer="adam", lr=0.01, momentum=0.9, out=str(tmp_path / "whole"))
    run(whole)
    half = replace(whole, epochs=1, out=str(tmp_path / "half"))
    run(half)
    run(replace(half, epochs=2, resume="last"))
    again = replace(half, epochs=2)
    assert difference(final_weights(again), final_weights(whole)) == 0


def test_blocks_go_on_in_the_direction_of_the_last_one() -> None:
    import keras

    from dbinfer.train.averaging import Block

    network = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    network.compile(keras.optimizers.SGD(0.1))
    network.optimizer.build(network.trainable_variables)
    (weight,) = network.trainable_variables
    job: Any = SimpleNamespace(block=2, block_momentum=0.5, ranks=2)
    block = Block(network, Alone(), job)
    block.set_params({"steps": 5})
    weight.assign([[1.0]])
    block.on_epoch_begin(0)
    found = []
    for batch in range(5):
        weight.assign_add([[1.0]])  # a step
        block.on_train_batch_end(batch)
        found.append(float(np.asarray(weight)[0, 0]))
    # 1 + 2; then 2 of the block and half of the 2 before; then 1, at the end of the epoch, and half of those 3
    assert found == [2.0, 3.0, 4.0, 6.0, 8.5]


def test_by_itself_the_momentum_follows_from_the_ranks(averaged: TrainJob) -> None:
    from dbinfer.train.averaging import block_momentum

    assert block_momentum(averaged) == 0.5
    assert block_momentum(replace(averaged, ranks=4)) == 0.75
    assert block_momentum(replace(averaged, block_momentum=0.0)) == 0
    with pytest.raises(UsageError, match=r"block_momentum is 1\.0, but must be at least 0 and below 1"):
        replace(averaged, block_momentum=1.0)
