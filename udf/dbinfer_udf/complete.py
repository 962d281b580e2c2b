"""Says whether an image file was cut off, which decoders often show as a picture that is half gray."""

from __future__ import annotations

import struct
from typing import Callable, Dict

from .header import jpeg_segments

_JPEG_END = b"\xff\xd9"
_PNG_END = b"IEND\xaeB`\x82"
_BMP_COMPRESSED = (1, 2, 4, 5)
_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C


def _jpeg(data: bytes) -> bool:
    """Return whether an end marker follows the start of the pixels; other bytes may follow it."""
    if data.endswith(_JPEG_END):
        return True
    try:
        scan = [start for _marker, start, _length in jpeg_segments(data)][-1]
    except (IndexError, struct.error):
        return False
    return data.find(_JPEG_END, scan) > 0


def _png(data: bytes) -> bool:
    return data.endswith(_PNG_END) or data.rfind(_PNG_END, 33) > 0


def _webp(data: bytes) -> bool:
    return len(data) >= int.from_bytes(data[4:8], "little") + 8


def _bmp(data: bytes) -> bool:
    """Return whether uncompressed pixels are all there; OpenCV checks run lengths itself."""
    pixels, size = struct.unpack_from("<10xII", data)
    if size == 12:
        width, height, _planes, bits = struct.unpack_from("<HHHH", data, 18)
    else:
        width, height, _planes, bits, compression = struct.unpack_from("<iiHHI", data, 18)
        if compression in _BMP_COMPRESSED:
            return True
    row: int = (width * bits + 31) // 32 * 4
    needed: int = pixels + row * abs(height)
    return len(data) >= needed


def _gif(data: bytes) -> bool:
    """Return whether the blocks lead to the trailer; what makes no sense is left to the decoder."""
    try:
        pos = 13 + _gif_palette(data[10])
        while data[pos] in (_GIF_EXTENSION, _GIF_IMAGE):
            pos += 2 if data[pos] == _GIF_EXTENSION else 11 + _gif_palette(data[pos + 9])
            while data[pos]:
                pos += 1 + data[pos]
            pos += 1
    except IndexError:
        return False
    return True


def _gif_palette(flags: int) -> int:
    """Return the bytes of a colour table."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _tiff(data: bytes) -> bool:
    """Return True: OpenCV itself refuses a TIFF that is cut off."""
    return True


COMPLETE: Dict[str, Callable[[bytes], bool]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "BMP": _bmp,
    "TIFF": _tiff,
    "WebP": _webp,
    "GIF": _gif,
}
