"""Reads the chunks of a WebP: size, orientation, and what its canvas will cost."""

from __future__ import annotations

import struct

from .exif import exif_orientation
from .image_limits import Limits, check_count
from .imagefile import Header

_EXIF, _ALPHA, _ANIMATION = 8, 16, 2
_PER_PIXEL, _PER_LOSSY_BYTE, _PER_LOSSLESS_BYTE = 25e-9, 70e-9, 20e-9  # seconds, measured
# Bytes a pixel beside the result: colour where gray is wanted; the lossless decoder's own; alpha; two canvases.
_LOSSY, _LOSSLESS, _BLENDED, _ANIMATED = 3, 7, 9, 16


def read(data: bytes, limits: Limits) -> Header:
    """Return the facts of a WebP; its first chunk says which of three headers it has."""
    complete = len(data) >= int.from_bytes(data[4:8], "little") + 8
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        # 14 bits each; the two above them are a scale for display
        return _header(data, (width & 0x3FFF, height & 0x3FFF, 3), 1, complete, _LOSSY)
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        size = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        return _header(data, (*size, 4 if bits >> 28 & 1 else 3), 1, complete, _LOSSLESS)
    flags, low, high, low2, high2 = struct.unpack_from("<B3xHBHB", data, 20)
    orientation, frames, lossless = _walk(data, limits)
    check_count(frames, limits.max_frames, "frames", "max_image_frames")
    buffers = _ANIMATED if flags & _ANIMATION else _BLENDED if flags & _ALPHA or lossless else _LOSSY
    size = (high << 16 | low) + 1, (high2 << 16 | low2) + 1
    channels = 4 if flags & _ALPHA else 3
    return _header(data, (*size, channels), orientation if flags & _EXIF else 1, complete, buffers)


def _header(
    data: bytes, size: tuple[int, int, int], orientation: int, complete: bool, buffers: int
) -> Header:
    width, height, channels = size
    pixels = width * height
    per_byte = _PER_LOSSLESS_BYTE if buffers == _LOSSLESS else _PER_LOSSY_BYTE
    seconds = pixels * _PER_PIXEL * (2 if buffers == _ANIMATED else 1) + len(data) * per_byte
    return Header(
        "WebP", width, height, channels, len(data), orientation, complete, 1, pixels * buffers, seconds
    )


def _walk(data: bytes, limits: Limits) -> tuple[int, int, bool]:
    """Return (orientation, frames, whether one is lossless) of the chunks; the decoder walks over all of them too."""
    pos, seen, orientation, frames, lossless = 12, 0, 0, 0, False
    while pos + 8 <= len(data):
        kind, length = data[pos : pos + 4], int.from_bytes(data[pos + 4 : pos + 8], "little")
        if kind == b"EXIF" and not orientation:
            exif = data[pos + 8 : pos + 8 + length]
            # some writers keep the prefix that EXIF has in a JPEG
            orientation = exif_orientation(exif[6:] if exif[:6] == b"Exif\0\0" else exif)
        frames += kind == b"ANMF"
        lossless = lossless or kind == b"VP8L"
        # chunks begin at even offsets
        pos += 8 + length + (length & 1)
        seen += 1
        check_count(seen, limits.max_segments, "chunks", "max_image_segments")
    return orientation or 1, frames, lossless
