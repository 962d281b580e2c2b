"""OpenVINO behind one door: a compiled model with its input and output memory as numpy arrays."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from typing import Any, Dict, List

from .cache import Entry, _facts
from .errors import ModelError

PRECISION_NAMES = {"<Type: 'float32'>": "f32", "<Type: 'bfloat16'>": "bf16", "<Type: 'float16'>": "f16"}

_cores: Dict[int, Any] = {}


class Compiled:
    """A model compiled for one stream on this CPU, with one inference request.

    Attributes:
        input: uint8 array (height, width, channels): the tensor's own memory.
        output: float32 array of the first output, in its own shape; overwritten by the next `infer`.
    """

    def __init__(self, openvino: Any, entry: Entry, precision: str, threads: int) -> None:
        self.threads = threads
        self._model = _compile(openvino, entry, precision, threads)
        self._request = self._model.create_infer_request()
        self._infer = self._request.infer
        self.input = self._request.get_input_tensor(0).data[0]
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


def _compile(openvino: Any, entry: Entry, precision: str, threads: int) -> Any:
    if id(openvino) not in _cores:
        _cores[id(openvino)] = openvino.Core()
    core = _cores[id(openvino)]
    config = _config(precision, threads)
    blobs = os.path.join(entry.folder, "blobs", _blob_key(openvino, config))
    if _blobs_good(blobs):
        with contextlib.suppress(RuntimeError):
            return core.compile_model(entry.path("xml"), "CPU", dict(config, CACHE_DIR=blobs))
    try:
        return _compile_new(core, entry, config, blobs)
    except RuntimeError as err:
        raise ModelError(
            "OpenVINO cannot compile the model on this host: %s" % str(err).strip().splitlines()[-1],
            hint="dbinfer doctor compares the OpenVINO versions of all hosts.",
        ) from err


def _compile_new(core: Any, entry: Entry, config: Dict[str, Any], blobs: str) -> Any:
    """Compile with an empty blob folder of our own, then rename it into place: no other backend sees half a blob."""
    parent = os.path.dirname(blobs)
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        temporary = tempfile.mkdtemp(dir=parent, suffix=".tmp")
    except OSError:
        return core.compile_model(entry.path("xml"), "CPU", config)
    try:
        try:
            model = core.compile_model(entry.path("xml"), "CPU", dict(config, CACHE_DIR=temporary))
        except RuntimeError:
            return core.compile_model(entry.path("xml"), "CPU", config)
        with contextlib.suppress(OSError):
            _stamp_blobs(temporary)
            os.rename(temporary, blobs)
        return model
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _blob_key(openvino: Any, config: Dict[str, Any]) -> str:
    with open("/proc/cpuinfo") as cpuinfo:
        cpu = cpuinfo.read(4096)
    flags = [line for line in cpu.splitlines() if line.startswith(("model name", "flags", "Features"))][:2]
    text = json.dumps([openvino.get_version(), flags, sorted(config.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _blob_facts(folder: str) -> Dict[str, List[int]]:
    names = [name for name in os.listdir(folder) if name.endswith(".blob")]
    return {name: _facts(os.path.join(folder, name)) for name in names}


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
