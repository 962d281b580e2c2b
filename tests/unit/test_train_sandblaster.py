"""L-BFGS over pieces of the data equals L-BFGS over all data in one process, and a slow worker gets fewer pieces."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float32 import tolerance
from train_runs import digits_folder
from variants import at_length, wide

from dbinfer.base.errors import TrainError
from dbinfer.train import TrainJob, run
from dbinfer.train.setup import make_setup


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    folder = tmp_path_factory.mktemp("sandblaster")
    return TrainJob(
        "digits",
        str(digits_folder(folder / "images", 60)),
        out=str(folder / "run"),
        val=str(digits_folder(folder / "val", 10)),
        network_options={"dropout": 0.0},
        epochs=1,
        batch=4,
        strategy="sandblaster",
        ranks=2,
        final="last",
    )


class Slowed:
    """Listens to a run, and stops worker 1 for nine tenths of the time."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "listening" and (event["role"], event["index"]) == ("worker", 1):
            self._pid = event["pid"]
        elif event["event"] == "start":
            threading.Thread(target=self._slow_down, daemon=True).start()
        elif event["event"] == "epoch":
            self._over.set()

    def _slow_down(self) -> None:
        while not self._over.is_set():
            os.kill(self._pid, signal.SIGSTOP)
            self._over.wait(0.18)
            os.kill(self._pid, signal.SIGCONT)
            self._over.wait(0.02)


def alone(job: TrainJob) -> list[float]:
    """Return the losses of SciPy's L-BFGS-B over all images at once, in this process."""
    import keras
    import tensorflow as tf
    from scipy.optimize import minimize

    from dbinfer.train.chief import ITERATIONS
    from dbinfer.train.model import build

    setup = make_setup(job)
    keras.utils.set_random_seed(job.seed)
    model, _ = build(setup.network, setup.options)
    loader = setup.training(0, 1).loader
    pairs = [loader.load(index) for index in range(len(loader.samples))]
    images, truths = (np.stack(part) for part in zip(*pairs, strict=True))
    losses: list[float] = []

    def evaluate(weights: Any) -> tuple[float, Any]:
        start = 0
        for variable in model.trainable_variables:
            size = int(np.prod(variable.shape))
            variable.assign(weights[start : start + size].reshape(variable.shape))
            start += size
        with tf.GradientTape() as tape:
            each = keras.losses.sparse_categorical_crossentropy(truths, model(images, training=True))
            loss = tf.reduce_mean(each)
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        losses.append(float(loss))
        return float(loss), np.concatenate([np.asarray(g, np.float64).ravel() for g in gradients])

    first = np.concatenate([np.asarray(one, np.float64).ravel() for one in model.trainable_variables])
    found = minimize(evaluate, first, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    return [losses[0], float(found.fun)]


@pytest.mark.wide
def test_it_equals_one_process_and_a_slowed_worker_gets_less_work(job: TrainJob) -> None:
    report = run(job, Slowed())
    first, last = alone(job)
    print(f"first loss {report.run['losses'][0]} and {first}, last {report.metrics['loss']} and {last}")
    # five layers, of which the longest sum has 7 * 7 * 32 terms
    assert report.run["losses"][0] == pytest.approx(first, abs=tolerance(first, 5, 7 * 7 * 32))
    # each step of the search begins where the one before has ended; the longest sums are over all pixels of 60 images
    rounding = tolerance(first, len(report.run["losses"]), 60 * 28 * 28)
    assert report.metrics["loss"] == pytest.approx(last, abs=rounding)
    assert last < first / 2
    fast, slow = report.run["done"]
    assert slow < fast / 2
    # 15 pieces an evaluation, 3 of the validation, and these again for what the network answers
    assert fast + slow == 15 * len(report.run["losses"]) + 3 + 3


@pytest.mark.parametrize(
    ("network", "layer"),
    [("digits", "Dropout"), *wide(("unet", "BatchNormalization"), ("alexnet", "Dropout"))],
)
def test_layers_that_it_cannot_train_are_named(network: str, layer: str) -> None:
    from dbinfer.train.chief import refuse
    from dbinfer_models import NETWORKS

    with pytest.raises(
        TrainError, match=f"sandblaster cannot train {network} with layers {layer}: L-BFGS needs"
    ):
        refuse(network, NETWORKS[network].build())


def test_layers_that_are_turned_off_are_no_reason() -> None:
    from dbinfer.train.chief import refuse
    from dbinfer_models import NETWORKS

    refuse("digits", NETWORKS["digits"].build(dropout=0.0))
    refuse("unet", NETWORKS["unet"].build(size=16, depth=1, base_width=2, batch_norm=False))


@at_length
def test_resuming_equals_no_interruption_and_refusals_reach_the_user(job: TrainJob, tmp_path: Path) -> None:
    whole = run(replace(job, epochs=2, out=str(tmp_path / "whole")))
    parted = replace(job, epochs=2, out=str(tmp_path / "parted"))
    run(replace(parted, epochs=1))
    resumed = run(replace(parted, resume="last"))
    rounding = tolerance(whole.run["losses"][0], 2 * len(whole.run["losses"]), 60 * 28 * 28)
    assert resumed.metrics["loss"] == pytest.approx(whole.metrics["loss"], abs=rounding)
    with pytest.raises(TrainError, match="sandblaster cannot train digits with layers Dropout"):
        run(replace(job, network_options={}, out=str(tmp_path / "dropout")))
