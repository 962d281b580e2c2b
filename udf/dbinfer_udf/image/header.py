"""Tells the format of an image file by its first bytes, and reads its header: size, orientation and what decoding will
cost. No pixel is decoded; JPEG, TIFF, and AVIF with HEIC have modules of their own.
"""

from __future__ import annotations

import struct
from typing import Callable, Dict, Iterator, Optional, Tuple

from ..errors import ImageError
from . import heif, jpeg, tiff
from .file import DEFAULT_LIMITS, Header, Limits, check_count, exif_orientation

FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WebP", "GIF", *heif.FORMATS)
HINT = "Supported formats: %s and %s; films: dbinfer.frames." % (", ".join(FORMATS[:-1]), FORMATS[-1])
HEAD_BYTES = heif.BRANDS_END  # what sniff() looks at
_LEAST_BYTES = 18  # a BMP's tell-tale ends there

# Two letters are too little to tell a BMP from a text, so the size of its second header must be one that exists; OpenCV
# reads these and not the 16 bytes of OS/2's short form.
_BMP_HEADERS = frozenset(struct.pack("<I", size) for size in (12, 40, 52, 56, 64, 108, 124))
_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_WEBP_CHUNKS = (b"VP8 ", b"VP8L", b"VP8X")


def sniff(head: bytes) -> Optional[str]:
    """Return the format of a file by its first 32 bytes (HEAD_BYTES); None for what read_header calls no image."""
    found = _SIGNATURES.get(head[:2])
    return found[0](head) if found is not None else None


def read_header(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Return the facts of an image file, and what decoding it will cost.

    Args:
        limits: only those on segments and frames count here: a walk over more would itself take seconds.

    Raises:
        ImageError: no bytes, no image of a supported format, or a header that is cut off or makes no sense.
    """
    found = _SIGNATURES.get(data[:2])
    if found is None or not found[0](data):
        raise _not_an_image(data)
    try:
        header = found[1](data, limits)
    except (struct.error, IndexError, OverflowError):
        raise _cut_off(data) from None
    if header.width < 1 or header.height < 1:
        raise ImageError(f"the {header.format} image has no pixels: {header.width} x {header.height}")
    return header


def _not_an_image(data: bytes) -> ImageError:
    if not data:
        return ImageError("the image is empty: it has 0 bytes", hint="Use NULL where there is no image.")
    if len(data) < _LEAST_BYTES and data[:2] in _SIGNATURES:
        return _cut_off(data)
    return ImageError(f"not an image: the first bytes are {bytes(data[:8])!r}", hint=HINT)


def _cut_off(data: bytes) -> ImageError:
    return ImageError(f"the image is cut off: its {len(data)} bytes end within the header")


_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_start = struct.Struct(">16xIIxB2xB").unpack_from
_chunk = struct.Struct(">I4s").unpack_from

# libpng inflates each to 8 MB at most, and deflate gains 1032 times at most
_TEXTS = (b"zTXt", b"iTXt", b"iCCP")
_MOST_TEXT, _GAIN = 8_000_000, 1032
_APNG = (b"acTL", b"fcTL", b"fdAT")
_PNG_PER_PIXEL, _PER_INTERLACED, _PER_TEXT, _PNG_PER_BYTE = 32e-9, 60e-9, 3.5e-9, 2e-9  # seconds, measured


def _read_png(data: bytes, limits: Limits) -> Header:
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
        elif kind in _TEXTS:
            text += min(_MOST_TEXT, length * _GAIN)
        elif kind == b"eXIf" and not pixels and not orientation:
            # the first alone, as libpng does: each may hold a directory of 4,096 entries
            orientation = exif_orientation(data[pos + 8 : pos + 8 + length])
        elif kind == b"acTL":
            animated = True
        pos = following
    if color not in _CHANNELS or (complete and not pixels):
        raise ImageError("the PNG image is damaged: it has no pixels, or they are of no known kind")
    per_pixel = _PER_INTERLACED if interlaced else _PNG_PER_PIXEL
    seconds = width * height * per_pixel + text * _PER_TEXT + end * _PNG_PER_BYTE
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
    kept = [data[pos : pos + 12 + length] for pos, length, kind in _chunks(data) if kind not in _APNG]
    return data[:33] + b"".join(kept)


_EXTENSION, _IMAGE = 0x21, 0x2C
_USUAL_BLOCK = 100  # bytes; encoders fill 255, and blocks of one byte would be walked over for seconds
_GIF_PER_PIXEL, _GIF_PER_BYTE = 25e-9, 40e-9  # seconds, measured
_CANVAS = 4  # bytes a pixel


def _read_gif(data: bytes, limits: Limits) -> Header:
    """Return the facts of a GIF; its blocks must lead to the trailer, what makes no sense is left to the decoder."""
    width, height = struct.unpack_from("<HH", data, 6)
    frame, complete = _blocks(data, limits)
    pixels, shown = width * height, _frame_pixels(data, frame)
    # a frame that is taken back after it was shown is kept twice
    buffers = _CANVAS * pixels + (1 + _CANVAS) * shown
    seconds = pixels * _GIF_PER_PIXEL + len(data) * _GIF_PER_BYTE
    return Header("GIF", width, height, 3, len(data), 1, complete, 1, buffers, seconds)


def first_frame(data: bytes, limits: Limits) -> int:
    """Return the offset of the first frame's descriptor; 0 without one."""
    return _blocks(data, limits)[0]


def _blocks(data: bytes, limits: Limits) -> Tuple[int, bool]:
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


# length of OS/2's first header, with sizes of 16 bits and no compression
_SHORT = b"\x0c\0\0\0"
# run lengths, JPEG, PNG: how many bytes their pixels take stands nowhere
_RUN_LENGTHS = (1, 2, 4, 5)
_BMP_PER_PIXEL = 25e-9  # seconds, measured


def _read_bmp(data: bytes, limits: Limits) -> Header:
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
    complete = compression in _RUN_LENGTHS or len(data) >= pixels + row * height
    seconds = width * height * _BMP_PER_PIXEL
    return Header("BMP", width, height, 4 if bits == 32 else 3, len(data), 1, complete, 1, 0, seconds)


_EXIF, _ALPHA, _ANIMATION = 8, 16, 2
_WEBP_PER_PIXEL, _PER_LOSSY_BYTE, _PER_LOSSLESS_BYTE = 25e-9, 70e-9, 20e-9  # seconds, measured
# Bytes a pixel beside the result: colour where gray is wanted; the lossless decoder's own; alpha; two canvases.
_LOSSY, _LOSSLESS, _BLENDED, _ANIMATED = 3, 7, 9, 16


def _read_webp(data: bytes, limits: Limits) -> Header:
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
    orientation, frames, lossless = _riff_chunks(data, limits)
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
    seconds = pixels * _WEBP_PER_PIXEL * (2 if buffers == _ANIMATED else 1) + len(data) * per_byte
    return Header(
        "WebP", width, height, channels, len(data), orientation, complete, 1, pixels * buffers, seconds
    )


def _riff_chunks(data: bytes, limits: Limits) -> tuple[int, int, bool]:
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


def _if(name: str, is_one: Callable[[bytes], bool]) -> Callable[[bytes], Optional[str]]:
    return lambda head: name if is_one(head) else None


# By the first two bytes: what tells the format (None: it is none), and what reads the header
_SIGNATURES: Dict[bytes, Tuple[Callable[[bytes], Optional[str]], Callable[[bytes, Limits], Header]]] = {
    b"\xff\xd8": (_if("JPEG", lambda head: head[2:3] == b"\xff"), jpeg.read_jpeg),
    b"\x89P": (
        _if("PNG", lambda head: head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR"),
        _read_png,
    ),
    b"BM": (_if("BMP", lambda head: head[14:18] in _BMP_HEADERS), _read_bmp),
    b"II": (_if("TIFF", lambda head: head[:4] in _TIFF_SIGNATURES), tiff.read_tiff),
    b"MM": (_if("TIFF", lambda head: head[:4] in _TIFF_SIGNATURES), tiff.read_tiff),
    b"RI": (
        _if(
            "WebP", lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP" and head[12:16] in _WEBP_CHUNKS
        ),
        _read_webp,
    ),
    b"GI": (_if("GIF", lambda head: head[:6] in (b"GIF87a", b"GIF89a")), _read_gif),
    b"\0\0": (heif.kind_of, heif.read_heif),
}
