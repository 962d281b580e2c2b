"""OpenVINO behind one door: a compiled model with its input and output memory as numpy arrays."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from typing import Any, Dict, List

import numpy as np

from .cache import Entry, file_facts
from .errors import ModelError

PRECISION_NAMES = {"<Type: 'float32'>": "f32", "<Type: 'bfloat16'>": "bf16", "<Type: 'float16'>": "f16"}

_cores: Dict[int, Any] = {}


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
        self.threads = threads
        self.rows = rows
        self._model = _compile(openvino, entry, precision, threads, rows)
        self._request = self._model.create_infer_request()
        self._infer = self._request.infer
        self.inputs = self._request.get_input_tensor(0).data
        self.input = self.inputs[0]
        self._output_tensor = self._request.get_output_tensor(0)
        self.output = self._output_tensor.data

    def infer(self) -> None:
        """Run the network on what `input` holds."""
        self._infer({}, True, False)

    def settings(self) -> Dict[str, str]:
        """Return what OpenVINO really uses."""
        names = ("INFERENCE_NUM_THREADS", "NUM_STREAMS", "INFERENCE_PRECISION_HINT", "ENABLE_CPU_PINNING")
        values = {name: str(self._model.get_property(name)) for name in names}
        hint = values["INFERENCE_PRECISION_HINT"]
        values["INFERENCE_PRECISION_HINT"] = PRECISION_NAMES.get(hint, hint)
        return values


def _config(precision: str, threads: int) -> Dict[str, Any]:
    return {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
        "CACHE_MODE": "OPTIMIZE_SIZE",
    }


def same_results(one: Compiled, wide: Compiled) -> bool:
    """Return whether a network of many images gives for each what the one of one image gives; tried on noise."""
    wide.inputs[...] = np.random.default_rng(0).integers(0, 256, wide.inputs.shape, np.uint8)
    wide.infer()
    for place in (0, wide.rows - 1):
        one.input[...] = wide.inputs[place]
        one.infer()
        if not np.allclose(wide.output[place], one.output[0], rtol=1e-2, atol=1e-3):
            return False
    return True


def _compile(openvino: Any, entry: Entry, precision: str, threads: int, rows: int) -> Any:
    if id(openvino) not in _cores:
        _cores[id(openvino)] = openvino.Core()
    core = _cores[id(openvino)]
    config = _config(precision, threads)
    blobs = os.path.join(entry.folder, "blobs", _blob_key(openvino, config, rows))
    try:
        source = entry.path("xml") if rows == 1 else _reshaped(core, entry.path("xml"), rows)
        if _blobs_good(blobs):
            with contextlib.suppress(RuntimeError):
                return core.compile_model(source, "CPU", dict(config, CACHE_DIR=blobs))
        return _compile_new(core, source, config, blobs)
    except RuntimeError as err:
        raise ModelError(
            "OpenVINO cannot compile the model on this host: %s" % str(err).strip().splitlines()[-1],
            hint="dbinfer doctor compares the OpenVINO versions of all hosts.",
        ) from err


def _reshaped(core: Any, path: str, rows: int) -> Any:
    """Return the network for `rows` images at once."""
    graph = core.read_model(path)
    graph.reshape([rows, *list(graph.input(0).shape)[1:]])
    if graph.output(0).partial_shape.rank.get_length() < 2 or graph.output(0).partial_shape[0] != rows:
        raise RuntimeError("the network takes one image at a time")
    return graph


def _compile_new(core: Any, source: Any, config: Dict[str, Any], blobs: str) -> Any:
    """Compile with an empty blob folder of our own, then rename it into place: no other backend sees half a blob."""
    parent = os.path.dirname(blobs)
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        temporary = tempfile.mkdtemp(dir=parent, suffix=".tmp")
    except OSError:
        return core.compile_model(source, "CPU", config)
    try:
        try:
            model = core.compile_model(source, "CPU", dict(config, CACHE_DIR=temporary))
        except RuntimeError:
            return core.compile_model(source, "CPU", config)
        with contextlib.suppress(OSError):
            _stamp_blobs(temporary)
            os.rename(temporary, blobs)
        return model
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _blob_key(openvino: Any, config: Dict[str, Any], rows: int) -> str:
    with open("/proc/cpuinfo") as cpuinfo:
        cpu = cpuinfo.read(4096)
    flags = [line for line in cpu.splitlines() if line.startswith(("model name", "flags", "Features"))][:2]
    text = json.dumps([openvino.get_version(), flags, sorted(config.items()), rows])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _blob_facts(folder: str) -> Dict[str, List[int]]:
    names = [name for name in os.listdir(folder) if name.endswith(".blob")]
    return {name: file_facts(os.path.join(folder, name)) for name in names}


def _stamp_blobs(folder: str) -> None:
    with open(os.path.join(folder, "stamp.json"), "w") as stamp:
        json.dump(_blob_facts(folder), stamp)


def _blobs_good(folder: str) -> bool:
    """Return whether the blobs are those that were written here, untouched; others are removed and made anew."""
    try:
        with open(os.path.join(folder, "stamp.json")) as stamp:
            if json.load(stamp) == _blob_facts(folder):
                return True
    except (OSError, ValueError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return False
