"""Looks into a TFLite file: its custom operations, and the metadata with the files that exporters append.

The file is a flatbuffer: tables whose fields are found by their numbers in the schema, through offsets that must be
checked.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dbinfer.base.errors import ConvertError

METADATA = "TFLITE_METADATA"
CUSTOM = 32  # BuiltinOperator.CUSTOM
COLORS = {1: "RGB", 2: "GRAY"}
IMAGE, NORMALIZATION = 2, 1  # of the unions ContentProperties and ProcessUnitOptions
LABELS = (2, 3)  # AssociatedFileType: of an axis, of values
MOST_BYTES = 4 << 20  # of an appended file


@dataclass(frozen=True)
class Described:
    """What a TFLite file says of itself.

    Attributes:
        custom: its operations that are none of TensorFlow's.
        outputs: how many it has.
        color, mean, std: of the image: RGB or GRAY, x = (pixel - mean) / std; empty where nothing is said.
        labels: name of the file with the labels, "" where there is none.
        files: appended to the model.
    """

    custom: tuple[str, ...] = ()
    outputs: int = 0
    color: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    labels: str = ""
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer: its fields by their numbers."""

    data: bytes
    at: int

    def _field(self, number: int) -> int:
        """Return where a field is; 0 where it has its default."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        vtable = _within(self.data, self.at - back)
        (size,) = struct.unpack_from("<H", self.data, vtable)
        place = 4 + 2 * number
        if place + 2 > size:
            return 0
        (offset,) = struct.unpack_from("<H", self.data, vtable + place)
        return self.at + offset if offset else 0

    def number(self, number: int, kind: str) -> int:
        place = self._field(number)
        return int(struct.unpack_from(kind, self.data, place)[0]) if place else 0

    def table(self, number: int) -> _Table | None:
        place = self._field(number)
        return _Table(self.data, _target(self.data, place)) if place else None

    def vector(self, number: int, width: int) -> tuple[int, int]:
        """Return where a vector begins, and how many entries of that width it has."""
        place = self._field(number)
        if not place:
            return 0, 0
        start = _target(self.data, place)
        (count,) = struct.unpack_from("<I", self.data, start)
        _within(self.data, start + 4 + count * width - 1)
        return start + 4, count

    def tables(self, number: int) -> Iterator[_Table]:
        start, count = self.vector(number, 4)
        for place in range(count):
            yield _Table(self.data, _target(self.data, start + 4 * place))

    def floats(self, number: int) -> tuple[float, ...]:
        start, count = self.vector(number, 4)
        return struct.unpack_from(f"<{count}f", self.data, start) if count else ()

    def blob(self, number: int) -> bytes:
        start, count = self.vector(number, 1)
        return self.data[start : start + count]

    def text(self, number: int) -> str:
        return self.blob(number).decode("utf-8", "replace")


def _within(data: bytes, place: int) -> int:
    if not 0 <= place < len(data):
        raise IndexError
    return place


def _target(data: bytes, place: int) -> int:
    return _within(data, place + int(struct.unpack_from("<I", data, place)[0]))


def described(path: Path) -> Described:
    """Return what the file says of itself.

    Raises:
        ConvertError: its flatbuffer or what is appended to it is damaged.
    """
    try:
        return _described(path, path.read_bytes())
    except OSError as err:
        raise ConvertError(f"{path} cannot be read: {err.strerror}") from err
    except (struct.error, IndexError, zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as err:
        raise ConvertError(
            f"{path} is damaged: its tables or its metadata point to nowhere",
            "Check that the file is complete, or convert the model to TFLite again.",
        ) from err


def _described(path: Path, data: bytes) -> Described:
    model = _Table(data, _target(data, 0))
    custom = [
        code.text(1) for code in model.tables(1) if CUSTOM in (code.number(0, "<b"), code.number(3, "<i"))
    ]
    graph = next(model.tables(2), None)
    outputs = graph.vector(2, 4)[1] if graph else 0
    found = Described(tuple(custom), outputs, files=_appended(path))
    for entry in model.tables(6):
        if entry.text(0) == METADATA:
            buffers = list(model.tables(4))
            return _with_metadata(found, buffers[entry.number(1, "<I")].blob(0))
    return found


def _with_metadata(found: Described, data: bytes) -> Described:
    told = _Table(data, _target(data, 0))
    graph = next(told.tables(3), None)
    image = next(graph.tables(2), None) if graph else None
    units = list(image.tables(4)) if image else []
    norm = next((unit.table(1) for unit in units if unit.number(0, "<B") == NORMALIZATION), None)
    content = image.table(3) if image else None
    pixels = content.table(1) if content and content.number(0, "<B") == IMAGE else None
    files = [file for output in (graph.tables(3) if graph else ()) for file in output.tables(6)]
    labels = [file.text(0) for file in files if file.number(2, "<b") in LABELS]
    return Described(
        custom=found.custom,
        outputs=found.outputs,
        color=COLORS.get(pixels.number(0, "<b"), "") if pixels else "",
        mean=norm.floats(0) if norm else (),
        std=norm.floats(1) if norm else (),
        labels=labels[0] if labels else "",
        files=found.files,
    )


def _appended(path: Path) -> dict[str, bytes]:
    """Return the small files of the zip archive that is appended to the model, if one is."""
    if not zipfile.is_zipfile(path):
        return {}
    with zipfile.ZipFile(path) as archive:
        # The size in the directory may be wrong: read() stops at the bound
        return {
            entry.filename: archive.open(entry).read(MOST_BYTES)
            for entry in archive.infolist()[:100]
            if entry.file_size <= MOST_BYTES
        }
