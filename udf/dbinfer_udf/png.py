"""Reads the chunks of a PNG: size, orientation, and what its texts will cost; makes a still picture of an animation."""

from __future__ import annotations

import struct
from typing import Iterator, Tuple

from .errors import ImageError
from .exif import exif_orientation
from .image_limits import Limits, check_count
from .imagefile import Header

_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_start = struct.Struct(">16xIIxB2xB").unpack_from
_chunk = struct.Struct(">I4s").unpack_from

_COMPRESSED = (
    b"zTXt",
    b"iTXt",
    b"iCCP",
)  # libpng inflates each to 8 MB at most, and deflate gains 1032 times at most
_MOST_TEXT, _GAIN = 8_000_000, 1032
_ANIMATION = (b"acTL", b"fcTL", b"fdAT")
_PER_PIXEL, _PER_INTERLACED, _PER_TEXT, _PER_BYTE = 32e-9, 60e-9, 3.5e-9, 2e-9  # seconds, measured


def read(data: bytes, limits: Limits) -> Header:
    """Return the facts of a PNG; other bytes may follow its end.

    Raises:
        ImageError: its chunks lead nowhere, or to an end without pixels: OpenCV would read on in what follows, and
            make room for what that claims (45 bytes took 2 GB).
    """
    width, height, color, interlaced = _start(data)
    orientation, text, pixels, animated, complete = 0, 0, False, False, False
    # as _chunks, which costs a microsecond a file: a tenth of a small one
    pos, end, seen, most = 33, len(data), 0, limits.max_segments
    while end >= pos + 12:
        length, kind = _chunk(data, pos)
        following = pos + 12 + length
        if end < following or (kind == b"IEND" and length):
            break
        seen += 1
        if seen > most:
            check_count(seen, most, "chunks", "max_image_segments")
        if kind == b"IDAT":
            pixels = True
        elif kind == b"IEND":
            complete = True
            break
        elif kind in _COMPRESSED:
            text += min(_MOST_TEXT, length * _GAIN)
        elif kind == b"eXIf" and not pixels and not orientation:
            # the first alone, as libpng does: each may hold a directory of 4,096 entries
            orientation = exif_orientation(data[pos + 8 : pos + 8 + length])
        elif kind == b"acTL":
            animated = True
        pos = following
    if color not in _CHANNELS or (complete and not pixels):
        raise ImageError("the PNG image is damaged: it has no pixels, or they are of no known kind")
    per_pixel = _PER_INTERLACED if interlaced else _PER_PIXEL
    seconds = width * height * per_pixel + text * _PER_TEXT + end * _PER_BYTE
    # by position, which takes half the time
    channels = _CHANNELS[color]
    return Header("PNG", width, height, channels, end, orientation or 1, complete, 1, 0, seconds, animated)


def _chunks(data: bytes) -> Iterator[Tuple[int, int, bytes]]:
    """Yield (offset, length of its content, kind) of each chunk behind the first that lies whole within the data."""
    # 33: behind the signature (8 bytes) and IHDR (25)
    pos, end = 33, len(data)
    while end >= pos + 12:
        length, kind = _chunk(data, pos)
        if end < pos + 12 + length or (kind == b"IEND" and length):
            return
        yield pos, length, kind
        if kind == b"IEND":
            return
        pos += length + 12


def still(data: bytes) -> bytes:
    """Return the file without its animation, which leaves the first picture.

    OpenCV's own reader of animations jumps into a function that has returned when libpng finds damage, and the process
    dies: one flipped bit would take the database down.
    """
    kept = [data[pos : pos + 12 + length] for pos, length, kind in _chunks(data) if kind not in _ANIMATION]
    return data[:33] + b"".join(kept)
