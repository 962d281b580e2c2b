"""A network cut into stages of consecutive layers: where that can be, where it is best, and each stage by itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import keras
import numpy as np

from dbinfer.base.errors import TrainError, UsageError

MEASURED = 3  # times that each layer is timed; the quickest counts


@dataclass(frozen=True)
class Chain:
    """The layers of a Functional model in the order in which they compute.

    Attributes:
        model: of Keras, with one input and one output.
        nodes: each call of a layer or operation; what is computed comes before what needs it.
    """

    model: Any
    nodes: Sequence[Any]

    @classmethod
    def of(cls, model: Any) -> Chain:
        """Return the chain of a model; private or not, only its nodes tell in which order it computes."""
        by_depth = model._nodes_by_depth
        ordered = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
        return cls(model, [node for node in ordered if not node.is_input])

    def crossing(self, end: int) -> list[Any]:
        """Return the tensors that are made by the first `end` nodes, or put in, and needed by those after them."""
        later = {id(tensor) for node in self.nodes[end:] for tensor in node.input_tensors}
        made = [*self.model.inputs, *(one for node in self.nodes[:end] for one in node.output_tensors)]
        return [tensor for tensor in made if id(tensor) in later]

    def places(self) -> dict[int, str]:
        """Return after how many nodes it can be cut, each with the name of the last layer before the cut.

        Not within the uses of one layer, whose weights lie in one stage; nor where other tensors than numbers of known
        shape cross.
        """
        found = {}
        for end in range(1, len(self.nodes)):
            last = self.nodes[end - 1].operation
            before = {id(node.operation) for node in self.nodes[:end]}
            used_twice = any(id(node.operation) in before for node in self.nodes[end:])
            if not used_twice and all(map(_can_be_sent, self.crossing(end))):
                found[end] = last.name
        return found

    def seconds(self, images: Any) -> list[float]:
        """Return how long each node computes forth and back on these images."""
        import tensorflow as tf

        values = {id(self.model.inputs[0]): tf.convert_to_tensor(images)}
        return [_timed(node, values) for node in self.nodes]


def _can_be_sent(tensor: Any) -> bool:
    return "float" in str(tensor.dtype) and None not in tensor.shape[1:]


def _timed(node: Any, values: dict[int, Any]) -> float:
    """Compute a node on `values`, which get its results; return the seconds of its quickest run."""
    import tensorflow as tf

    args, kwargs = node.arguments.fill_in(values)
    given = [values[id(tensor)] for tensor in node.input_tensors]
    learned = [one.value for one in getattr(node.operation, "trainable_variables", [])]
    best = float("inf")
    for _ in range(MEASURED):
        started = time.perf_counter()
        with tf.GradientTape() as tape:
            tape.watch(given)
            made = node.operation(*args, **kwargs)
        tape.gradient(made, [*given, *learned])
        best = min(best, time.perf_counter() - started)
    made = made if isinstance(made, list | tuple) else [made]
    values.update((id(tensor), value) for tensor, value in zip(node.output_tensors, made, strict=True))
    return best


def cut_at(chain: Chain, names: Sequence[str], parts: int) -> list[int]:
    """Return the cuts after the layers with these names.

    Raises:
        UsageError: there is no such layer, no cut after it, or there are too many or too few.
    """
    places = {name: end for end, name in chain.places().items()}
    told = f"It can be cut after {', '.join(places)}."
    for name in names:
        if name not in places:
            raise UsageError(f"cuts names {name!r}, but {chain.model.name} cannot be cut there", told)
    cuts = sorted(places[name] for name in names)
    if len(set(cuts)) != parts - 1:
        raise UsageError(
            f"cuts is {','.join(names)!r}, but {parts} stages are cut apart in {parts - 1} places", told
        )
    return cuts


def cut_by_time(chain: Chain, seconds: Sequence[float], parts: int) -> list[int]:
    """Return the cuts with which the slowest stage is quickest.

    Args:
        seconds: of each node.

    Raises:
        TrainError: there are fewer layers to cut after than cuts.
    """
    ends = [*chain.places(), len(chain.nodes)]
    if len(ends) < parts:
        raise TrainError(
            f"the network {chain.model.name} can be cut in {len(ends) - 1} places, but {parts} stages need {parts - 1}",
            f"Use at most {len(ends)} ranks in a group.",
        )
    until = [0.0, *accumulate(seconds)]
    # Of so many stages that end at a place: the seconds of the slowest one, and the cuts
    best: dict[int, tuple[float, list[int]]] = {end: (until[end], []) for end in ends}
    for _ in range(parts - 1):
        best = {
            end: min(
                (max(slowest, until[end] - until[cut]), [*cuts, cut])
                for cut, (slowest, cuts) in best.items()
                if cut < end
            )
            for end in ends
            if any(cut < end for cut in best)
        }
    return best[ends[-1]][1]


@dataclass(frozen=True)
class Span:
    """The layers from one cut to the next.

    Attributes:
        given, made: the tensors that enter and leave, as symbols with shape and dtype.
        layers: a Keras model of these layers, which makes those of `made` that do not enter as they are.
        names: of the first and the last layer.
    """

    given: Sequence[Any]
    made: Sequence[Any]
    layers: Any
    names: tuple[str, str]

    @classmethod
    def of(cls, chain: Chain, start: int, end: int) -> Span:
        """Return the layers of the nodes from `start` up to `end`."""
        given = chain.crossing(start) if start else list(chain.model.inputs)
        made = list(chain.model.outputs) if end == len(chain.nodes) else chain.crossing(end)
        entered = set(map(id, given))
        layers = keras.Model(given, [tensor for tensor in made if id(tensor) not in entered])
        return cls(
            given, made, layers, (chain.nodes[start].operation.name, chain.nodes[end - 1].operation.name)
        )

    @property
    def about(self) -> dict[str, Any]:
        """First and last layer, and how many weights; as JSON values."""
        first, last = self.names
        return {"first": first, "last": last, "parameters": self.layers.count_params()}

    def copied(self) -> Span:
        """Return the same with variables and symbols of its own, so that the whole network can be dropped."""
        layers = keras.models.clone_model(self.layers, clone_function=_cloned, recursive=True)
        for own, whole in zip(layers.weights, self.layers.weights, strict=True):
            own.assign(whole)
        symbols = [*self.given, *self.made]
        fresh = {id(symbol): keras.KerasTensor(symbol.shape, symbol.dtype) for symbol in symbols}
        given, made = ([fresh[id(symbol)] for symbol in some] for some in (self.given, self.made))
        return replace(self, given=given, made=made, layers=layers)

    def __call__(self, given: Sequence[Any], training: bool) -> list[Any]:
        """Return the tensors that leave."""
        own = iter(keras.tree.flatten(self.layers(list(given), training=training)))
        # What a later stage needs of an earlier one goes through all between them
        entered = {id(symbol): tensor for symbol, tensor in zip(self.given, given, strict=True)}
        return [entered[id(symbol)] if id(symbol) in entered else next(own) for symbol in self.made]


def _cloned(layer: Any) -> Any:
    # Keras makes no Lambda anew, and operations that are no layers have nothing to copy
    same = isinstance(layer, keras.layers.Lambda) or not isinstance(layer, keras.layers.Layer)
    return layer if same else layer.__class__.from_config(layer.get_config())


def example(tensor: Any, count: int) -> Any:
    """Return numbers in the shape of a symbol, for `count` images; always the same ones."""
    shape = (count, *tensor.shape[1:])
    return np.random.default_rng(0).standard_normal(shape).astype(tensor.dtype)
