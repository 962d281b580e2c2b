"""Reads the blocks of a GIF: size, whether it was cut off, and what its first frame will cost."""

from __future__ import annotations

import struct
from typing import Tuple

from .image_limits import Limits, check_count
from .imagefile import Header

_EXTENSION, _IMAGE = 0x21, 0x2C
_USUAL_BLOCK = 100  # bytes; encoders fill 255, and blocks of one byte would be walked over for seconds
_PER_PIXEL, _PER_BYTE = 25e-9, 40e-9  # seconds, measured
_CANVAS = 4  # bytes a pixel


def read(data: bytes, limits: Limits) -> Header:
    """Return the facts of a GIF; its blocks must lead to the trailer, what makes no sense is left to the decoder."""
    width, height = struct.unpack_from("<HH", data, 6)
    frame, complete = _walk(data, limits)
    pixels, shown = width * height, _frame_pixels(data, frame)
    # a frame that is taken back after it was shown is kept twice
    buffers = _CANVAS * pixels + (1 + _CANVAS) * shown
    seconds = pixels * _PER_PIXEL + len(data) * _PER_BYTE
    return Header("GIF", width, height, 3, len(data), 1, complete, 1, buffers, seconds)


def first_frame(data: bytes, limits: Limits) -> int:
    """Return the offset of the first frame's descriptor; 0 without one."""
    return _walk(data, limits)[0]


def _walk(data: bytes, limits: Limits) -> Tuple[int, bool]:
    """Return the offset of the first frame, and whether the trailer was reached."""
    first, seen, frames = 0, 0, 0
    most = limits.max_segments + len(data) // _USUAL_BLOCK
    try:
        # 13: behind the signature (6 bytes) and the description of the screen (7)
        pos = 13 + palette(data[10])
        while data[pos] in (_EXTENSION, _IMAGE):
            if data[pos] == _IMAGE:
                frames += 1
                check_count(frames, limits.max_frames, "frames", "max_image_frames")
                first = first or pos
                pos += 11 + palette(data[pos + 9])
            else:
                pos += 2
            size = 1
            while size:
                seen += 1
                if seen > most:
                    check_count(seen, most, "blocks", "max_image_segments")
                size = data[pos]
                pos += 1 + size
    except IndexError:
        return first, False
    return first, True


def palette(flags: int) -> int:
    """Return the bytes of a colour table."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _frame_pixels(data: bytes, at: int) -> int:
    if not at or len(data) < at + 9:
        return 0
    width, height = struct.unpack_from("<HH", data, at + 5)
    return int(width * height)
