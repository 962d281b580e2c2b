"""Reads an IR from disk, and refuses what is no model of one image before anything else is done with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from dbinfer.errors import ModelFileError
from dbinfer.ir._openvino import import_openvino, last_line

BLOCK = 1 << 20


@dataclass(frozen=True)
class ModelFile:
    """An IR as it lies on disk.

    Attributes:
        path: of the .xml file.
        graph: the openvino.Model.
        digest: sha256 over the sha256 of the .xml and that of the .bin, in hex.
        older_digest: sha256 over the bytes of both files, which clients on Python 3.10 wrote into registries.
    """

    path: Path
    graph: Any
    digest: str
    older_digest: str


def read_model(path: Path) -> ModelFile:
    """Read `model.xml` with the `model.bin` beside it.

    Raises:
        ModelFileError: a file is missing, broken or truncated, or the graph takes no single image.
    """
    weights = check_files(path)
    _check_xml(path)
    graph = _read_graph(path, weights)
    _check_ports(path, graph)
    return ModelFile(path, graph, *digests(path, weights))


def check_files(path: Path) -> Path:
    """Return the .bin of an .xml file.

    Raises:
        ModelFileError: one of them is missing.
    """
    if path.suffix.lower() != ".xml":
        raise ModelFileError(
            f"{path} is not an OpenVINO IR (.xml)", f"Convert it first: dbinfer convert {path} -o model.xml"
        )
    if not path.is_file():
        raise ModelFileError(f"there is no file {path}", "Give the path of the IR's .xml file.")
    weights = path.with_suffix(".bin")
    if not weights.is_file():
        raise ModelFileError(
            f"the weights of {path} are missing: there is no file {weights}",
            "Put the .bin file next to the .xml file.",
        )
    return weights


def _check_xml(path: Path) -> None:
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as err:
        raise ModelFileError(f"{path} is not valid XML: {err}", "Convert the model again.") from err
    if root.tag != "net":
        raise ModelFileError(f"{path} is XML but not an OpenVINO IR: its root is <{root.tag}>, not <net>")


def _read_graph(path: Path, weights: Path) -> Any:
    try:
        return import_openvino().Core().read_model(path, weights)
    except Exception as err:  # OpenVINO raises what its C++ raises: IndexError, MemoryError, ...
        size = weights.stat().st_size
        raise ModelFileError(
            f"OpenVINO cannot read {path} with {weights.name} ({size} bytes): {last_line(err)}",
            "The .bin file may be truncated or belong to another model; convert or copy both files again.",
        ) from err


def _check_ports(path: Path, graph: Any) -> None:
    if not graph.outputs:
        raise ModelFileError(f"{path} has no output", "Convert the model again.")
    if len(graph.inputs) != 1:
        names = ", ".join(port.get_any_name() for port in graph.inputs if port.get_names())
        raise ModelFileError(f"{path} has {len(graph.inputs)} inputs ({names}); an image model has one")
    rank = graph.input(0).get_partial_shape().rank
    if rank.is_dynamic or rank.get_length() != 4:
        shape = graph.input(0).get_partial_shape()
        raise ModelFileError(
            f"the input of {path} has the shape {shape}; an image input has 4 dimensions, [N,H,W,C] or [N,C,H,W]"
        )


def file_digest(path: Path, *more: Any) -> str:
    """Return the sha256 of a file in hex; `more` hash objects are fed the same bytes."""
    own = hashlib.sha256()
    # hashlib.file_digest does the same from Python 3.11 on only
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            for total in (own, *more):
                total.update(block)
    return own.hexdigest()


def digests(xml: Path, weights: Path) -> tuple[str, str]:
    """Return the digest of the two files, and the older form of it."""
    joined = hashlib.sha256()
    each = [bytes.fromhex(file_digest(path, joined)) for path in (xml, weights)]
    return hashlib.sha256(b"".join(each)).hexdigest(), joined.hexdigest()


def file_or_folder_digest(path: Path) -> str:
    """Return the sha256 of a file, or of a folder's files with their names in sorted order."""
    if path.is_file():
        return file_digest(path)
    total = hashlib.sha256()
    for part in sorted(part for part in path.rglob("*") if part.is_file()):
        total.update(f"{part.relative_to(path)}\0{file_digest(part)}\n".encode())
    return total.hexdigest()
