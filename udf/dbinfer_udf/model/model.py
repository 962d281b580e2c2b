"""One model in this backend: decode > preprocess > infer, with all that can be decided once decided at load."""

from __future__ import annotations

import contextlib
from functools import partial
from time import perf_counter
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .. import functions
from ..errors import ModelError
from ..functions import output_number, require_task
from ..host.cache import Entry
from ..host.image_limits import image_limits
from ..host.memory import memory_for
from ..image.decode import Decoder, target_of
from ..image.resize import Resizer
from ..manifest import Manifest, ManifestError
from ..result.detection import detector_labels
from ..result.mask import mask_layout
from . import figures, infer
from .infer import Compiled, same_results

LAYOUTS: Dict[str, Any] = {"segmentation": mask_layout, "detection": detector_labels}


def manifest_of(spec: Dict[str, Any]) -> Manifest:
    """Return what the registry says of a model: whoever may deploy wrote it; ModelError where it makes no sense."""
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
    """

    in_process = True

    def __init__(self, openvino: Any, entry: Entry, spec: Dict[str, Any], threads: int) -> None:
        self.name: str = spec["model"]
        self.version: int = spec["version"]
        self.manifest = manifest_of(spec)
        # kept, because a batch compiles the same network once more, and only where one is asked for
        compiled = partial(Compiled, openvino, entry, self.manifest.precision, threads)
        self._compile = partial(_within_memory, compiled, entry.folder, spec["settings"])
        self.compiled = self._compile()
        _require_input(self.name, self.compiled.inputs, self.manifest)
        self.threads = threads
        self.output = self.compiled.output
        # a view: it shows what the next inference writes, too
        self.flat = self.output.reshape(-1)
        self.decode = Decoder(self.manifest.color, image_limits(spec["settings"]), target_of(self.manifest))
        self.resize = Resizer(self.manifest).resize
        # what postprocessing needs of the output, by task
        read = LAYOUTS.get(self.manifest.task)
        self.layout: Any = read and read(self.output.shape, self.manifest.labels)
        self.quoted_labels = infer.quoted_labels(self.manifest.labels)
        tried = figures.read(entry.folder)[0]
        self._pays = functions.pays(tried.get("milliseconds"), tried.get("batch_milliseconds"))
        # rows asked for; with the network of one image where no batch is possible, so that nobody tries again
        self._wide: Tuple[int, Compiled] = (1, self.compiled)
        self._load_milliseconds = 0.0

    def batch_network(self, rows: int) -> Compiled:
        """Return the network for `rows` images at once; that for one where it cannot take more.

        One is kept beside that for a single image: each needs memory like another model, and users choose the sizes.
        """
        if rows == 1:
            return self.compiled
        if rows != self._wide[0]:
            self._wide = (1, self.compiled)
            found = self.compiled
            # a network that takes one image at a time is no fault, and where memory is short one at a time does, too
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
        return max(size * functions.TEXT_BYTES, longest)

    def batch_rows(self, img: Optional[bytes]) -> int:
        """Return how many rows to collect, by the first image; 1 where batches do not pay on this host."""
        wanted = functions.rows_for(img, self.result_bytes) if self._pays else 1
        rows: int = self.batch_network(wanted).rows
        return rows

    def rows(self, function: str, null: bool, wanted: Sequence[Tuple[int, Optional[bytes]]]) -> List[Any]:
        """Return the results of many rows; see batch.rows."""
        return infer.rows(self, function, null, wanted)

    def waited_for(self, seconds: float) -> None:
        """Note how long the user waited for it: runtime, files, libraries and compiling."""
        self._load_milliseconds = seconds * 1e3

    def take_load_time(self) -> float:
        """Return the milliseconds that were waited, the first time; 0 afterwards."""
        taken, self._load_milliseconds = self._load_milliseconds, 0.0
        return taken

    def score(self, img: bytes) -> Tuple[Any, Any]:
        """Run the model on one image file; return the image's placement in the tensor and its header."""
        image, header = self.decode(img)
        placement = self.resize(image, self.compiled.input)
        self.compiled.infer()
        return placement, header

    def values(self, wanted: Any) -> Any:
        """Return where `score` writes an output, flattened; `wanted` is its name or its number."""
        number = output_number(self.name, self.manifest.outputs, wanted)
        return self.compiled.result(number).reshape(-1)

    def require(self, task: str, function: str) -> None:
        """Raise unless the model is of a task."""
        require_task(self.name, self.manifest.task, task, function)

    def profile(self, img: bytes, postprocess: Any) -> Dict[str, Any]:
        """Return the microseconds of each step for one image, after one run that warms the caches."""
        self.score(img)
        times: List[float] = [perf_counter()]
        image, header = self.decode(img)
        times.append(perf_counter())
        placement = self.resize(image, self.compiled.input)
        times.append(perf_counter())
        self.compiled.infer()
        times.append(perf_counter())
        postprocess(placement, header)
        times.append(perf_counter())
        steps = ("decode", "preprocess", "infer", "postprocess")
        micros = {name: round((times[i + 1] - times[i]) * 1e6, 1) for i, name in enumerate(steps)}
        micros["total"] = round((times[-1] - times[0]) * 1e6, 1)
        used = self.compiled.settings()
        return {
            "model": "%s@%d" % (self.name, self.version),
            "microseconds": micros,
            "decoded": [int(image.shape[1]), int(image.shape[0])],
            "image": list(header.size),
            "threads": int(used["INFERENCE_NUM_THREADS"]),
            "precision": used["INFERENCE_PRECISION_HINT"],
        }


def _within_memory(compiled: Any, folder: str, settings: Dict[str, str], rows: int = 1) -> Compiled:
    with memory_for(folder, settings):
        found: Compiled = compiled(rows)
        return found


def _require_input(name: str, inputs: np.ndarray, manifest: Manifest) -> None:
    """Raise where pixels put into the tensor would not be those that the network reads."""
    wanted = (1, manifest.height, manifest.width, manifest.channels)
    if inputs.shape != wanted or inputs.dtype != np.uint8:
        found = (name, inputs.dtype, " x ".join(map(str, inputs.shape)), " x ".join(map(str, wanted)))
        raise ModelError(
            'the network of model "%s" takes %s of %s, but its manifest says uint8 of %s' % found,
            hint="Deploy it again with dbinfer deploy, which makes both one.",
        )
