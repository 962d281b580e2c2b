"""Reads an IR from disk and refuses what cannot be deployed, before anything is written anywhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from dbinfer.errors import ModelFileError


@dataclass(frozen=True)
class SourceModel:
    """An IR as it lies on disk.

    Attributes:
        path: of the .xml file.
        graph: the openvino.Model.
        digest: sha256 over both files, in hex.
    """

    path: Path
    graph: Any
    digest: str


def read_source(path: Path) -> SourceModel:
    """Read `model.xml` with the `model.bin` beside it.

    Raises:
        ModelFileError: a file is missing, broken or truncated, or the graph takes no single image.
    """
    if path.suffix.lower() != ".xml":
        raise ModelFileError(
            f"{path} is not an OpenVINO IR (.xml).", f"Convert it first: dbinfer convert {path} -o model.xml"
        )
    if not path.is_file():
        raise ModelFileError(f"there is no file {path}.", "Give the path of the IR's .xml file.")
    _check_xml(path)
    weights = path.with_suffix(".bin")
    if not weights.is_file():
        raise ModelFileError(
            f"the weights of {path} are missing: there is no {weights}.", "Put the .bin beside the .xml."
        )
    graph = _read_graph(path, weights)
    _check_shapes(path, graph)
    return SourceModel(path, graph, _digest(path, weights))


def _check_xml(path: Path) -> None:
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as err:
        raise ModelFileError(f"{path} is not valid XML: {err}.", "Convert the model again.") from err
    if root.tag != "net":
        raise ModelFileError(f"{path} is XML, but no OpenVINO IR: its root is <{root.tag}>, not <net>.")


def _read_graph(path: Path, weights: Path) -> Any:
    from dbinfer.ir import import_openvino

    try:
        return import_openvino().Core().read_model(path, weights)
    except RuntimeError as err:
        reason = str(err).strip().splitlines()[-1].strip()
        size = weights.stat().st_size
        raise ModelFileError(
            f"OpenVINO cannot read {path} with {weights.name} ({size} bytes): {reason}",
            "The .bin may be truncated or of another model: convert or copy both files again.",
        ) from err


def _check_shapes(path: Path, graph: Any) -> None:
    if len(graph.inputs) != 1:
        names = ", ".join(port.get_any_name() for port in graph.inputs if port.get_names())
        raise ModelFileError(f"{path} has {len(graph.inputs)} inputs ({names}); a model of images has one.")
    rank = graph.input(0).get_partial_shape().rank
    if rank.is_dynamic or rank.get_length() != 4:
        shape = graph.input(0).get_partial_shape()
        raise ModelFileError(
            f"the input of {path} has the shape {shape}; an image input has rank 4, [N,H,W,C] or [N,C,H,W]."
        )


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as source:
            digest.update(
                hashlib.file_digest(source, "sha256").digest()
                if hasattr(hashlib, "file_digest")
                else source.read()
            )
    return digest.hexdigest()
