"""Reads the header of a BMP: size, and whether all of its pixels are there."""

from __future__ import annotations

import struct

from .image_limits import Limits
from .imagefile import Header

# length of OS/2's first header, with sizes of 16 bits and no compression
_SHORT = b"\x0c\0\0\0"
# run lengths, JPEG, PNG: how many bytes their pixels take stands nowhere
_COMPRESSED = (1, 2, 4, 5)
_PER_PIXEL = 25e-9  # seconds, measured


def read(data: bytes, limits: Limits) -> Header:
    """Return the facts of a BMP; whether run lengths are all there the decoder finds out."""
    pixels = struct.unpack_from("<I", data, 10)[0]
    if data[14:18] == _SHORT:
        width, height, _planes, bits = struct.unpack_from("<HHHH", data, 18)
        compression = 0
    else:
        width, height, _planes, bits = struct.unpack_from("<iiHH", data, 18)
        compression = int.from_bytes(data[30:34], "little")
    height = abs(height)  # negative: the first row is the top one
    # rows are padded to 4 bytes
    row: int = (width * bits + 31) // 32 * 4
    complete = compression in _COMPRESSED or len(data) >= pixels + row * height
    seconds = width * height * _PER_PIXEL
    return Header("BMP", width, height, 4 if bits == 32 else 3, len(data), 1, complete, 1, 0, seconds)
