"""What the zoo knows of a network: how to build it, what feeds it, and what it is trained with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dbinfer_udf.manifest import Manifest


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
    """

    name: str
    doc: str
    build: Callable[..., Any]
    manifest: Callable[..., Manifest]
    loss: str
    metrics: tuple[str, ...]

    def make_loss(self) -> Any:
        """Return the loss for `model.compile` (imports Keras)."""
        return _resolve(self.loss)

    def make_metrics(self) -> list[Any]:
        """Return the metrics for `model.compile` (imports Keras where they are our own)."""
        return [_resolve(name) for name in self.metrics]


def _resolve(name: str) -> Any:
    if not name.startswith("dice"):
        return name
    from dbinfer_models import losses

    return getattr(losses, name)
