"""Tiled TIFFs of any size, which Pillow does not write: classic or BigTIFF, either byte order, one tile at a time."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

NONE, JPEG, DEFLATE = 1, 7, 8
RGB, YCBCR = 2, 6

# x, y -> uint8 (side, side, 3)
Pixels = Callable[[int, int], np.ndarray]


def tiled(
    size: tuple[int, int],
    pixels: Pixels,
    side: int = 128,
    kind: int = DEFLATE,
    end: str = "<",
    big: bool = False,
) -> bytes:
    """Return a tiled TIFF; equal tiles are stored once."""
    tables, stored, places = b"", {}, []  # type: bytes, dict[bytes, int], list[tuple[int, int]]
    out = bytearray(16 if big else 8)
    for x, y in _corners(size, side):
        data = _packed(pixels(x, y), kind)
        if kind == JPEG:
            tables, data = _without_tables(data)
        if data not in stored:
            stored[data] = len(out)
            out += data + bytes(len(data) % 2)
        places.append((stored[data], len(data)))
    tags: dict[int, tuple[str, list[int] | bytes]] = {
        256: ("I", [size[0]]), 257: ("I", [size[1]]), 258: ("H", [8, 8, 8]), 259: ("H", [kind]),
        262: ("H", [YCBCR if kind == JPEG else RGB]), 277: ("H", [3]), 322: ("I", [side]), 323: ("I", [side]),
        324: ("I", [start for start, _ in places]), 325: ("I", [length for _, length in places]),
    }  # fmt: skip
    if kind == JPEG:
        tags |= {347: ("B", tables), 530: ("H", [2, 2])}
    return _with_directory(out, tags, end, big)


def _corners(size: tuple[int, int], side: int) -> Iterator[tuple[int, int]]:
    return ((x, y) for y in range(0, size[1], side) for x in range(0, size[0], side))


def _packed(pixels: np.ndarray, kind: int) -> bytes:
    if kind == JPEG:
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "JPEG", quality=90)
        return target.getvalue()
    return zlib.compress(pixels.tobytes(), 1) if kind == DEFLATE else pixels.tobytes()


def _without_tables(jpeg: bytes) -> tuple[bytes, bytes]:
    """Return the tables of a JPEG as a file of their own, and the rest, as scanners of slides write them."""
    tables, rest, at = b"", b"", 2
    while jpeg[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        if jpeg[at + 1] in (0xC4, 0xDB):
            tables += jpeg[at:end]
        elif jpeg[at + 1] != 0xE0:
            rest += jpeg[at:end]
        at = end
    return b"\xff\xd8" + tables + b"\xff\xd9", b"\xff\xd8" + rest + jpeg[at:]


def _with_directory(
    out: bytearray, tags: dict[int, tuple[str, list[int] | bytes]], end: str, big: bool
) -> bytes:
    offset, room = ("Q", 8) if big else ("I", 4)
    lines = b""
    for tag, (form, values) in tags.items():
        data = struct.pack(f"{end}{len(values)}{form}", *values)
        if len(data) > room:
            at = struct.pack(end + offset, len(out))
            out += data + bytes(len(data) % 2)
            data = at
        lines += struct.pack(
            f"{end}HH{offset}", tag, {"B": 7, "H": 3, "I": 4}[form], len(values)
        ) + data.ljust(room, b"\0")
    first = struct.pack(end + "HHHQ", 43, 8, 0, len(out)) if big else struct.pack(end + "HI", 42, len(out))
    out[: 2 + len(first)] = (b"II" if end == "<" else b"MM") + first
    out += struct.pack(end + ("Q" if big else "H"), len(tags)) + lines + bytes(room)
    return bytes(out)
