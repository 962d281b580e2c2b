"""Keras sources: `.keras` of Keras 3, and `.h5` of Keras 2 or 3."""

from __future__ import annotations

import os
import tempfile
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dbinfer.convert._keras_layers import first_difference
from dbinfer.convert._known_keras import known_keras
from dbinfer.convert._source import Source, arrays, require_tensorflow, telling_line, to_graph, unreadable
from dbinfer.convert.quiet import quiet
from dbinfer.errors import ConvertError

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Keras 2 wrote `groups` for these layers; Keras 3 refuses the key
NO_GROUPS = ("Conv2DTranspose", "DepthwiseConv2D", "SeparableConv2D")


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
    model = _load(path, what)

    return _source(path, what, tf, model)


def _source(path: Path, what: str, tf: Any, model: Any) -> Source:
    import keras

    def run(x: Any) -> list[Any]:
        with quiet():
            return arrays(model(tf.constant(x), training=False))

    return Source(
        _graph(path, what, model),
        model.name,
        f"Keras {keras.__version__}",
        run,
        first_difference=partial(first_difference, model),
        known=known_keras(model),
        part=partial(_part, path, what, tf, model),
    )


def _part(path: Path, what: str, tf: Any, model: Any, name: str) -> Source | None:
    """Return the model that ends at a layer."""
    import keras

    layer = next((layer for layer in model.layers if layer.name == name), None)
    if layer is None:
        return None
    cut = keras.Model(model.inputs, layer.output, name=model.name)
    return replace(_source(path, what, tf, cut), known=known_keras(model), inner=True)


def _load(path: Path, what: str) -> Any:
    import keras

    try:
        with quiet():
            # Not compiled: losses and optimizers are of no use here, and custom ones cannot be loaded
            return keras.models.load_model(path, compile=False, custom_objects=_keras2_layers())
    except Exception as err:
        text = str(err)
        if "No model config found" in text:
            raise ConvertError(
                f"{path} contains weights, but not the network",
                "Build the network, load_weights(), and save the whole model: model.save('model.keras').",
            ) from err
        if "Could not locate" in text or "Unknown layer" in text or "Lambda" in text or "unsafe" in text:
            raise ConvertError(
                f"{path} uses a custom layer that only its own program knows: {telling_line(err)}",
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


def _graph(path: Path, what: str, model: Any) -> Any:
    # A Sequential that was never built knows no inputs; it has one
    if len(getattr(model, "inputs", None) or [0]) > 1:
        names = ", ".join(tensor.name for tensor in model.inputs)
        raise ConvertError(
            f"{path} has {len(model.inputs)} inputs ({names}); only models of one image are supported"
        )
    try:
        graph = to_graph(path, what, model)
    except ConvertError:
        graph = _graph_by_export(path, what, model)  # some Sequential models cannot be traced directly
    _name_outputs(graph, getattr(model, "output_names", []))
    return graph


def _graph_by_export(path: Path, what: str, model: Any) -> Any:
    with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
        try:
            with quiet():
                model.export(folder, verbose=False)
        except Exception as err:
            raise unreadable(path, what, err) from err
        return to_graph(Path(folder), what)


def _name_outputs(graph: Any, names: list[str]) -> None:
    """Name the outputs after their layers; tracing counts its names over the whole process."""
    if len(names) != len(graph.outputs):
        return
    for output, name in zip(graph.outputs, names, strict=True):
        output.get_node().set_friendly_name(name)
        output.set_names({name})
