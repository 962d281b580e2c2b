"""Loss and metrics of scores that were computed elsewhere: on other devices or hosts (imports Keras)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

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
