"""One model in this process: its network compiled, and rows taken through it: decode > preprocess > infer."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from functools import partial
from time import perf_counter
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .. import tasks
from ..errors import ImageError, ModelError
from ..host.cache import Entry, file_state, files_gone, keep_in_cache, read_trial, temporary_folder
from ..host.housekeeping import COMPILE_SECONDS
from ..host.libraries import signals_blocked
from ..host.memory import memory_for
from ..host.process import processor
from ..host.tokenizers import add_where_needed
from ..image.decode import Decoder, target_of
from ..image.file import image_limits
from ..image.resize import Resizer
from ..image.words import Words, write
from ..manifest import ANY_SIZE, Manifest, ManifestError
from ..result.vectors import quoted
from . import tiled
from .device import CPU, Setup, commands_drivers, new_core, used

_cores: Dict[int, Any] = {}
HWLOC = "HWLOC_THISSYSTEM"
Sides = Tuple[int, ...]


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
            core = new_core(openvino)
            core.get_versions("CPU")
        finally:
            # programs that this process starts may need to know their real machine
            del os.environ[HWLOC]
            os.environ.update({HWLOC: before} if before else {})
        _cores[id(openvino)] = core
    return _cores[id(openvino)]


def compile_model(openvino: Any, entry: Entry, setup: Setup, rows: int, sides: Sides = ()) -> Any:
    """Return OpenVINO's compiled model for `rows` images at once; ModelError where it cannot be compiled.

    Args:
        sides: height and width, -1 for any; () for those of the file.
    """
    core = _core(openvino)
    add_where_needed(openvino, core, entry.path("xml"))
    config = setup.config(openvino.get_version())
    blobs = os.path.join(entry.folder, "blobs", _blob_key(openvino, setup.device, config, rows, sides))
    try:
        if sides:
            source = _of_any_size(core, entry.path("xml"), sides)
        else:
            source = entry.path("xml") if rows == 1 else _reshaped(core, entry.path("xml"), rows)
        if _blobs_good(blobs):
            # if OpenVINO refuses the blob, compile anew
            with contextlib.suppress(RuntimeError):
                return core.compile_model(source, setup.device, dict(config, CACHE_DIR=blobs))
        return _compile_new(partial(core.compile_model, source, setup.device), config, blobs)
    except RuntimeError as err:
        if entry.gone():
            raise files_gone("the model") from err
        raise ModelError(
            "OpenVINO cannot compile the model on this host: %s" % str(err).strip().splitlines()[-1],
            hint="Compare the OpenVINO versions of all hosts: dbinfer doctor",
        ) from err


def _reshaped(core: Any, path: str, rows: int) -> Any:
    """Return the network for `rows` images at once."""
    graph = core.read_model(path)
    graph.reshape([rows, *list(graph.input(0).shape)[1:]])
    # reshape may succeed although a constant in the graph is made for one image
    if graph.output(0).partial_shape.rank.get_length() < 2 or graph.output(0).partial_shape[0] != rows:
        raise RuntimeError("the network takes one image at a time")
    return graph


def _of_any_size(core: Any, path: str, sides: Sides) -> Any:
    """Return the network, of which the file has one size, for images of any."""
    graph = core.read_model(path)
    graph.reshape([1, *sides, list(graph.input(0).shape)[3]])
    return graph


def _compile_new(compiled: Any, config: Dict[str, Any], blobs: str) -> Any:
    """Compile into an empty folder of our own, then rename it into place, so that no other backend sees half a blob."""
    parent = os.path.dirname(blobs)
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        temporary = temporary_folder(parent)
    except OSError:
        # a full disk costs the blob, not the statement
        return compiled(config)
    # after makedirs, which marks the folder as used now
    keep_in_cache(os.path.dirname(parent), COMPILE_SECONDS)
    try:
        try:
            model = compiled(dict(config, CACHE_DIR=temporary))
        except RuntimeError:
            # a full disk, while the blob was written
            return compiled(config)
        # if another backend was first, its blob is as good
        with contextlib.suppress(OSError):
            _stamp_blobs(temporary)
            os.rename(temporary, blobs)
        return model
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        keep_in_cache(os.path.dirname(parent))


def _blob_key(openvino: Any, device: str, config: Dict[str, Any], rows: int, sides: Sides) -> str:
    # a blob fits one kind of CPU, and a data directory may move to another machine
    where = processor() if device == CPU else [*processor(), device]
    text = json.dumps([openvino.get_version(), where, sorted(config.items()), rows, *sides])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _blob_states(folder: str) -> Dict[str, List[int]]:
    names = [name for name in os.listdir(folder) if name.endswith(".blob")]
    return {name: file_state(os.path.join(folder, name)) for name in names}


def _stamp_blobs(folder: str) -> None:
    with open(os.path.join(folder, "stamp.json"), "w") as stamp:
        json.dump(_blob_states(folder), stamp)


def _blobs_good(folder: str) -> bool:
    """Return whether the blobs are those that were written here, untouched; remove any others."""
    try:
        with open(os.path.join(folder, "stamp.json")) as stamp:
            if json.load(stamp) == _blob_states(folder):
                return True
    except (OSError, ValueError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return False


PRECISION_NAMES = {"<Type: 'float32'>": "f32", "<Type: 'bfloat16'>": "bf16", "<Type: 'float16'>": "f16"}


class Compiled:
    """A model compiled for one stream on a device, with one inference request.

    Attributes:
        rows: images of one inference.
        inputs: uint8 array (rows, height, width, channels): the tensor's own memory; `input` is its first image.
        output: float32 array of the first output, in its own shape; overwritten by the next `infer`.

    Raises:
        ModelError: it cannot be compiled, or takes one image only where more are wanted.
    """

    def __init__(self, openvino: Any, entry: Entry, setup: Setup, rows: int = 1, sides: Sides = ()) -> None:
        self.rows = rows
        with signals_blocked():  # OpenVINO starts its threads here, and may start more in the first inference
            self._model = compile_model(openvino, entry, setup, rows, sides)
            self._request = self._model.create_infer_request()
        self._started = False
        # bound once, because every row calls it
        self._infer = self._request.infer
        self._show()

    def _show(self) -> None:
        self.inputs = self._request.get_input_tensor(0).data
        self.input = self.inputs[0]
        # kept: `output` shows its memory
        self._output_tensor = self._request.get_output_tensor(0)
        self.output = self._output_tensor.data

    def result(self, number: int) -> np.ndarray:
        """Return the memory of any output, as `output` is that of the first."""
        found: np.ndarray = self._request.get_output_tensor(number).data
        return found

    def results(self) -> List[np.ndarray]:
        """Return the memory of every output, in the network's order."""
        return [tensor.data for tensor in self._request.output_tensors]

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
        values = {}
        for name in names:
            # devices other than the processor know some of them
            with contextlib.suppress(RuntimeError):
                values[name] = str(self._model.get_property(name))
        hint = values.get("INFERENCE_PRECISION_HINT", "")
        return {**values, "INFERENCE_PRECISION_HINT": PRECISION_NAMES.get(hint, hint)}


class CompiledForAnySize(Compiled):
    """A model for images of any size, one at a time; `input` and `output` change with the size.

    Args:
        manifest: says which sides follow the image, and the size until the first one.
    """

    def __init__(
        self, openvino: Any, entry: Entry, setup: Setup, rows: int = 1, *, manifest: Manifest
    ) -> None:
        if rows != 1:
            raise ModelError("a network for images of any size takes one image at a time")
        self._size, self._channels = (0, 0), manifest.channels
        self._tensor, self._element = openvino.Tensor, openvino.Type.u8
        height = manifest.height if manifest.resize == "keep_height" else -1
        super().__init__(openvino, entry, setup, sides=(height, -1))
        self.take((manifest.height, manifest.width))

    def _show(self) -> None:
        shape = self._model.output(0).get_partial_shape()
        # until there is one: sides that follow the image are 0
        self.output = np.zeros([side.get_length() if side.is_static else 0 for side in shape], np.float32)

    def take(self, size: Tuple[int, int]) -> np.ndarray:
        """Return the memory for the next image, uint8 (height, width, channels); `size` is (height, width)."""
        if size != self._size:
            tensor = self._tensor(self._element, [1, *size, self._channels])
            self._request.set_input_tensor(0, tensor)
            self._size, self.inputs = size, tensor.data
            self.input = self.inputs[0]
        memory: np.ndarray = self.input
        return memory

    def infer(self) -> None:
        """Run the network on what `input` holds."""
        super().infer()
        self._output_tensor = self._request.get_output_tensor(0)
        self.output = self._output_tensor.data


def same_results(one: Compiled, wide: Compiled) -> bool:
    """Return whether the network for many images gives the same as the one for a single image; tried on noise."""
    # a fixed seed: all processes must come to the same answer
    wide.inputs[...] = np.random.default_rng(0).integers(0, 256, wide.inputs.shape, np.uint8)
    wide.infer()
    for slot in (0, wide.rows - 1):
        one.input[...] = wide.inputs[slot]
        one.infer()
        if not np.allclose(wide.output[slot], one.output[0], rtol=1e-2, atol=1e-3):
            return False
    return True


def manifest_of(spec: Dict[str, Any]) -> Manifest:
    """Return a model's manifest from the registry; ModelError if it makes no sense, as whoever may deploy wrote it."""
    try:
        return Manifest.from_dict(spec["manifest"])
    except ManifestError as err:
        raise ModelError(
            "the manifest of %s@%s cannot be used: %s" % (spec["model"], spec["version"], err),
            hint="Convert and deploy the model again.",
        ) from err


class Model:
    """A compiled model with its decoder and resizer.

    Args:
        openvino: the module.
        entry: the model's files in the host cache.
        spec: of the ticket: model, version, manifest, settings.
        threads: for inference.
        shut_in: this process is the engine's, which may decode what a backend does not.
    """

    in_process = True

    def __init__(
        self, openvino: Any, entry: Entry, spec: Dict[str, Any], threads: int, shut_in: bool = False
    ) -> None:
        self.name: str = spec["model"]
        self.version: int = spec["version"]
        self.manifest = manifest_of(spec)
        # kept, because a batch compiles the same network once more, when one is asked for
        any_size = self.manifest.resize in ANY_SIZE
        kind = partial(CompiledForAnySize, manifest=self.manifest) if any_size else Compiled
        tried = read_trial(entry.folder)[0]
        self.setup = Setup(self.manifest.precision, used(spec["settings"], tried), threads)
        compiled = partial(kind, openvino, entry, self.setup)
        self._compile = partial(_within_memory, compiled, entry.folder, spec["settings"])
        self.compiled = self._compile()
        _require_input(self.name, self.compiled.inputs, self.manifest)
        self.threads = threads
        self.tile = self.manifest.tile
        self._settings = spec["settings"]
        self._read_as_told(spec["settings"], shut_in)
        # what post-processing needs, decided once
        layout = tasks.TASKS[self.manifest.task].layout
        self.layout: Any = layout and tasks.imported(layout)(self.output.shape, self.manifest.labels)
        self.quoted_labels = [quoted(label) for label in self.manifest.labels]
        alone = any_size or self.tile
        self._pays = not alone and tasks.pays(tried.get("milliseconds"), tried.get("batch_milliseconds"))
        # rows asked for, and their network: that for one image where no batch is possible, so that nobody tries again
        self._wide: Tuple[int, Compiled] = (1, self.compiled)
        self._load_milliseconds = 0.0

    @property
    def drivers(self) -> bool:
        """Whether the network runs by commands to a driver of the kernel."""
        return commands_drivers(self.setup.device)

    def _read_as_told(self, settings: Dict[str, str], shut_in: bool) -> None:
        """Decide what reads a row, and what brings it into the input tensor."""
        if tasks.TASKS[self.manifest.task].reads_text:
            self.decode: Any = Words(self.manifest.width)
            self.resize: Any = write
            return
        self.decode = Decoder(
            self.manifest.color,
            image_limits(settings),
            target_of(self.manifest),
            None if shut_in else settings,
            # the engine's worker has one model
            keeps=not shut_in,
        )
        resizer = Resizer(self.manifest)
        self.resize, self._size_for = resizer.resize, resizer.size_for

    def batch_network(self, rows: int) -> Compiled:
        """Return the network for `rows` images at once; that for one image where it cannot take more.

        One is kept beside that for a single image: each needs as much memory as a model, and users choose the sizes.
        """
        if rows == 1:
            return self.compiled
        if rows != self._wide[0]:
            self._wide = (1, self.compiled)
            found = self.compiled
            # no fault: the network takes one image at a time, or memory is short and one at a time will do
            with contextlib.suppress(ModelError):
                wide = self._compile(rows)
                found = wide if same_results(self.compiled, wide) else found
            self._wide = (rows, found)
        return self._wide[1]

    @property
    def wide(self) -> Compiled:
        """The network that `rows` runs: the one for a batch where one was asked for."""
        return self._wide[1]

    @property
    def result_bytes(self) -> int:
        """How long the text of a result may be."""
        longest = max((len(label) for label in self.manifest.labels), default=0)
        size: int = self.output.size
        return max(size * tasks.TEXT_BYTES, longest)

    def batch_rows(self, img: Optional[bytes]) -> int:
        """Return how many rows to collect, by the first image; 1 where batches do not pay on this host."""
        wanted = tasks.rows_for(img, self.result_bytes) if self._pays else 1
        rows: int = self.batch_network(wanted).rows
        return rows

    def rows(self, function: str, null: bool, wanted: Sequence[Tuple[int, Optional[bytes]]]) -> List[Any]:
        """Return the result of each row as the function of that name gives it; None where there is no image.

        Args:
            null: None for a bad image, too.
            wanted: key and image file of each row.

        Raises:
            ImageError: a bad image.
        """
        if tasks.wants_tiles(tasks.FUNCTIONS[function], None, self.tile):
            return tiled.each(self.by_tiles, function, null, wanted)
        network, found = self.wide, []
        for first in range(0, len(wanted), network.rows):
            found += self._batch(tasks.FUNCTIONS[function], null, wanted[first : first + network.rows])
        return found

    def _batch(
        self, function: tasks.Function, null: bool, wanted: Sequence[Tuple[int, Optional[bytes]]]
    ) -> List[Any]:
        """Return the results of as many rows as the network takes; bad ones take no slot of its input."""
        # of each slot: its place among the rows, and where the image lies in it
        slots: List[Tuple[int, Any, Any]] = []
        found: List[Any] = [None] * len(wanted)
        for place, (number, img) in enumerate(wanted):
            if img is not None:
                try:
                    image, header = self.decode(img)
                    slots.append((place, self.place(image, self.wide.inputs[len(slots)]), header))
                except ImageError as err:
                    if not null:
                        raise err.of_row(number) from err
        # without an image in it, the batch needs no inference
        if slots:
            self.wide.infer()
            for (place, _, _), result in zip(slots, self._finished(function, slots)):
                found[place] = result
        return found

    def _finished(self, function: tasks.Function, slots: Sequence[Tuple[int, Any, Any]]) -> List[Any]:
        output = self.wide.output
        if function.batch != tasks.EACH:
            whole: List[Any] = tasks.imported(function.batch)(self, output[: len(slots)])
            return whole
        finish = tasks.imported(function.finish)
        every = function.argument == "outputs"
        outputs = self.wide.results() if every else [output]
        found = []
        for slot, (_, placement, header) in enumerate(slots):
            # a slice, not an element: an output of one image, as without a batch
            own = [one[slot : slot + 1] for one in outputs]
            found.append(finish(self, own if every else own[0], placement, header, None))
        return found

    def waited_for(self, seconds: float) -> None:
        """Note how many seconds the user waited for the model: for runtime, files, libraries and compilation."""
        self._load_milliseconds = seconds * 1e3

    def take_load_time(self) -> float:
        """Return the milliseconds that the user waited, once; 0 afterwards."""
        taken, self._load_milliseconds = self._load_milliseconds, 0.0
        return taken

    def score(self, img: bytes) -> Tuple[Any, Any]:
        """Run the model on one image file; return the image's placement in the tensor and its header."""
        image, header = self.decode(img)
        placement = self.place(image, self.compiled.input)
        self.compiled.infer()
        return placement, header

    def by_tiles(self, function: str, img: bytes) -> Any:
        """Return the result of an image that goes through the network tile by tile."""
        return tiled.scored(
            self.manifest, self._settings, function, img, lambda tile, _: self.found_in_tile(tile)
        )

    def found_in_tile(self, img: bytes) -> bytes:
        """Return what the network finds in one tile, as the task's class in result.tiled takes it."""
        placement, header = self.score(img)
        kind = tasks.TASKS[self.manifest.task].tiled
        if not kind:
            raise tasks.whole_only(self.name, self.manifest.task)
        found: bytes = tasks.imported(kind).found(self, self.output, placement, header)
        return found

    def place(self, image: np.ndarray, out: np.ndarray) -> Any:
        """Write decoded pixels into the input tensor; return the image's placement in it.

        Args:
            out: the tensor's memory for one image; of a network for any size another one takes its place.
        """
        if isinstance(self.compiled, CompiledForAnySize):
            out = self.compiled.take(self._size_for(image))
        return self.resize(image, out)

    @property
    def output(self) -> Any:
        """The memory of the first output: what the last inference wrote."""
        return self.compiled.output

    def number(self, wanted: Any) -> int:
        """Return the place of an output among the network's; `wanted` is its name or its number."""
        return tasks.output_number(self.name, self.manifest.outputs, wanted)

    def require(self, task: str, function: str) -> None:
        """Raise unless the model is of a task."""
        tasks.require_task(self.name, self.manifest.task, task, function)

    def profile(self, img: bytes, postprocess: Any) -> Dict[str, Any]:
        """Return the microseconds of each step for one image, after one run that warms the caches."""
        self.score(img)
        times: List[float] = [perf_counter()]
        image, header = self.decode(img)
        times.append(perf_counter())
        placement = self.place(image, self.compiled.input)
        times.append(perf_counter())
        self.compiled.infer()
        times.append(perf_counter())
        postprocess(placement, header)
        times.append(perf_counter())
        steps = ("decode", "preprocess", "infer", "postprocess")
        micros = {name: round((times[i + 1] - times[i]) * 1e6, 1) for i, name in enumerate(steps)}
        micros["total"] = round((times[-1] - times[0]) * 1e6, 1)
        settings = self.compiled.settings()
        return {
            "model": "%s@%d" % (self.name, self.version),
            "microseconds": micros,
            "decoded": [int(image.shape[1]), int(image.shape[0])],
            "image": list(header.size),
            "threads": int(settings.get("INFERENCE_NUM_THREADS", self.threads)),
            "precision": settings["INFERENCE_PRECISION_HINT"] or self.setup.precision,
            "device": self.setup.device,
        }


def _within_memory(compiled: Any, folder: str, settings: Dict[str, str], rows: int = 1) -> Compiled:
    with memory_for(folder, settings):
        found: Compiled = compiled(rows)
        return found


def _require_input(name: str, inputs: np.ndarray, manifest: Manifest) -> None:
    """Raise unless the network's input is what the manifest says, so that it reads the pixels as they are written."""
    wanted = (1, manifest.height, manifest.width, manifest.channels)
    if inputs.shape != wanted or inputs.dtype != np.uint8:
        found = (name, inputs.dtype, " x ".join(map(str, inputs.shape)), " x ".join(map(str, wanted)))
        raise ModelError(
            'the network of model "%s" takes %s of %s, but its manifest says uint8 of %s' % found,
            hint="Deploy it again with dbinfer deploy, which makes both one.",
        )
