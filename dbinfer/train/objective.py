"""What a network of the user's own learns by: its loss and metrics, made to fit class numbers, masks and its scores.

`facts` are those of dbinfer.train.described: `task`, `outputs` (scores for an image or pixel), and `ending`, the
activation that the network ends with, empty for raw scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]
Loss = Callable[[Any, Any], Any]


def name_of(given: Any) -> str:
    """Return the name of a loss or metric: a text, a function, or an object of Keras."""
    if isinstance(given, str):
        return given
    return str(getattr(given, "name", None) or getattr(given, "__name__", None) or type(given).__name__)


def usual_loss(facts: Facts) -> str:
    """Return the name of the loss that follows from the output."""
    binary = facts["outputs"] == 1 or facts["ending"] == "sigmoid"
    return "binary_crossentropy" if binary else "sparse_categorical_crossentropy"


def fitted_loss(given: Any, facts: Facts) -> Loss:
    """Return a loss as a function of truths (class numbers or masks) and scores: one value for each image, or pixel.

    Losses of Keras that do not take class numbers get what they take: one column for each class.

    Args:
        given: a name of Keras, an object of Keras, or a function of the user's.
    """
    import keras

    loss = keras.losses.get(given)
    # Without its reduction: where images are spread over processes, each counts once
    function = loss.call if isinstance(loss, keras.losses.Loss) else loss
    # A name says nothing of raw scores; an object of Keras does, by from_logits
    raw = isinstance(given, str) and "crossentropy" in name_of(loss) and not facts["ending"]
    more = {"from_logits": True} if raw else {}
    kind = type(loss) if isinstance(loss, keras.losses.Loss) else loss
    numbers = "sparse" in name_of(loss).lower() or not str(kind.__module__).startswith("keras.")
    outputs = facts["outputs"]

    def fitted(truths: Any, scores: Any) -> Any:
        if facts["task"] == "classification" and outputs == 1:
            truths = keras.ops.reshape(keras.ops.cast(truths, scores.dtype), (-1, 1))
        elif facts["task"] == "classification" and not numbers:
            truths = keras.ops.one_hot(keras.ops.cast(truths, "int32"), outputs, dtype=scores.dtype)
        return function(truths, scores, **more)

    return fitted


def usual_metrics(facts: Facts) -> list[Any]:
    """Return new metrics that follow from the output: the accuracy of classes, or the overlap of masks."""
    import keras

    raw = not facts["ending"]
    if facts["task"] == "segmentation":
        return [_overlap(raw)]
    if facts["outputs"] == 1:
        return [keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0 if raw else 0.5)]
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def _overlap(raw: bool) -> Loss:
    import keras

    from dbinfer_models.losses import dice_coefficient as overlap

    def dice_coefficient(truths: Any, scores: Any) -> Any:
        return overlap(truths, keras.ops.sigmoid(scores) if raw else scores)

    return dice_coefficient


def fresh(metrics: Sequence[Any]) -> list[Any]:
    """Return metrics of the user's for another model: objects of Keras count for one."""
    import keras

    return [
        type(one).from_config(one.get_config()) if isinstance(one, keras.metrics.Metric) else one
        for one in metrics
    ]
