"""Networks that many people use, and how their authors publish that an image becomes their input."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbinfer.ir.graph import GraphInfo

# x = (pixel - mean) / scale: these keys describe one thing together, so whoever states one states all
PIXELS = ("color", "mean", "scale")
CLASSES = 1000
# preprocess_input's three modes in Keras; "torch" is also what torchvision does
CAFFE: dict[str, Any] = {"color": "BGR", "mean": (103.939, 116.779, 123.68), "scale": (1.0,)}
TF: dict[str, Any] = {"color": "RGB", "mean": (127.5,), "scale": (127.5,)}
TORCH: dict[str, Any] = {
    "color": "RGB",
    "mean": (123.675, 116.28, 103.53),
    "scale": (58.395, 57.12, 57.375),
}
# The network itself begins with what makes pixels its input
INSIDE: dict[str, Any] = {"color": "RGB", "scale": (1.0,)}


@dataclass(frozen=True)
class Known:
    """A network that was recognised.

    Attributes:
        network: its family and where that comes from, as a person would say it.
        pixels: what its authors publish: PIXELS, and keys like resize and interpolation.
        size: of its images in pixels, for a graph that takes any; 0 where the family has several.
        head: whether it ends in classes or, without, in features; None: nobody knows what the output means.
    """

    network: str
    pixels: dict[str, Any]
    size: int = 0
    head: bool | None = True


def published(known: Known | None, info: GraphInfo, stated: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest's keys that follow from a known network, but for what was stated."""
    if known is None or info.channels == 1 or info.element == "u8":
        return {}
    values = dict(known.pixels)
    if any(key in stated for key in PIXELS):
        values = {key: value for key, value in values.items() if key not in PIXELS}
    if known.size and info.height is None and info.width is None:
        values.update(height=known.size, width=known.size)
    if info.classes and known.head is not None:
        values.update(_meaning(known, info))
    return {key: value for key, value in values.items() if key not in stated}


def _meaning(known: Known, info: GraphInfo) -> dict[str, Any]:
    """Return what the output means: classes, or features of the image."""
    if not known.head:
        return {"task": "embedding"}
    values: dict[str, Any] = {"task": "classification"}
    if not info.activation:
        values["activation"] = "sigmoid" if info.classes == 1 else "softmax"
    if info.classes == CLASSES and (labels := _imagenet_labels()):
        values["labels"] = labels
    return values


def _imagenet_labels() -> tuple[str, ...]:
    """Return the names that Keras keeps once it has decoded a prediction on this machine, else none."""
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    try:
        index = json.loads((home / "models" / "imagenet_class_index.json").read_text(encoding="utf-8"))
        return tuple(str(index[str(number)][1]) for number in range(CLASSES))
    # No labels are no fault: numbers do, too
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return ()
