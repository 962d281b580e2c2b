"""Which types the values of a manifest have; it comes with a foreign model, or from whoever may deploy."""

from __future__ import annotations

from math import isfinite
from numbers import Integral, Real
from typing import Any, Callable, Mapping, Optional, Tuple

_TEXTS = ("name", "task", "color", "resize", "interpolation", "precision", "activation", "decode")
_TYPES: Tuple[Tuple[type, str, Tuple[str, ...]], ...] = (
    (str, "a text", _TEXTS),
    (Integral, "a whole number", ("height", "width", "channels", "pad_value", "max_detections")),
    (Real, "a number", ("threshold", "iou_threshold")),
    (bool, "true or false", ("l2_normalize",)),
    (dict, "an object", ("metrics", "provenance")),
)


def wrong_type(values: Mapping[str, Any]) -> Optional[Tuple[str, Any, str]]:
    """Return (key, value, what it must be) of the first value that is of another type; None where all are right."""
    for kind, words, keys in _TYPES:
        for key in keys:
            value = values[key]
            # True is a whole number for Python, and `height: true` is none for us
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                return key, value, words
    for key, numbers in (
        ("mean", values["mean"]),
        ("scale", values["scale"]),
        ("threshold", (values["threshold"],)),
        ("iou_threshold", (values["iou_threshold"],)),
    ):
        # Python's json reads NaN and Infinity
        if not all(isfinite(number) for number in numbers):
            return key, values[key], "finite"
    if "" in values["outputs"] or len(set(values["outputs"])) < len(values["outputs"]):
        return "outputs", values["outputs"], "different names"
    return None


def several(values: Any, kind: Callable[[Any], Any]) -> Tuple[Any, ...]:
    """Return the values of a list as a tuple of one type; the empty one for None.

    Raises:
        TypeError, ValueError, OverflowError: it is no list, or a value is of another type.
    """
    if values is None:
        return ()
    if isinstance(values, (str, bytes, dict)):  # a text is a list of letters for Python
        raise TypeError
    return tuple(kind(value) for value in values)
