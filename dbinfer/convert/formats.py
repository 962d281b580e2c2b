"""The source formats by name, and how a path tells which it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dbinfer.convert._ir import read_ir
from dbinfer.convert._keras import read_h5, read_keras
from dbinfer.convert._onnx import read_onnx
from dbinfer.convert._source import Source
from dbinfer.convert._tensorflow import read_frozen, read_saved_model, read_tflite
from dbinfer.errors import ConvertError


@dataclass(frozen=True)
class Format:
    """A source format: the endings of its files (none for a folder) and its reader."""

    suffixes: tuple[str, ...]
    read: Callable[[Path], Source]


FORMATS: dict[str, Format] = {
    "keras": Format((".keras",), read_keras),
    "keras-h5": Format((".h5", ".hdf5"), read_h5),
    "savedmodel": Format((), read_saved_model),
    "tensorflow-pb": Format((".pb",), read_frozen),
    "onnx": Format((".onnx",), read_onnx),
    "tflite": Format((".tflite",), read_tflite),
    "openvino": Format((".xml",), read_ir),
}

CURES = {
    ".bin": "It is the weights of an IR: give the .xml beside it to 'dbinfer deploy'.",
    ".binarypb": "It is a graph of MediaPipe's steps: convert the networks that it runs, the .tflite files beside it.",
    ".pt": "Export it from PyTorch with torch.onnx.export() and convert the .onnx.",
    ".pth": "Export it from PyTorch with torch.onnx.export() and convert the .onnx.",
}


def find_format(source: Path) -> str:
    """Return the name of the format of `source`, by folder or ending.

    Raises:
        ConvertError: it is not there, is empty, or its ending is unknown.
    """
    if not source.exists():
        raise ConvertError(f"there is no file or folder {source}", "Check the path.")
    if source.is_dir():
        return "savedmodel"
    if not source.is_file():
        raise ConvertError(f"{source} is not a regular file or a folder")
    for name, entry in FORMATS.items():
        if source.suffix.lower() in entry.suffixes:
            return _not_empty(source, name)
    known = ", ".join(suffix for entry in FORMATS.values() for suffix in entry.suffixes)
    raise ConvertError(
        f"{source} has the ending {source.suffix!r}, which is not a known model format",
        CURES.get(source.suffix.lower(), f"Known endings are {known}; SavedModel folders work, too."),
    )


def _not_empty(source: Path, name: str) -> str:
    try:
        with source.open("rb") as file:
            if file.read(1):
                return name
    except OSError as err:
        raise ConvertError(f"{source} cannot be read: {err.strerror}") from err
    raise ConvertError(f"{source} is empty", "Export the model again.")
