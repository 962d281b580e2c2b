"""What the zoo knows of a network: how to build it, what feeds it, and what it is trained with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dbinfer_udf.manifest import Manifest

# Losses and metrics of our own, and their modules, which import Keras
OURS = {"dice_loss": "losses", "dice_coefficient": "losses", "centre_loss": "centre_loss"}
# Mean average precision, at an overlap (IoU) of 0.5, and as the mean of those at 0.5, 0.55 ... 0.95
OF_BOXES = ("map50", "map50_95")


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
    """

    name: str
    doc: str
    build: Callable[..., Any]
    manifest: Callable[..., Manifest]
    loss: str
    metrics: tuple[str, ...]
    trained: Callable[[Any], Any] | None = None

    def learner(self, model: Any) -> Any:
        """Return the model that is trained; it shares its variables with `model`, which is saved."""
        return self.trained(model) if self.trained else model

    @property
    def finds_boxes(self) -> bool:
        """Whether its metrics are those of detections, which Keras does not have."""
        return self.metrics == OF_BOXES

    def make_loss(self) -> Any:
        """Return the loss for `model.compile` (imports Keras)."""
        return _resolve(self.loss)

    def make_metrics(self) -> list[Any]:
        """Return the metrics for `model.compile` (imports Keras where they are our own); none for boxes."""
        return [] if self.finds_boxes else [_resolve(name) for name in self.metrics]


def _resolve(name: str) -> Any:
    if name not in OURS:
        return name
    return getattr(import_module(f"dbinfer_models.{OURS[name]}"), name)
