"""Compiles a model with OpenVINO, or reads what was compiled before from the host cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from typing import Any, Dict, List

from .cache import Entry, file_state
from .errors import ModelError
from .housekeeping import COMPILE_SECONDS
from .processor import kind
from .unfinished import temporary_folder
from .use import keep

_cores: Dict[int, Any] = {}
HWLOC = "HWLOC_THISSYSTEM"


def _core(openvino: Any) -> Any:
    """Return OpenVINO's core with its plugin for the processor.

    Whatever ENABLE_CPU_PINNING says, the plugin has TBB set this thread's affinity before each inference, to one thread
    of each core, and back behind it: three system calls. It goes by hwloc, which sets none where its environment says
    that it looks at another machine than this one; it reads that while the plugin is loaded.
    """
    if id(openvino) not in _cores:
        before = os.environ.get(HWLOC)
        os.environ[HWLOC] = "0"
        try:
            core = openvino.Core()
            core.get_versions("CPU")
        finally:
            # what this process starts may want to know its own machine
            del os.environ[HWLOC]
            os.environ.update({HWLOC: before} if before else {})
        _cores[id(openvino)] = core
    return _cores[id(openvino)]


def compile_model(openvino: Any, entry: Entry, precision: str, threads: int, rows: int) -> Any:
    """Return OpenVINO's compiled model for `rows` images at once; ModelError where it cannot be compiled."""
    core = _core(openvino)
    config = _config(openvino.get_version(), precision, threads)
    blobs = os.path.join(entry.folder, "blobs", _blob_key(openvino, config, rows))
    try:
        source = entry.path("xml") if rows == 1 else _reshaped(core, entry.path("xml"), rows)
        if _blobs_good(blobs):
            # a blob that OpenVINO refuses is no reason to fail: compile anew
            with contextlib.suppress(RuntimeError):
                return core.compile_model(source, "CPU", dict(config, CACHE_DIR=blobs))
        return _compile_new(core, source, config, blobs)
    except RuntimeError as err:
        raise ModelError(
            "OpenVINO cannot compile the model on this host: %s" % str(err).strip().splitlines()[-1],
            hint="Compare the OpenVINO versions of all hosts: dbinfer doctor",
        ) from err


def _reshaped(core: Any, path: str, rows: int) -> Any:
    """Return the network for `rows` images at once."""
    graph = core.read_model(path)
    graph.reshape([rows, *list(graph.input(0).shape)[1:]])
    # reshape may succeed although a constant in the graph holds on to one image
    if graph.output(0).partial_shape.rank.get_length() < 2 or graph.output(0).partial_shape[0] != rows:
        raise RuntimeError("the network takes one image at a time")
    return graph


def _compile_new(core: Any, source: Any, config: Dict[str, Any], blobs: str) -> Any:
    """Compile with an empty blob folder of our own, then rename it into place: no other backend sees half a blob."""
    parent = os.path.dirname(blobs)
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        temporary = temporary_folder(parent)
    except OSError:
        # a full disk costs the blob, not the statement
        return core.compile_model(source, "CPU", config)
    # behind makedirs, which marks the folder as used now
    keep(os.path.dirname(parent), COMPILE_SECONDS)
    try:
        try:
            model = core.compile_model(source, "CPU", dict(config, CACHE_DIR=temporary))
        except RuntimeError:
            # the same, where it got full while the blob was written
            return core.compile_model(source, "CPU", config)
        # another backend may have been first; its blob is as good
        with contextlib.suppress(OSError):
            _stamp_blobs(temporary)
            os.rename(temporary, blobs)
        return model
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        keep(os.path.dirname(parent))


def _blob_key(openvino: Any, config: Dict[str, Any], rows: int) -> str:
    # a blob fits one kind of CPU, and a data directory may move to another machine
    text = json.dumps([openvino.get_version(), kind(), sorted(config.items()), rows])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _blob_states(folder: str) -> Dict[str, List[int]]:
    names = [name for name in os.listdir(folder) if name.endswith(".blob")]
    return {name: file_state(os.path.join(folder, name)) for name in names}


def _stamp_blobs(folder: str) -> None:
    with open(os.path.join(folder, "stamp.json"), "w") as stamp:
        json.dump(_blob_states(folder), stamp)


def _blobs_good(folder: str) -> bool:
    """Return whether the blobs are those that were written here, untouched; others are removed and made anew."""
    try:
        with open(os.path.join(folder, "stamp.json")) as stamp:
            if json.load(stamp) == _blob_states(folder):
                return True
    except (OSError, ValueError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _config(version: str, precision: str, threads: int) -> Dict[str, Any]:
    config: Dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        # segments and parallel workers are the streams; pinning put two of them on one core
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
    }
    # 2025.3, the last OpenVINO for Python 3.9, refuses a choice that it does not know
    if version >= "2026":
        # a blob without the weights (3 kB, not 16 MB): they stay in model.bin, which all processes map
        config["CACHE_MODE"] = "OPTIMIZE_SIZE"
    return config
