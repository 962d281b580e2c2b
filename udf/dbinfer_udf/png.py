"""Reads the chunks of a PNG: size, orientation, and what its texts and frames will cost."""

from __future__ import annotations

import struct

from .errors import ImageError
from .exif import exif_orientation
from .image_limits import Limits, check_count
from .imagefile import Header

_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_start = struct.Struct(">16xIIBB").unpack_from
_chunk = struct.Struct(">I4s").unpack_from

_COMPRESSED = (
    b"zTXt",
    b"iTXt",
    b"iCCP",
)  # libpng inflates each to 8 MB at most, and deflate gains 1032 times at most
_MOST_TEXT, _GAIN = 8_000_000, 1032
_PER_PIXEL, _PER_INTERLACED, _PER_TEXT, _PER_BYTE = 32e-9, 60e-9, 3.5e-9, 2e-9  # seconds, measured


def read(data: bytes, limits: Limits) -> Header:
    """Return the facts of a PNG; other bytes may follow its end."""
    width, height, depth, color = _start(data)
    pos, seen, orientation, frames, text, complete, before = 33, 0, 1, 1, 0, False, True
    while len(data) >= pos + 12:
        length, kind = _chunk(data, pos)
        if kind == b"IDAT":
            before = False
        elif kind == b"IEND":
            complete = True
            break
        elif kind in _COMPRESSED:
            text += min(_MOST_TEXT, length * _GAIN)
        elif kind == b"eXIf" and before:
            orientation = exif_orientation(data[pos + 8 : pos + 8 + length])
        elif kind == b"acTL" and length >= 4:
            frames = int.from_bytes(data[pos + 8 : pos + 12], "big")
        pos += length + 12
        seen += 1
        if seen > limits.max_segments:
            check_count(seen, limits.max_segments, "chunks", "max_image_segments")
    return _header(data, (width, height, depth, color), orientation, complete, frames, text)


def _header(
    data: bytes, start: tuple[int, int, int, int], orientation: int, complete: bool, frames: int, text: int
) -> Header:
    width, height, depth, color = start
    channels = _CHANNELS.get(color)
    if channels is None:
        raise ImageError(f"the PNG image is damaged: its colour type is {color}")
    pixels = width * height
    # an animation is put together in three pictures of four channels, and a fourth of eight bits
    buffers = pixels * (28 if depth == 16 else 12) if frames > 1 else 0
    interlaced = len(data) > 28 and data[28] == 1
    seconds = pixels * (_PER_INTERLACED if interlaced or frames > 1 else _PER_PIXEL) + text * _PER_TEXT
    seconds += len(data) * _PER_BYTE
    return Header("PNG", width, height, channels, len(data), orientation, complete, 1, buffers, seconds)
