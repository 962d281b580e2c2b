"""Keras sources: `.keras` of Keras 3, and `.h5` of Keras 2 or 3."""

from __future__ import annotations

import inspect
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import quiet
from dbinfer.convert.known import known_keras
from dbinfer.convert.source import (
    Search,
    Source,
    arrays,
    differs,
    require_tensorflow,
    telling_line,
    to_graph,
    unreadable,
)
from dbinfer.models.graph import dimensions
from dbinfer.models.ir import import_openvino

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Keras 2 wrote `groups` for these layers; Keras 3 refuses the key
NO_GROUPS = ("Conv2DTranspose", "DepthwiseConv2D", "SeparableConv2D")
# The class of a layer or model in Keras' message
CUSTOM_CLASS = re.compile(r"(?:Could not locate class|Unknown layer:) '([^']+)'")
# The activation that turns raw results into scores, by the name of the loss
LOSSES = {"binary": "sigmoid", "categorical": "softmax"}
# The task by the number of dimensions of the result
TASKS = {2: "classification", 4: "segmentation"}
# Length of an open side where a layer is tried out
SIDE = 8


def read_keras(path: Path) -> Source:
    """Read a `.keras` file (needs TensorFlow)."""
    if not zipfile.is_zipfile(path):
        raise ConvertError(
            f"{path} is not a .keras file (a zip archive), or the file is truncated", "Save the model again."
        )
    return _read(path, "a Keras 3 model")


def read_h5(path: Path) -> Source:
    """Read a whole-model `.h5` file, of Keras 2 too (needs TensorFlow)."""
    with path.open("rb") as file:
        if file.read(len(HDF5_MAGIC)) != HDF5_MAGIC:
            raise ConvertError(f"{path} is not an HDF5 file", "Save the model again.")
    return _read(path, "a Keras .h5 model")


def _read(path: Path, what: str) -> Source:
    # Keras reads it once, when it is imported
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    tf = require_tensorflow(what)
    read = _source(path, what, tf, load_keras(path, what))
    loss, values = _loss(path, read.graph)
    return replace(read, values=values, told=f"its loss, {loss}" if values else "")


def _loss(path: Path, graph: Any) -> tuple[str, dict[str, str]]:
    """Return the loss that a network was trained with, and what follows for its result."""
    try:
        loss = _trained_with(path)["loss"]
    # A network without training is no error
    except (KeyError, TypeError, ValueError, OSError):
        return "", {}
    said = loss if isinstance(loss, dict) else {"class_name": loss}
    name = str(said.get("class_name"))
    activation = next((found for kind, found in LOSSES.items() if kind in name.replace("_", "").lower()), "")
    task = TASKS.get(len(dimensions(graph.output(0))), "")
    if not activation or not task or len(graph.outputs) != 1:
        return name, {}
    raw = isinstance(said.get("config"), dict) and said["config"].get("from_logits")
    return name, {"task": task, "activation": activation if raw else "none"}


def _trained_with(path: Path) -> Any:
    """Return what compile() was told before the network was saved."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("config.json"))["compile_config"]
    import h5py

    with h5py.File(path) as file:
        return json.loads(file.attrs["training_config"])


def _source(path: Path, what: str, tf: Any, model: Any) -> Source:
    import keras

    def run(x: Any) -> list[Any]:
        with quiet():
            return arrays(model(tf.constant(x), training=False))

    traced = _traced(path, tf, model)
    return Source(
        _graph(path, what, model, traced),
        model.name,
        f"Keras {keras.__version__}",
        run,
        first_difference=partial(_first_difference, tf, model),
        known=known_keras(model),
        part=partial(_part, path, what, tf, model),
        left_out=_left_out(model),
        as_read=partial(_as_read, traced),
    )


def _part(path: Path, what: str, tf: Any, model: Any, names: tuple[str, ...]) -> Source | None:
    """Return the model that ends at layers."""
    import keras

    layers = {layer.name: layer.output for layer in model.layers}
    if not layers.keys() >= set(names):
        return None
    ends = [layers[name] for name in names]
    cut = keras.Model(model.inputs, ends if len(ends) > 1 else ends[0], name=model.name)
    inner = names[0] not in _output_names(model)
    return replace(_source(path, what, tf, cut), known=known_keras(model), inner=inner)


def load_keras(path: Path, what: str, compiled: bool = False) -> Any:
    """Return the Keras model of a file; code that a file brings along (a Lambda) is not run.

    Args:
        path: of the file; what: how messages call it.
        compiled: with its loss and optimizer, of which custom ones cannot be loaded.

    Raises:
        ConvertError: it cannot be loaded, or only its own program can.
    """
    import keras

    try:
        with quiet():
            return keras.models.load_model(path, compile=compiled, custom_objects=_keras2_layers())
    except Exception as err:
        text = str(err)
        if "No model config found" in text:
            raise ConvertError(
                f"{path} contains weights, but not the network",
                "Build the network, load_weights(), and save the whole model: model.save('model.keras').",
            ) from err
        if "Could not locate" in text or "Unknown layer" in text or "Lambda" in text or "unsafe" in text:
            named = CUSTOM_CLASS.search(text)
            raise ConvertError(
                f"{path} uses the class {named[1]}, which only its own program knows"
                if named
                else f"{path} uses a custom layer that only its own program knows: {telling_line(err)}",
                "Where it was trained, run model.export('folder'); then convert that folder.",
            ) from err
        raise unreadable(path, what, err) from err


def _keras2_layers() -> dict[str, Any]:
    """Return the layers whose Keras 2 configuration Keras 3 refuses, made to accept it."""
    from keras import layers

    shims: dict[str, Any] = {name: _without_groups(getattr(layers, name)) for name in NO_GROUPS}
    shims["BatchNormalization"] = _with_axis_list(layers.BatchNormalization)
    return shims


def _without_groups(layer: Any) -> Any:
    def from_config(cls: Any, config: dict[str, Any]) -> Any:
        if config.get("groups", 1) != 1:
            raise ValueError(f"{layer.__name__} with groups {config['groups']} is not supported by Keras 3")
        return cls(**{key: value for key, value in config.items() if key != "groups"})

    return type(layer.__name__, (layer,), {"from_config": classmethod(from_config)})


def _with_axis_list(layer: Any) -> Any:
    def from_config(cls: Any, config: dict[str, Any]) -> Any:
        # Keras 2 wrote a list, Keras 3 wants a number
        axis = config.get("axis", -1)
        return cls(**{**config, "axis": axis[0] if isinstance(axis, list) else axis})

    return type(layer.__name__, (layer,), {"from_config": classmethod(from_config)})


def _traced(path: Path, tf: Any, model: Any) -> Any:
    """Return the function of TensorFlow that Keras computes with training=False, and nothing else.

    Left to itself, Keras traces layers that augment images as in training.
    """
    if not getattr(model, "inputs", None):
        raise ConvertError(
            f"{path} was saved before the network had seen an image, so it has no weights",
            "Save it after the training, or begin the network with keras.Input(shape).",
        )
    if len(model.inputs) > 1:
        names = ", ".join(tensor.name for tensor in model.inputs)
        raise ConvertError(
            f"{path} has {len(model.inputs)} inputs ({names}); only models of one image are supported"
        )
    (image,) = model.inputs
    spec = tf.TensorSpec(image.shape, image.dtype, name=image.name)
    try:
        with quiet():
            # identity: an output that another layer reads would not be an output for OpenVINO
            traced = tf.compat.v1.wrap_function(
                lambda x: tf.nest.map_structure(tf.identity, model(x, training=False)), [spec]
            )
            # Augmentations leave unused operations behind, which OpenVINO would take for outputs
            return traced.prune(traced.inputs[0], traced.structured_outputs)
    except Exception as err:
        raise ConvertError(
            f"Keras cannot run {path}: {telling_line(err)}",
            "Try model(image, training=False) where it was trained.",
        ) from err


def _graph(path: Path, what: str, model: Any, traced: Any) -> Any:
    layers = [layer.name for layer in _layers(model)]
    return _named(to_graph(path, what, traced.graph, layers), model, traced)


def _as_read(traced: Any) -> Any:
    """Return the OpenVINO model of a traced function before it is optimised."""
    from openvino.frontend import FrontEndManager
    from openvino.frontend.tensorflow.graph_iterator import GraphIteratorTFGraph

    reader = FrontEndManager().load_by_framework("tf")
    operations = GraphIteratorTFGraph(traced.graph, True)  # has to live as long as it is read
    return reader.convert(reader.load(operations))


def _named(graph: Any, model: Any, traced: Any) -> Any:
    """Return the graph with Keras' outputs in Keras' order, named after their layers, and the input's name.

    Tracing counts its names over the whole process.
    """
    names = _output_names(model)
    results = [graph.output(tensor.name).get_node() for tensor in traced.outputs]
    for result, name in zip(results, names, strict=True):
        result.set_friendly_name(name)
        result.output(0).set_names({name})
    graph.input(0).set_names({model.inputs[0].name})
    return import_openvino().Model(results, graph.get_parameters(), graph.get_friendly_name())


def _output_names(model: Any) -> list[str]:
    # a Sequential model has none
    return getattr(model, "output_names", None) or [model.layers[-1].name]


def _layers(model: Any) -> Iterator[Any]:
    """Yield layers and operations of a model, including those of models inside it."""
    for step in getattr(model, "operations", None) or model.layers:
        yield step
        if hasattr(step, "layers"):
            yield from _layers(step)


def _left_out(model: Any) -> tuple[str, ...]:
    """Return the kinds of the layers that work in training alone."""
    return tuple(sorted({type(layer).__name__ for layer in _layers(model) if _in_training_alone(layer)}))


def _in_training_alone(layer: Any) -> bool:
    """Return whether a layer that can tell training from inference leaves an image as it is at inference."""
    call = getattr(layer, "call", None)
    if hasattr(layer, "layers") or not call or "training" not in inspect.signature(call).parameters:
        return False
    given: Any = getattr(layer, "input", None)
    if getattr(layer, "weights", None) or not hasattr(given, "shape"):
        return False
    sides = [side or SIDE for side in given.shape[1:]]
    # dark, so that a layer that stretches contrast changes it
    image = np.random.default_rng(0).integers(0, 64, (2, *sides)).astype(np.float32)
    with quiet():
        return np.array_equal(np.asarray(layer(image, training=False)), image)


def _first_difference(tf: Any, model: Any, search: Search) -> str:
    """Return the first layer whose IR computes something else, and by how much; "" where none does.

    Keras' names do not survive in the IR, so models that end at a layer are converted, by bisection.
    """
    import keras

    layers = [layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]
    found, first, last = "", 0, len(layers) - 1
    # What differs at a layer almost always differs at later ones, too
    while first <= last:
        middle = (first + last) // 2
        difference = _difference(tf, model, layers[middle], search)
        if difference:
            found, last = difference, middle - 1
        else:
            first = middle + 1
    return found


def _difference(tf: Any, model: Any, layer: Any, search: Search) -> str:
    import keras

    part = keras.Model(model.inputs, layer.output)
    expected = np.asarray(part(search.image, training=False))
    with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
        ir = Path(folder, "part.xml")
        openvino = import_openvino()
        graph = _graph(ir, "a Keras model", part, _traced(ir, tf, part))
        openvino.save_model(graph, str(ir), compress_to_fp16=search.fp16)
        compiled = openvino.compile_model(str(ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        actual = np.asarray(compiled(search.image)[0])
    gap, largest = float(np.abs(actual - expected).max()), float(np.abs(expected).max())
    if not differs(gap, largest, search.tolerance):
        return ""
    return f"{layer.name} ({type(layer).__name__}): {gap:.3g} (of {largest:.3g})"
