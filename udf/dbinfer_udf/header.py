"""Reads format, size and orientation of an image from its first bytes; no pixel is decoded."""

from __future__ import annotations

import struct
from typing import Callable, Dict, Iterator, NamedTuple, Optional, Tuple

from .errors import ImageError
from .exif import (
    HEIGHT,
    ORIENTATION,
    PALETTE,
    PHOTOMETRIC,
    SAMPLES,
    WIDTH,
    exif_orientation,
    tiff_tags,
    valid_orientation,
)

FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WebP", "GIF")
HINT = "Supported formats: JPEG, PNG, BMP, TIFF, WebP and GIF."
HEAD_BYTES = 18  # what sniff() looks at: a BMP's tell-tale comes last

_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
# Two letters are too little to tell a BMP from a text, so the size of its second header must be one that exists; OpenCV
# reads these and not the 16 bytes of OS/2's short form.
_BMP_HEADERS = frozenset(struct.pack("<I", size) for size in (12, 40, 52, 56, 64, 108, 124))
_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_WEBP_CHUNKS = (b"VP8 ", b"VP8L", b"VP8X")
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_STANDALONE = frozenset(range(0xD0, 0xD9)) | {0x01, 0x00}

_png_start = struct.Struct(">16xIIxB7x4s").unpack_from
_png_chunk = struct.Struct(">I4s").unpack_from
_u16 = struct.Struct(">H").unpack_from
_jpeg_frame = struct.Struct(">HHB").unpack_from


class Header(NamedTuple):
    """What the first bytes of an image file say.

    Attributes:
        format: one of FORMATS.
        width, height: in pixels, as stored.
        channels: as in the file: 1 gray, 2 gray with alpha, 3 colour or palette, 4 colour with alpha or CMYK.
        bytes: size of the file.
        orientation: EXIF's 1 to 8; from 5 on, width and height swap when the image is shown.
    """

    format: str
    width: int
    height: int
    channels: int
    bytes: int
    orientation: int = 1

    @property
    def size(self) -> Tuple[int, int]:
        """Width and height of the image as shown, the orientation applied."""
        return (self.width, self.height) if self.orientation < 5 else (self.height, self.width)


def sniff(head: bytes) -> Optional[str]:
    """Return the format of a file by its first 18 bytes (HEAD_BYTES); None for what read_header calls no image."""
    format_, is_one = _SIGNATURES.get(head[:2], _NOTHING)
    return format_ if is_one(head) else None


_SIGNATURES: Dict[bytes, Tuple[Optional[str], Callable[[bytes], bool]]] = {
    b"\xff\xd8": ("JPEG", lambda head: head[2:3] == b"\xff"),
    b"\x89P": ("PNG", lambda head: head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR"),
    b"BM": ("BMP", lambda head: head[14:18] in _BMP_HEADERS),
    b"II": ("TIFF", lambda head: head[:4] in _TIFF_SIGNATURES),
    b"MM": ("TIFF", lambda head: head[:4] in _TIFF_SIGNATURES),
    b"RI": (
        "WebP",
        lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP" and head[12:16] in _WEBP_CHUNKS,
    ),
    b"GI": ("GIF", lambda head: head[:6] in (b"GIF87a", b"GIF89a")),
}
_NOTHING: Tuple[Optional[str], Callable[[bytes], bool]] = (None, lambda head: False)


def read_header(data: bytes) -> Header:
    """Return the facts of an image file.

    Raises:
        ImageError: no bytes, no image of a supported format, or a header that is cut off or makes no sense.
    """
    format_ = sniff(data)
    if format_ is None:
        raise _not_an_image(data)
    try:
        header = _READERS[format_](data)
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


def _png(data: bytes) -> Header:
    width, height, color, second = _png_start(data)
    orientation = 1 if second == b"IDAT" else _png_orientation(data)
    return Header("PNG", width, height, _PNG_CHANNELS.get(color, 3), len(data), orientation)


def _png_orientation(data: bytes) -> int:
    """Return the orientation of an eXIf chunk before the pixels; 1 without one."""
    pos = 33
    while pos + 8 <= len(data):
        length, kind = _png_chunk(data, pos)
        if kind == b"eXIf":
            return exif_orientation(data[pos + 8 : pos + 8 + length])
        if kind == b"IDAT":
            break
        pos += length + 12
    return 1


def jpeg_segments(data: bytes) -> Iterator[Tuple[int, int, int]]:
    """Yield (marker, offset of its content, length of its content) up to the start of the first scan."""
    pos = 2
    while True:
        if data[pos] != 0xFF:
            pos = data.find(b"\xff", pos)
            if pos < 0:
                raise IndexError
        marker = data[pos + 1]
        if marker == 0xFF:
            pos += 1
            continue
        if marker in _STANDALONE:
            pos += 2
            continue
        length: int = _u16(data, pos + 2)[0]
        yield marker, pos + 4, length - 2
        if marker == 0xDA:
            return
        pos += 2 + max(length, 2)


def _jpeg(data: bytes) -> Header:
    orientation = 1
    for marker, start, length in jpeg_segments(data):
        if marker in _SOF:
            height, width, channels = _jpeg_frame(data, start + 1)
            return Header("JPEG", width, height, channels, len(data), orientation)
        if marker == 0xE1 and data[start : start + 6] == b"Exif\0\0":
            orientation = exif_orientation(data[start + 6 : start + length])
    raise ImageError("the JPEG image is damaged: its pixels start before its size is given")


def _gif(data: bytes) -> Header:
    width, height = struct.unpack_from("<HH", data, 6)
    return Header("GIF", width, height, 3, len(data))


def _bmp(data: bytes) -> Header:
    layout = "<HHHH" if data[14:18] == b"\x0c\0\0\0" else "<iiHH"
    width, height, _planes, bits = struct.unpack_from(layout, data, 18)
    return Header("BMP", width, abs(height), 4 if bits == 32 else 3, len(data))


def _webp(data: bytes) -> Header:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("WebP", width & 0x3FFF, height & 0x3FFF, 3, len(data))
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        return Header("WebP", width, height, 4 if bits >> 28 & 1 else 3, len(data))
    flags, low, high, low2, high2 = struct.unpack_from("<B3xHBHB", data, 20)
    orientation = _webp_orientation(data) if flags & 8 else 1
    channels = 4 if flags & 16 else 3
    return Header("WebP", (high << 16 | low) + 1, (high2 << 16 | low2) + 1, channels, len(data), orientation)


def _webp_orientation(data: bytes) -> int:
    pos = 12
    while pos + 8 <= len(data):
        length = struct.unpack_from("<I", data, pos + 4)[0]
        if data[pos : pos + 4] == b"EXIF":
            exif = data[pos + 8 : pos + 8 + length]
            return exif_orientation(exif[6:] if exif[:6] == b"Exif\0\0" else exif)
        pos += 8 + length + (length & 1)
    return 1


def _tiff(data: bytes) -> Header:
    tags = dict(tiff_tags(data))
    channels = 3 if tags.get(PHOTOMETRIC) == PALETTE else tags.get(SAMPLES, 1)
    orientation = valid_orientation(tags.get(ORIENTATION, 1))
    return Header("TIFF", tags.get(WIDTH, 0), tags.get(HEIGHT, 0), channels, len(data), orientation)


_READERS: Dict[str, Callable[[bytes], Header]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "BMP": _bmp,
    "TIFF": _tiff,
    "WebP": _webp,
    "GIF": _gif,
}
