"""What a network of the user's own learns by: its loss and metrics, made to fit the truths of the data and its scores.

`facts` are those of dbinfer.train.described: `task`, `outputs` (scores for an image or pixel), and `ending`, the
activation that the network ends with, empty for raw scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dbinfer.train.source import ONE_LABEL
from dbinfer_models import VOID

Facts = Mapping[str, Any]
Loss = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Kind:
    """What the truth of an image is, and what follows for a network.

    Attributes:
        task: of the manifest.
        head: activation of a new head; "" where the outputs are the numbers themselves.
        endings: the activations that a network may end with.
        loss: the usual one.
        truth: what images have, in words.
    """

    task: str
    head: str
    endings: tuple[str, ...]
    loss: str
    truth: str


# By the task of the data, see dbinfer.train.source.Source
KINDS = {
    "classification": Kind(
        "classification",
        "softmax",
        ("softmax", "sigmoid", ""),
        "sparse_categorical_crossentropy",
        "one label each",
    ),
    "ordinal": Kind(
        "classification",
        "softmax",
        ("softmax", ""),
        "sparse_categorical_crossentropy",
        "one step of a scale each",
    ),
    "multilabel": Kind(
        "classification", "sigmoid", ("sigmoid", ""), "binary_crossentropy", "any number of labels each"
    ),
    "regression": Kind("tensor", "", ("sigmoid", ""), "mean_squared_error", "a number each"),
    "segmentation": Kind(
        "segmentation",
        "sigmoid",
        ("softmax", "sigmoid", ""),
        "sparse_categorical_crossentropy",
        "a mask each",
    ),
}


def name_of(given: Any) -> str:
    """Return the name of a loss or metric: a text, a function, or an object of Keras."""
    if isinstance(given, str):
        return given
    return str(getattr(given, "name", None) or getattr(given, "__name__", None) or type(given).__name__)


def usual_loss(facts: Facts) -> str:
    """Return the name of the loss that follows from the output."""
    one_score = facts["outputs"] == 1 or facts["ending"] == "sigmoid"
    if facts["task"] in ("classification", "segmentation") and one_score:
        return "binary_crossentropy"
    return KINDS[facts["task"]].loss


def fitted_loss(given: Any, facts: Facts, weights: Sequence[float] = ()) -> Loss:
    """Return a loss as a function of truths and scores: one value for each image, or pixel.

    Losses of Keras that do not take class numbers get what they take: one column for each class. In masks of several
    classes they do not get to see the pixels that count for nothing (VOID); a function of the user's does.

    Args:
        given: a name of Keras, an object of Keras, or a function of the user's.
        weights: of the labels; where images have several, of those that an image has.
    """
    import keras

    loss = keras.losses.get(given)
    # Without its reduction: where images are spread over processes, each counts once
    function = loss.call if isinstance(loss, keras.losses.Loss) else loss
    # A name says nothing of raw scores; an object of Keras does, by from_logits
    raw = isinstance(given, str) and "crossentropy" in name_of(loss) and not facts["ending"]
    if raw:
        function = partial(function, from_logits=True)
    kind = type(loss) if isinstance(loss, keras.losses.Loss) else loss
    keras_own = str(kind.__module__).startswith("keras.")
    numbers = "sparse" in name_of(loss).lower() or not keras_own
    outputs = facts["outputs"]
    if weights and facts["task"] == "multilabel":
        return _weighted_labels(weights, not facts["ending"])

    def fitted(truths: Any, scores: Any) -> Any:
        if facts["task"] in ONE_LABEL and outputs == 1:
            truths = keras.ops.reshape(keras.ops.cast(truths, scores.dtype), (-1, 1))
        elif facts["task"] in ONE_LABEL and not numbers:
            truths = keras.ops.one_hot(keras.ops.cast(truths, "int32"), outputs, dtype=scores.dtype)
        return function(truths, scores)

    if facts["task"] == "segmentation" and outputs > 1 and keras_own:
        return _of_known_pixels(function, numbers)
    if not weights:
        return fitted
    from dbinfer_models.losses import weighted

    return weighted(fitted, weights)


def _of_known_pixels(function: Loss, numbers: bool) -> Loss:
    """Return a loss of masks of several classes in which the pixels that count for nothing have none.

    Args:
        numbers: whether `function` takes class numbers; else it gets one column for each class.
    """
    import keras

    def fitted(truths: Any, scores: Any) -> Any:
        truths = keras.ops.squeeze(keras.ops.cast(truths, "int32"), -1)
        known = truths != VOID
        truths = keras.ops.where(known, truths, 0)
        if not numbers:
            truths = keras.ops.one_hot(truths, scores.shape[-1], dtype=scores.dtype)
            # For losses that sum over an image: nothing is to be found there
            truths = truths * keras.ops.cast(known, scores.dtype)[..., None]
        each = function(truths, scores)
        return keras.ops.where(known, each, 0.0) if len(each.shape) == 3 else each

    return fitted


def _weighted_labels(weights: Sequence[float], raw: bool) -> Loss:
    """Return binary cross-entropy in which a label that an image has counts by its weight, one that it lacks by 1."""
    import keras

    def binary_crossentropy(truths: Any, scores: Any) -> Any:
        truths = keras.ops.cast(truths, scores.dtype)
        more = truths * (keras.ops.convert_to_tensor(list(weights), scores.dtype) - 1)
        each = keras.ops.binary_crossentropy(truths, scores, from_logits=raw)
        return keras.ops.mean(each * (1 + more), axis=-1)

    return binary_crossentropy


def usual_metrics(facts: Facts) -> list[Any]:
    """Return new metrics that follow from the output: accuracy, the overlap of masks, F1 of labels, or an error."""
    import keras

    raw = not facts["ending"]
    if facts["task"] == "segmentation":
        return [_overlap(("sigmoid" if facts["outputs"] == 1 else "softmax") if raw else "linear")]
    if facts["task"] == "multilabel":
        return [_f1(raw)]
    if facts["task"] == "regression":
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]
    if facts["task"] == "ordinal":
        return [mean_absolute_error]
    if facts["outputs"] == 1:
        return [keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0 if raw else 0.5)]
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def _overlap(activation: str) -> Loss:
    import keras

    from dbinfer_models.losses import dice_coefficient as overlap

    def dice_coefficient(truths: Any, scores: Any) -> Any:
        return overlap(truths, keras.activations.get(activation)(scores))

    return dice_coefficient


def mean_absolute_error(truths: Any, scores: Any) -> Any:
    """Return how many steps of a scale the best class of each image is off."""
    import keras

    best = keras.ops.argmax(scores, axis=-1)
    return keras.ops.abs(keras.ops.cast(best, scores.dtype) - keras.ops.cast(truths, scores.dtype))


def _f1(raw: bool) -> Loss:
    """Return F1 of the labels of each image: a mean over images is exact however they are spread over processes."""
    import keras

    def f1(truths: Any, scores: Any) -> Any:
        truths = keras.ops.cast(truths, scores.dtype)
        found = keras.ops.cast(scores > (0.0 if raw else 0.5), scores.dtype)
        both = keras.ops.sum(truths * found, axis=-1)
        all_ = keras.ops.sum(truths, axis=-1) + keras.ops.sum(found, axis=-1)
        # Nothing to find and nothing found is right
        return keras.ops.where(all_ > 0, 2 * both / keras.ops.maximum(all_, 1), 1.0)

    return f1


def fresh(metrics: Sequence[Any]) -> list[Any]:
    """Return metrics of the user's for another model: objects of Keras count for one."""
    import keras

    return [
        type(one).from_config(one.get_config()) if isinstance(one, keras.metrics.Metric) else one
        for one in metrics
    ]
