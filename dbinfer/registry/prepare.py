"""Compiles the preprocessing into the graph: uint8 image of fixed size in, float32 out; that is what is stored."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbinfer.errors import ModelFileError
from dbinfer.ir import import_openvino
from dbinfer.registry.describe import layout
from dbinfer.registry.source import SourceModel
from dbinfer_udf.manifest import Manifest


@dataclass(frozen=True)
class PreparedModel:
    """The two files that backends load.

    Attributes:
        xml, bin: their content.
    """

    xml: bytes
    bin: bytes

    @property
    def xml_digest(self) -> str:
        """Return the sha256 of the xml file."""
        return hashlib.sha256(self.xml).hexdigest()

    @property
    def bin_digest(self) -> str:
        """Return the sha256 of the bin file."""
        return hashlib.sha256(self.bin).hexdigest()


def prepare(source: SourceModel, manifest: Manifest, layout_option: str | None = None) -> PreparedModel:
    """Return the model with conversion to float, mean and scale inside, for input [1,H,W,C] uint8.

    Raises:
        ModelFileError: the graph cannot take that size, or its output has no fixed shape or rank of the task.
    """
    ov = import_openvino()
    graph = source.graph.clone()
    order = layout(graph, layout_option)
    sizes = {"N": 1, "H": manifest.height, "W": manifest.width, "C": manifest.channels}
    try:
        graph.reshape([sizes[axis] for axis in order])
        graph = _with_preprocessing(ov, graph, manifest, order)
    except RuntimeError as err:
        reason = str(err).strip().splitlines()[-1].strip()
        raise ModelFileError(
            f"{source.path} cannot take one image of {manifest.width}x{manifest.height}x{manifest.channels}: {reason}",
            "Check --input-size, --layout and --color.",
        ) from err
    _check_output(source, graph, manifest)
    return _serialized(ov, graph)


def _with_preprocessing(ov: Any, graph: Any, manifest: Manifest, order: str) -> Any:
    from openvino.preprocess import PrePostProcessor

    processor = PrePostProcessor(graph)
    entry = processor.input()
    entry.tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    entry.model().set_layout(ov.Layout(order))
    steps = entry.preprocess().convert_element_type(ov.Type.f32)
    if manifest.mean:
        steps.mean(_per_channel(manifest.mean, manifest.channels))
    if manifest.scale:
        steps.scale(_per_channel(manifest.scale, manifest.channels))
    for index in range(len(graph.outputs)):
        processor.output(index).tensor().set_element_type(ov.Type.f32)
    return processor.build()


def _per_channel(values: tuple[float, ...], channels: int) -> list[float]:
    return list(values) * channels if len(values) == 1 else list(values)


def _check_output(source: SourceModel, graph: Any, manifest: Manifest) -> None:
    shape = graph.output(0).get_partial_shape()
    if shape.is_dynamic:
        raise ModelFileError(f"the output of {source.path} has no fixed shape: {shape}.")
    dims = list(graph.output(0).get_shape())
    if manifest.task == "segmentation" and len(dims) not in (3, 4):
        raise ModelFileError(
            f"the output of {source.path} has the shape {dims}; a mask has rank 3 or 4.",
            "Give another --task.",
        )
    if manifest.task == "classification":
        classes = 1
        for dim in dims:
            classes *= dim
        if manifest.labels and len(manifest.labels) != classes:
            raise ModelFileError(
                f"{source.path} has {classes} classes, but {len(manifest.labels)} labels.",
                "Give --labels that fit.",
            )


def _serialized(ov: Any, graph: Any) -> PreparedModel:
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "model.xml")
        ov.save_model(graph, xml, compress_to_fp16=False)
        return PreparedModel(xml.read_bytes(), xml.with_suffix(".bin").read_bytes())
