"""Compile and infer: a compiled model with its input and output memory as numpy arrays, one image or a batch at a
time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..errors import ImageError, ModelError
from ..host.cache import Entry, file_state
from ..host.housekeeping import COMPILE_SECONDS
from ..host.marks import keep
from ..host.process import kind
from ..host.signals import signals_blocked
from ..host.unfinished import temporary_folder
from ..result.detection import detections, literal, way_of
from ..result.mask import mask
from ..result.postprocess import float_array_literal, l2_normalize, quoted, scores

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


Row = Tuple[int, Optional[bytes]]
Slot = Tuple[int, Any, Any]


def rows(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    """Return the result of each row as the function of that name gives it; None where there is no image.

    Args:
        null: None for a bad image, too.

    Raises:
        ImageError: a bad image.
    """
    network: Compiled = model.wide
    found: List[Any] = []
    for first in range(0, len(wanted), network.rows):
        found += _inference(model, function, null, wanted[first : first + network.rows])
    return found


def _inference(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    """Return the results of as many rows as the network takes; bad ones take no slot of its input."""
    slots: List[Slot] = []
    found: List[Any] = [None] * len(wanted)
    for place, (number, img) in enumerate(wanted):
        if img is not None:
            try:
                _put(model, img, place, slots)
            except ImageError as err:
                if not null:
                    raise err.of_row(number) from err
    # without an image in it, the batch needs no inference
    if slots:
        model.wide.infer()
        for (place, _, _), result in zip(slots, FINISH[function](model, model.wide.output, slots)):
            found[place] = result
    return found


def _put(model: Any, img: bytes, place: int, slots: List[Slot]) -> None:
    """Decode and resize the image into the next slot of the input."""
    image, header = model.decode(img)
    slots.append((place, model.resize(image, model.wide.inputs[len(slots)]), header))


def _classify(model: Any, output: np.ndarray, slots: Sequence[Slot]) -> List[str]:
    manifest, used = model.manifest, output[: len(slots)]
    # raw scores need no work per row; a single value is the probability of the second of two classes
    if manifest.activation == "none" and used[0].size > 1:
        table = used.reshape(len(slots), -1)
    else:
        table = np.stack([scores(one, manifest.activation, len(manifest.labels)) for one in used])
    winners = table.argmax(axis=1)
    best = table[np.arange(len(slots)), winners].tolist()
    labels = model.quoted_labels
    # more outputs than labels: an empty field of a composite literal is NULL; nine digits give the same float32 again
    return [
        "(%d,%s,%.9g)" % (winner, labels[winner] if winner < len(labels) else "", score)
        for winner, score in zip(winners.tolist(), best)
    ]


def _each(finish: Callable[[Any, np.ndarray, Any, Any], Any]) -> Callable[..., List[Any]]:
    def finish_all(model: Any, output: np.ndarray, slots: Sequence[Slot]) -> List[Any]:
        # a slice, not an element: an output of one image, as without a batch
        return [
            finish(model, output[slot : slot + 1], placement, header)
            for slot, (_, placement, header) in enumerate(slots)
        ]

    return finish_all


def _embed(model: Any, output: np.ndarray, _placement: Any, _header: Any) -> str:
    return float_array_literal(l2_normalize(output) if model.manifest.l2_normalize else output)


def _detect(model: Any, output: np.ndarray, placement: Any, header: Any) -> str:
    found = detections(output, model.manifest, way_of(model, placement, header), header.size)
    return literal(found, model.layout)


FINISH: Dict[str, Callable[..., List[Any]]] = {
    "predict": _each(lambda model, output, placement, header: float_array_literal(output)),
    "classify": _classify,
    "embed": _each(_embed),
    "detect": _each(_detect),
    "segment": _each(
        lambda model, output, placement, header: mask(
            output, model.layout, model.manifest, placement, header.size
        )
    ),
}


def quoted_labels(labels: Sequence[str]) -> List[str]:
    """Return labels as fields of a composite literal, once for all rows."""
    return [quoted(label) for label in labels]
