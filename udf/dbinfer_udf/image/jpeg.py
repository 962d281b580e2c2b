"""Reads the segments of a JPEG: size, orientation, and what its scans will cost."""

from __future__ import annotations

import re
import struct
from typing import Iterator, Tuple

from ..errors import ImageError
from .file import Header, Limits, check_count, exif_orientation

_END = b"\xff\xd9"
# C4, C8 and CC lie among the frames, but are tables and extensions
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL = frozenset((0xC0, 0xC1, 0xC9))
_ARITHMETIC = frozenset(range(0xC9, 0xD0)) - {0xCC}
# markers that no length follows
_STANDALONE = frozenset(range(0xD0, 0xD9)) | {0x01, 0x00}
# libjpeg skips these without a length when it looks for a lost restart marker
_WITHOUT_LENGTH = frozenset(range(0x02, 0xC0))
# within a scan FF 00 is a byte of data, and D0 to D7 restart it
_next_marker = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]").search

_u16 = struct.Struct(">H").unpack_from
_frame = struct.Struct(">HHB").unpack_from

_PER_PIXEL, _PER_SCAN, _PER_BYTE, _PER_PROGRESSIVE_BYTE = 10e-9, 1.5e-9, 9e-9, 33e-9  # seconds, measured
# Arithmetic coding decides bit by bit, 33 times for a large number of which only the sign need cost a bit of the file:
# 90 ns for an eighth of a byte, 120 ns for one of noise. Numbers that are zero cost time alone, again in each scan.
_PER_ARITHMETIC_BYTE, _PER_ARITHMETIC_SAMPLE, _PER_ARITHMETIC_ZERO = 800e-9, 130e-9, 4e-9


def read_jpeg(data: bytes, limits: Limits) -> Header:
    """Return the facts of a JPEG; an end marker must follow its first scan, and other bytes may follow that."""
    return measure_jpeg(data, limits)[0]


def measure_jpeg(data: bytes, limits: Limits) -> Tuple[Header, int]:
    """Return the same, and how many segments were looked at."""
    orientation, frame, kind, scan, seen = 0, 0, 0, 0, 0
    for marker, start, length, count in _segments(data, limits.max_segments):
        seen = count
        if marker == 0xDA:
            scan = start
        elif marker in _SOF and not frame:
            frame, kind = start, marker
        elif marker == 0xE1 and not frame and not orientation and data[start : start + 6] == b"Exif\0\0":
            orientation = exif_orientation(data[start + 6 : start + length])
    if not frame:
        raise ImageError("the JPEG image is damaged: its pixels start before its size is given")
    height, width, channels = _frame(data, frame + 1)
    # behind the scan: a thumbnail in the header has an end marker of its own
    complete = scan > 0 and (data.endswith(_END) or data.find(_END, scan) > 0)
    scans, buffers, per_byte = 1, 0, _PER_BYTE
    # fewer components than the image has: each comes in a scan of its own
    if scan and (kind not in _SEQUENTIAL or data[scan] < channels):
        # the whole image is kept as coefficients until the last scan has been read
        scans, walked = _scans(data, scan, limits)
        buffers, seen = _coefficients(data, frame, width, height), seen + walked
        per_byte = _PER_PROGRESSIVE_BYTE
    unpacking = len(data) * per_byte
    if kind in _ARITHMETIC:
        samples = _coefficients(data, frame, width, height) // 2 * scans
        unpacking = min(len(data) * _PER_ARITHMETIC_BYTE, samples * _PER_ARITHMETIC_SAMPLE)
        unpacking += samples * _PER_ARITHMETIC_ZERO
    seconds = width * height * (_PER_PIXEL + _PER_SCAN * scans) + unpacking
    header = Header(
        "JPEG", width, height, channels, len(data), orientation or 1, complete, scans, buffers, seconds
    )
    return header, seen


def _segments(data: bytes, most: int) -> Iterator[Tuple[int, int, int, int]]:
    """Yield (marker, offset of its content, its length, how many came) up to the first scan or the end of the data.

    Raises:
        IndexError, struct.error: the data ends before the frame is told.
    """
    pos, seen, frame = 2, 0, False
    try:
        while True:
            seen += 1
            if seen > most:
                check_count(seen, most, "segments", "max_image_segments")
            # libjpeg skips what lies between two segments, too
            if data[pos] != 0xFF:
                pos = data.find(b"\xff", pos)
                if pos < 0:
                    raise IndexError
            marker = data[pos + 1]
            # fill bytes may stand before a marker
            if marker == 0xFF:
                pos += 1
                continue
            if marker in _STANDALONE:
                pos += 2
                continue
            length: int = _u16(data, pos + 2)[0]
            frame = frame or marker in _SOF
            yield marker, pos + 4, length - 2, seen
            if marker == 0xDA:
                return
            # a length below 2 is damage, and must not hold the walk in place
            pos += 2 + max(length, 2)
    except (IndexError, struct.error):
        # cut off behind the frame: the size is known, and `complete` tells the rest
        if not frame:
            raise


def _scans(data: bytes, first: int, limits: Limits) -> Tuple[int, int]:
    """Return how many scans the decoder will run, and how many segments were looked at.

    Counting start markers is fast and never too low; only where that is too many are the segments walked over, because
    other files may be appended, and their markers do not count.
    """
    upper = 1 + data.count(b"\xff\xda", first)
    return (upper, 0) if upper <= limits.max_scans else _walk_scans(data, first, limits)


def _walk_scans(data: bytes, pos: int, limits: Limits) -> Tuple[int, int]:
    scans, seen = 1, 0
    while True:
        found = _next_marker(data, pos)
        if found is None:
            return scans, seen
        marker, pos = data[found.end() - 1], found.end()
        seen += 1
        check_count(seen, limits.max_segments, "segments", "max_image_segments")
        if marker == 0xD9:
            return scans, seen
        scans += marker == 0xDA
        if marker not in _WITHOUT_LENGTH and pos + 2 <= len(data):
            pos += max(2, _u16(data, pos)[0])


def _coefficients(data: bytes, frame: int, width: int, height: int) -> int:
    """Return the bytes of all components' coefficients: two for each sample, in whole blocks of 8 x 8."""
    factors = data[frame + 7 : frame + 6 + 3 * data[frame + 5] : 3]
    # `or 1`: a damaged factor of 0 must not divide below
    across = max((f >> 4 for f in factors), default=1) or 1
    down = max((f & 15 for f in factors), default=1) or 1
    units = (-(-width // (8 * across)), -(-height // (8 * down)))
    return sum(128 * units[0] * units[1] * (f >> 4) * (f & 15) for f in factors)
