"""Updates on servers are those of Keras' optimizers, and none is lost when many come at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from float32 import tolerance

from dbinfer.train import TrainJob

pytestmark = pytest.mark.wide

tf = pytest.importorskip("tensorflow")
JOB = TrainJob("digits", "digits", strategy="downpour", momentum=0.0)


def served(job: TrainJob) -> Any:
    """Return a variable of three numbers, and a function that applies a gradient to it."""
    from dbinfer.train.chief import applying, optimizer_of

    variable = tf.Variable([1.0, 2.0, 3.0])
    slots = [tf.Variable(tf.fill([3], first)) for first in optimizer_of(job).slots.values()]
    apply = applying(job)

    @tf.function
    def update(gradient: Any, step: Any) -> None:
        apply(variable, slots, gradient, tf.constant(job.lr), step)

    return variable, update


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "adagrad"])
def test_one_worker_equals_keras(optimizer: str, momentum: float) -> None:
    import keras

    from dbinfer.train.model import compile_model
    from dbinfer_models import NETWORKS

    job = replace(JOB, optimizer=optimizer, momentum=momentum, lr=0.1)
    variable, update = served(job)
    image = keras.Input((1,))
    model = keras.Model(image, keras.layers.Dense(3, use_bias=False)(image))
    compile_model(model, NETWORKS["digits"], job)
    model.set_weights([np.array([[1.0, 2.0, 3.0]], np.float32)])
    for step in range(1, 6):
        gradient = np.array([0.5, -1.0, 0.1 * step], np.float32)
        update(gradient, tf.constant(float(step)))
        model.optimizer.apply([tf.constant(gradient[None])], model.trainable_variables)
    # five updates, each of at most eight roundings
    assert variable.numpy() == pytest.approx(model.get_weights()[0][0], abs=tolerance(3.0, 5 * 8))


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_no_update_is_lost(optimizer: str) -> None:
    """1,024 updates by 8 threads; sums of powers of two are exact, and Adagrad's sum counts the updates."""
    job = replace(JOB, optimizer=optimizer, lr=1 / 1024)
    from dbinfer.train.chief import applying, optimizer_of

    variable = tf.Variable(tf.zeros([100_000]))
    slots = [tf.Variable(tf.fill([100_000], first)) for first in optimizer_of(job).slots.values()]
    apply, gradient = applying(job), tf.fill([100_000], 1.0)

    @tf.function
    def update() -> None:
        apply(variable, slots, gradient, tf.constant(job.lr), tf.constant(1.0))

    update()
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda _: update(), range(1023)):
            pass
    counted = slots[0] if slots else -1024 * variable
    assert set(np.rint(counted.numpy())) == {1024.0}


@pytest.mark.parametrize(
    ("others", "aware", "share"), [(3, True, 3), (1, True, 1), (0, True, 1), (3, False, 1)]
)
def test_a_stale_update_counts_less(others: int, aware: bool, share: int) -> None:
    """Other workers have applied so many updates since this one fetched the weights."""
    from dbinfer.train.chief import Downpour

    applied = tf.Variable([7])
    rates: list[float] = []

    def gradients(values: Any, _: Any, images: Any, __: Any) -> Any:
        applied.assign_add([others])
        return list(values), images, []

    chief: Any = object.__new__(Downpour)
    chief.setup = SimpleNamespace(job=replace(JOB, staleness_aware=aware))
    chief.pure = SimpleNamespace(gradients=gradients)
    chief.values, chief.statistics, chief._columns = [tf.Variable([1.0])], [], []
    chief._applied = applied
    chief._apply = lambda variable, slots, gradient, rate, step: rates.append(float(rate))
    _, stale = chief._update(tf.zeros([2, 1]), None, (), tf.constant(0.6), tf.constant(1.0))
    assert rates == [pytest.approx(0.6 / share)]
    assert (int(stale), int(applied[0])) == (others, 7 + others + 1)
