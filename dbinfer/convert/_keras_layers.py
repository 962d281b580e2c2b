"""Finds the first layer of a Keras model whose IR gives something else.

Keras' names do not survive in the IR, so models that end at a layer are converted, by bisection.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.convert._source import Search, differs, to_graph
from dbinfer.ir import import_openvino


def first_difference(model: Any, search: Search) -> str:
    """Return the layer and by how much it differs; "" where no layer does."""
    import keras

    layers = [layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]
    found, first, last = "", 0, len(layers) - 1
    # What differs at a layer differs at those behind it, too, but for rare luck
    while first <= last:
        middle = (first + last) // 2
        difference = _difference(model, layers[middle], search)
        if difference:
            found, last = difference, middle - 1
        else:
            first = middle + 1
    return found


def _difference(model: Any, layer: Any, search: Search) -> str:
    import keras

    part = keras.Model(model.inputs, layer.output)
    expected = np.asarray(part(search.image, training=False))
    with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
        ir = Path(folder, "part.xml")
        openvino = import_openvino()
        openvino.save_model(to_graph(ir, "a Keras model", part), str(ir), compress_to_fp16=search.fp16)
        compiled = openvino.compile_model(str(ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        actual = np.asarray(compiled(search.image)[0])
    gap, largest = float(np.abs(actual - expected).max()), float(np.abs(expected).max())
    if not differs(gap, largest, search.tolerance):
        return ""
    return f"{layer.name} ({type(layer).__name__}): {gap:.3g} (of {largest:.3g})"
