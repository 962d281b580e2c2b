"""Tells the format of an image file by its first bytes, and reads its header; no pixel is decoded."""

from __future__ import annotations

import struct
from typing import Callable, Dict, Optional, Tuple

from ..errors import ImageError
from ..host.image_limits import DEFAULT_LIMITS, Limits
from . import formats, jpeg, tiff
from .file import Header

__all__ = ["FORMATS", "HEAD_BYTES", "HINT", "Header", "read_header", "sniff"]

FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WebP", "GIF")
HINT = "Supported formats: JPEG, PNG, BMP, TIFF, WebP and GIF."
HEAD_BYTES = 18  # what sniff() looks at: a BMP's tell-tale comes last

# Two letters are too little to tell a BMP from a text, so the size of its second header must be one that exists; OpenCV
# reads these and not the 16 bytes of OS/2's short form.
_BMP_HEADERS = frozenset(struct.pack("<I", size) for size in (12, 40, 52, 56, 64, 108, 124))
_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_WEBP_CHUNKS = (b"VP8 ", b"VP8L", b"VP8X")


def sniff(head: bytes) -> Optional[str]:
    """Return the format of a file by its first 18 bytes (HEAD_BYTES); None for what read_header calls no image."""
    found = _SIGNATURES.get(head[:2])
    return found[0] if found is not None and found[1](head) else None


# By the first two bytes: the format, whether the file is one, and what reads it
_SIGNATURES: Dict[bytes, Tuple[str, Callable[[bytes], bool], Callable[[bytes, Limits], Header]]] = {
    b"\xff\xd8": ("JPEG", lambda head: head[2:3] == b"\xff", jpeg.read),
    b"\x89P": (
        "PNG",
        lambda head: head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR",
        formats.read_png,
    ),
    b"BM": ("BMP", lambda head: head[14:18] in _BMP_HEADERS, formats.read_bmp),
    b"II": ("TIFF", lambda head: head[:4] in _TIFF_SIGNATURES, tiff.read),
    b"MM": ("TIFF", lambda head: head[:4] in _TIFF_SIGNATURES, tiff.read),
    b"RI": (
        "WebP",
        lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP" and head[12:16] in _WEBP_CHUNKS,
        formats.read_webp,
    ),
    b"GI": ("GIF", lambda head: head[:6] in (b"GIF87a", b"GIF89a"), formats.read_gif),
}


def read_header(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Return the facts of an image file, and what decoding it will cost.

    Args:
        limits: only those on segments and frames count here: a walk over more would itself take seconds.

    Raises:
        ImageError: no bytes, no image of a supported format, or a header that is cut off or makes no sense.
    """
    found = _SIGNATURES.get(data[:2])
    if found is None or not found[1](data):
        raise _not_an_image(data)
    try:
        header = found[2](data, limits)
    except (struct.error, IndexError, OverflowError):
        raise _cut_off(data) from None
    if header.width < 1 or header.height < 1:
        raise ImageError(f"the {header.format} image has no pixels: {header.width} x {header.height}")
    return header


def _not_an_image(data: bytes) -> ImageError:
    if not data:
        return ImageError("the image is empty: it has 0 bytes", hint="Use NULL where there is no image.")
    if len(data) < HEAD_BYTES and data[:2] in _SIGNATURES:
        return _cut_off(data)
    return ImageError(f"not an image: the first bytes are {bytes(data[:8])!r}", hint=HINT)


def _cut_off(data: bytes) -> ImageError:
    return ImageError(f"the image is cut off: its {len(data)} bytes end within the header")
