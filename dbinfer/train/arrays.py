"""The network as a function of its variables, with loss and metrics, for those who keep the variables themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from dbinfer.train.loader import Seed
from dbinfer_models import Network


class Judge:
    """Keras' own loss and metrics over all images of an epoch.

    Args:
        model: the network; only the shape of its output is used.
        network: gives loss and metrics.
    """

    def __init__(self, model: Any, network: Network) -> None:
        scores = keras.Input(model.output.shape[1:], dtype=model.output.dtype)
        self._same = keras.Model(scores, keras.layers.Identity()(scores))
        self._same.compile(loss=network.make_loss(), metrics=network.make_metrics(), jit_compile=False)
        # Not test_on_batch, which begins anew with every batch
        self._step = tf.function(self._same.test_step, reduce_retracing=True)

    def reset(self) -> None:
        """Begin anew."""
        self._same.reset_metrics()

    def add(self, scores: Any, truths: Any) -> None:
        """Judge one batch more."""
        self._step((scores, truths))

    def values(self, prefix: str = "") -> dict[str, float]:
        """Return loss and metrics, means over all images."""
        return {f"{prefix}{name}": float(value) for name, value in self._same.get_metrics_result().items()}


class Pure:
    """A Keras model whose step has no side effects.

    Attributes:
        trainable: its weights that gradients change.
        statistics: its other weights: the moving statistics of batch normalisation.

    Args:
        model: Keras model; its variables give shapes and first values, and are not touched.
        network: gives the loss.
    """

    def __init__(self, model: Any, network: Network) -> None:
        import keras

        self._model = model
        self._loss = keras.losses.get(network.make_loss())
        weights = {id(variable) for variable in model.weights}
        self._others = list(model.non_trainable_variables)
        # What is no weight is the state of a random generator, as that of dropout
        self._drawn = [id(variable) not in weights for variable in self._others]
        self.trainable = list(model.trainable_variables)
        self.statistics = [one for one, drawn in zip(self._others, self._drawn, strict=True) if not drawn]

    def states(self, seed: Seed, step: int) -> list[Any]:
        """Return the random generators' states for one step: the same whenever the step is done again."""
        random = [one for one, drawn in zip(self._others, self._drawn, strict=True) if drawn]
        return [
            seed.generator(step, number).integers(0, 2**31, one.shape).astype(one.dtype)
            for number, one in enumerate(random)
        ]

    def gradients(
        self, values: Sequence[Any], others: tuple[Sequence[Any], Sequence[Any]], images: Any, truths: Any
    ) -> Any:
        """Return gradients of the loss summed over the images, the scores, and the statistics afterwards.

        Args:
            values: of the trainable variables.
            others: values of the statistics, and states of the random generators.
            images, truths: one batch.
        """
        statistics, states = map(iter, others)
        arranged = [next(states if drawn else statistics) for drawn in self._drawn]
        with tf.GradientTape() as tape:
            tape.watch(values)
            scores, after = self._model.stateless_call(values, arranged, images, training=True)
            loss = self.loss(truths, scores)
        changed = [one for one, drawn in zip(after, self._drawn, strict=True) if not drawn]
        return tape.gradient(loss, values), scores, changed

    def scores(self, values: Sequence[Any], statistics: Sequence[Any], images: Any) -> Any:
        """Return the scores as the network is used: without dropout, with the statistics."""
        kept = iter(statistics)
        pairs = zip(self._others, self._drawn, strict=True)
        arranged = [tf.zeros(one.shape, one.dtype) if drawn else next(kept) for one, drawn in pairs]
        return self._model.stateless_call(values, arranged, images, training=False)[0]

    def loss(self, truths: Any, scores: Any) -> Any:
        """Return the sum of the images' losses."""
        each = self._loss(truths, scores)
        return tf.reduce_sum(tf.reduce_mean(tf.reshape(each, (tf.shape(each)[0], -1)), axis=1))
