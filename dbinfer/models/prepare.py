"""Compiles the preprocessing into the graph: uint8 image of fixed size in, float32 out; that is what is stored.

It runs in a process of its own (dbinfer/base/apart.py), because the IR may come from anywhere.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dbinfer.base import apart
from dbinfer.base.errors import ModelFileError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.base.report import restored
from dbinfer.models.describe import Description, describe
from dbinfer.models.graph import dimensions
from dbinfer.models.ir import ModelFile, import_openvino, last_line, read_model
from dbinfer_udf.errors import ModelError
from dbinfer_udf.host.libraries import leave_out
from dbinfer_udf.manifest import ANY_SIZE, STEP, Manifest
from dbinfer_udf.tasks import TASKS, imported


@dataclass(frozen=True)
class PreparedModel:
    """The content of the two files that backends load.

    Attributes:
        output: shape of the network's first output.
    """

    xml: bytes
    bin: bytes
    output: tuple[int, ...] = ()

    @cached_property
    def xml_digest(self) -> str:
        """The sha256 of the xml file."""
        return hashlib.sha256(self.xml).hexdigest()

    @cached_property
    def bin_digest(self) -> str:
        """The sha256 of the bin file."""
        return hashlib.sha256(self.bin).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of both files."""
        return len(self.xml) + len(self.bin)


@dataclass(frozen=True)
class Understood:
    """What another process found: the description, and the shape of the prepared model's first output."""

    known: Description
    output: tuple[int, ...]


def understand(
    path: Path, values: Mapping[str, Any], layout: str | None, progress: OnProgress
) -> tuple[Description, PreparedModel]:
    """Read, describe and prepare an IR in a process of its own.

    Args:
        values, layout: as `describe` takes them.

    Raises:
        ModelFileError: it cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="dbinfer-deploy-") as folder:
        xml = Path(folder, "model.xml")
        call = {"path": path, "xml": xml, "values": values, "layout": layout}
        read = [path, path.with_suffix(".bin")]
        said = apart.run(apart.Job(f"{__name__}:understand_apart", call, path, Path(folder), read), progress)
        try:
            found: Understood = restored(Understood, said)
        except (ValueError, TypeError) as err:
            raise ModelFileError(f"the process that read {path} gave a report that makes no sense") from err
        graph, weights = (apart.received(each).read_bytes() for each in (xml, xml.with_suffix(".bin")))
        return found.known, PreparedModel(graph, weights, found.output)


def understand_apart(
    path: str, xml: str, values: dict[str, Any], layout: str | None, progress: OnProgress
) -> Understood:
    """Be that process: write the prepared model's two files."""
    leave_out()
    model = read_model(Path(path))
    known = describe(model, values, layout)
    progress(Progress("preparing"))
    prepared = prepare(model, known)
    Path(xml).write_bytes(prepared.xml)
    Path(xml).with_suffix(".bin").write_bytes(prepared.bin)
    return Understood(known, prepared.output)


def prepare(model: ModelFile, known: Description) -> PreparedModel:
    """Return the model with conversion to float, mean and scale inside, for input [1,H,W,C] uint8.

    Raises:
        ModelFileError: the graph cannot take that size, or its output has no fixed shape or rank of the task.
    """
    manifest = known.manifest
    graph = model.graph.clone()
    try:
        graph.reshape(known.info.shape(manifest.height, manifest.width, manifest.channels))
        graph = _with_preprocessing(graph, manifest, known.info.layout)
    except Exception as err:  # OpenVINO raises what its C++ raises: IndexError, MemoryError, ...
        size = f"{manifest.height}x{manifest.width}x{manifest.channels}"
        raise ModelFileError(
            f"{model.path} cannot take one image of {size} (height x width x channels): {last_line(err)}",
            "Check --input-size, --layout and --color.",
        ) from err
    _check_outputs(model.path, graph, manifest)
    if manifest.resize in ANY_SIZE:
        _check_sizes(model.path, graph, manifest)
    return _serialized(graph)


def _check_sizes(path: Path, graph: Any, manifest: Manifest) -> None:
    """Raise unless the network, which has one size here, takes others, too."""
    more = manifest.height if manifest.resize == "keep_height" else manifest.height + STEP
    try:
        # sides that are open would fit anything until the first image
        graph = graph.clone()
        graph.reshape([1, more, manifest.width + STEP, manifest.channels])
        shape, reason = dimensions(graph.output(0)), ""
    except Exception as err:  # as above
        shape, reason = (), last_line(err)
    if shape[:1] != (1,):
        raise ModelFileError(
            f"{path} cannot take images of any size, as resize {manifest.resize} wants: {reason or list(shape)}",
            "Convert it from a file whose input has open sides, or set --resize fit_to_window.",
        )


def _with_preprocessing(graph: Any, manifest: Manifest, layout: str) -> Any:
    ov = import_openvino()
    from openvino.preprocess import PrePostProcessor

    processor = PrePostProcessor(graph)
    entry = processor.input()
    entry.tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    entry.model().set_layout(ov.Layout(layout))
    # a tokenizer takes bytes as they are
    if not TASKS[manifest.task].reads_text:
        steps = entry.preprocess().convert_element_type(ov.Type.f32)
        if manifest.mean:
            steps.mean(_per_channel(manifest.mean, manifest.channels))
        if manifest.scale:
            steps.scale(_per_channel(manifest.scale, manifest.channels))
    # Whatever the network computes in, backends read float32
    for index in range(len(graph.outputs)):
        processor.output(index).tensor().set_element_type(ov.Type.f32)
    return processor.build()


def _per_channel(values: tuple[float, ...], channels: int) -> list[float]:
    return list(values) * channels if len(values) == 1 else list(values)


def _check_outputs(path: Path, graph: Any, manifest: Manifest) -> None:
    if manifest.outputs and len(manifest.outputs) != len(graph.outputs):
        raise ModelFileError(
            f"{path} has {len(graph.outputs)} outputs, but its manifest names {len(manifest.outputs)}",
            "Convert the model again.",
        )
    _check_output(path, dimensions(graph.output(0)), manifest)
    for place, name in enumerate(manifest.outputs):
        shape = dimensions(graph.output(place))
        if -1 in shape or not shape:
            raise ModelFileError(
                f"the output {name} of {path} has no fixed shape: {list(shape)}",
                "Convert the model again, with --output-name for each output to keep.",
            )


def _check_output(path: Path, shape: tuple[int, ...], manifest: Manifest) -> None:
    if not shape or -1 in shape:
        raise ModelFileError(f"the output of {path} has no fixed shape: {list(shape)}")
    if manifest.task == "segmentation" and len(shape) not in (3, 4):
        raise ModelFileError(
            f"the output of {path} has the shape {list(shape)}; a mask needs 3 or 4 dimensions",
            "Set another --task.",
        )
    if manifest.task == "detection" and (len(shape) != 3 or shape[0] != 1 or shape[2] != 6):
        raise ModelFileError(
            f"the output of {path} has the shape {list(shape)}, but a detector's is [1, N, 6]",
            "Convert it with dbinfer convert --task detection, which brings the outputs of detectors into that form.",
        )
    classes, labels = math.prod(shape), len(manifest.labels)
    # one output is the probability of the second of two classes
    if manifest.task == "classification" and labels not in (0, classes, 2 if classes == 1 else classes):
        raise ModelFileError(
            f"{path} has {classes} classes, but {labels} labels", "Set --labels with one label per class."
        )
    if manifest.task in ("text", "text_detection"):
        try:
            imported(TASKS[manifest.task].layout)(shape, manifest.labels)
        except ModelError as err:
            raise ModelFileError(f"{path}: {err.message}", err.hint) from err
    if manifest.task == "classification" and len(manifest.thresholds) not in (0, labels or classes):
        raise ModelFileError(
            f"{path} has {labels or classes} classes, but {len(manifest.thresholds)} thresholds",
            "Set --thresholds with one number per class, or --threshold for all.",
        )


def _serialized(graph: Any) -> PreparedModel:
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "model.xml")
        # Weights stay as they are: fp16 ones are not widened, fp32 ones not halved
        import_openvino().save_model(graph, xml, compress_to_fp16=False)
        shape = dimensions(graph.output(0))
        return PreparedModel(xml.read_bytes(), xml.with_suffix(".bin").read_bytes(), shape)
