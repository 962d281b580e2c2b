"""Reads the tags of a TIFF directory, which is also how EXIF blocks of other formats are built."""

from __future__ import annotations

import struct
from typing import Iterator, Tuple

WIDTH, HEIGHT, PHOTOMETRIC, ORIENTATION, SAMPLES = 256, 257, 262, 274, 277
PALETTE = 3

_WHOLE_NUMBERS = {1: "B", 3: "H", 4: "I", 16: "Q"}


def tiff_tags(data: bytes) -> Iterator[Tuple[int, int]]:
    """Yield (tag, first value) of the whole numbers in the first directory of a TIFF or BigTIFF.

    Raises:
        struct.error, OverflowError: the directory lies beyond the end of the data.
    """
    end = "<" if data[:1] == b"I" else ">"
    big = 43 in data[2:4]
    offset, count, entry, value_at = ("Q", "Q", 20, 12) if big else ("I", "H", 12, 8)
    first = struct.unpack_from(end + offset, data, 8 if big else 4)[0]
    start = first + struct.calcsize("<" + count)
    for pos in range(start, start + entry * struct.unpack_from(end + count, data, first)[0], entry):
        tag, kind = struct.unpack_from(end + "HH", data, pos)
        form = _WHOLE_NUMBERS.get(kind)
        if form is not None:
            yield tag, struct.unpack_from(end + form, data, pos + value_at)[0]


def valid_orientation(orientation: int) -> int:
    """Return EXIF's orientation, or 1 where the value is none of 1 to 8."""
    return orientation if 1 <= orientation <= 8 else 1


def exif_orientation(exif: bytes) -> int:
    """Return the orientation in an EXIF block, its byte order first; 1 without one or if damaged."""
    if exif[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    try:
        return next((valid_orientation(value) for tag, value in tiff_tags(exif) if tag == ORIENTATION), 1)
    except (struct.error, OverflowError):
        return 1
