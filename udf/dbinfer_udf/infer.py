"""Infer: a compiled model with its input and output memory as numpy arrays."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from .cache import Entry
from .compile import compile_model
from .signals import signals_blocked

PRECISION_NAMES = {"<Type: 'float32'>": "f32", "<Type: 'bfloat16'>": "bf16", "<Type: 'float16'>": "f16"}


class Compiled:
    """A model compiled for one stream on this CPU, with one inference request.

    Attributes:
        rows: images of one inference.
        inputs: uint8 array (rows, height, width, channels): the tensor's own memory; `input` is its first image.
        output: float32 array of the first output, in its own shape; overwritten by the next `infer`.

    Raises:
        ModelError: it cannot be compiled, or takes one image only where more are wanted.
    """

    def __init__(self, openvino: Any, entry: Entry, precision: str, threads: int, rows: int = 1) -> None:
        self.rows = rows
        with signals_blocked():  # OpenVINO starts its threads here, and may start more in the first inference
            self._model = compile_model(openvino, entry, precision, threads, rows)
            self._request = self._model.create_infer_request()
        self._started = False
        # bound once, because every row calls it
        self._infer = self._request.infer
        self.inputs = self._request.get_input_tensor(0).data
        self.input = self.inputs[0]
        # kept: `output` shows its memory
        self._output_tensor = self._request.get_output_tensor(0)
        self.output = self._output_tensor.data

    def result(self, number: int) -> np.ndarray:
        """Return the memory of any output, as `output` is that of the first."""
        found: np.ndarray = self._request.get_output_tensor(number).data
        return found

    def infer(self) -> None:
        """Run the network on what `input` holds."""
        if self._started:
            # no inputs to set, for they lie in the tensor; outputs shared, not copied; no texts to decode
            self._infer({}, True, False)
            return
        with signals_blocked():
            self._infer({}, True, False)
        self._started = True

    def settings(self) -> Dict[str, str]:
        """Return what OpenVINO really uses."""
        names = ("INFERENCE_NUM_THREADS", "NUM_STREAMS", "INFERENCE_PRECISION_HINT", "ENABLE_CPU_PINNING")
        values = {name: str(self._model.get_property(name)) for name in names}
        hint = values["INFERENCE_PRECISION_HINT"]
        values["INFERENCE_PRECISION_HINT"] = PRECISION_NAMES.get(hint, hint)
        return values


def same_results(one: Compiled, wide: Compiled) -> bool:
    """Return whether a network of many images gives for each what the one of one image gives; tried on noise."""
    # a fixed seed: all processes must come to the same answer
    wide.inputs[...] = np.random.default_rng(0).integers(0, 256, wide.inputs.shape, np.uint8)
    wide.infer()
    for slot in (0, wide.rows - 1):
        one.input[...] = wide.inputs[slot]
        one.infer()
        if not np.allclose(wide.output[slot], one.output[0], rtol=1e-2, atol=1e-3):
            return False
    return True
