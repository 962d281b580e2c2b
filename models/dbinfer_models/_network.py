"""What the zoo knows of a network: how to build it, what feeds it (also as a file), and what it is trained with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dbinfer_udf.manifest import Manifest

MANIFEST_NAME = "manifest.json"
# Losses and metrics of our own, in a module that imports Keras
OURS = ("dice_loss", "dice_coefficient", "centre_loss")
VOID = 255  # in a mask of several classes: a pixel that counts for nothing
# Mean average precision, at an overlap (IoU) of 0.5, and as the mean of those at 0.5, 0.55 ... 0.95
OF_BOXES = ("map50", "map50_95")
# Mean and deviation of ImageNet per channel (R, G, B), in grey levels: 255 times the usual 0.485, 0.229, ...
MEAN = (123.675, 116.28, 103.53)
SCALE = (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class Network:
    """One network of the zoo.

    Attributes:
        name: its name in the zoo; also the name of the Keras model that `build` returns.
        doc: one line for lists.
        build: returns a new, untrained and uncompiled Keras model; takes the network's own keyword options.
        manifest: returns the preprocessing for the model that `build` returns for the same options.
        loss: name of the training loss: a Keras name or one of `dbinfer_models.losses`.
        metrics: names of the metrics, the one that decides what is best first.
        trained: returns, of the model that `build` returns, the one that learns: the same layers with one output.
            None where that is the model itself.
        weights: of the classes in the loss; empty where all count alike.
    """

    name: str
    doc: str
    build: Callable[..., Any]
    manifest: Callable[..., Manifest]
    loss: str
    metrics: tuple[str, ...]
    trained: Callable[[Any], Any] | None = None
    weights: tuple[float, ...] = ()

    def learner(self, model: Any) -> Any:
        """Return the model that is trained; it shares its variables with `model`, which is saved."""
        return self.trained(model) if self.trained else model

    @property
    def finds_boxes(self) -> bool:
        """Whether its metrics are those of detections, which Keras does not have."""
        return self.metrics == OF_BOXES

    def make_loss(self) -> Any:
        """Return the loss for `model.compile` (imports Keras)."""
        loss = _resolve(self.loss)
        if not self.weights:
            return loss
        from dbinfer_models.losses import weighted

        return weighted(loss, self.weights)

    def make_metrics(self) -> list[Any]:
        """Return the metrics for `model.compile` (imports Keras where they are our own); none for boxes."""
        return [] if self.finds_boxes else [_resolve(name) for name in self.metrics]


def _resolve(name: str) -> Any:
    if name not in OURS:
        return name
    return getattr(import_module("dbinfer_models.losses"), name)


def numbered(classes: int) -> tuple[str, ...]:
    """Return the names of the classes of a mask that nobody has named; none where a pixel is set or not."""
    if not 1 <= classes <= VOID:
        raise ValueError(f"classes is {classes}, but a mask holds 1 to {VOID} classes")
    return tuple(map(str, range(classes))) if classes > 1 else ()


def imagenet_manifest(name: str, size: int) -> Manifest:
    """Return the manifest of a classifier whose images are scaled by the short side, then cut."""
    return Manifest(
        task="classification",
        name=name,
        height=size,
        width=size,
        resize="crop",
        mean=MEAN,
        scale=SCALE,
        precision="auto",
    )


def write_manifest(folder: Path, manifest: Manifest, name: str = MANIFEST_NAME) -> Path:
    """Write `manifest` into `folder` as readable JSON, whole or not at all.

    Args:
        folder: an existing folder: the one the model was saved in, or the SavedModel itself.
        manifest: what to write.
        name: `manifest.json` speaks for all models of the folder, `STEM.manifest.json` for `STEM.keras`.

    Returns:
        The path of the file.
    """
    path = Path(folder) / name
    temporary = path.with_name(f".{name}.{os.getpid()}")
    text = json.dumps(manifest.to_dict(), indent=2, sort_keys=True, ensure_ascii=False)
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)
    return path
