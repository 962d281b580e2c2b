"""Reads the header of AVIF and HEIC, pictures in the boxes of an MP4 file, and decodes HEIC, which OpenCV does not."""

from __future__ import annotations

import struct
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..errors import ImageError
from .file import Header, Limits, check_count

AVIF, HEIC = "AVIF", "HEIC"
FORMATS = (AVIF, HEIC)
BRANDS_END = 32  # only brands before it count: the first one, and four that it is compatible with
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), AVIF),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"), HEIC),
}
_TOP = (b"ftyp", b"meta", b"mdat", b"moov", b"free", b"skip", b"uuid")
_ONCE = (b"ftyp", b"meta", b"moov")
_SEQUENCES = (b"avis", b"hevc", b"hevx", b"hevm", b"hevs", b"msf1")

# by quarter turns to the left (irot) and by mirror (imir): none, rows upside down, columns; as EXIF numbers them
_ORIENTATIONS = ((1, 4, 2), (8, 5, 7), (3, 2, 4), (6, 7, 5))
_PER_PIXEL, _PER_BYTE = 40e-9, 120e-9  # seconds, measured
_BUFFERS = {AVIF: 16, HEIC: 7}  # bytes a pixel beside the result, measured

Box = Tuple[bytes, int, int]  # kind, where its content begins and ends


class _Seen:
    """Counts the boxes of a file, however deep they lie, and the pictures that it says something of."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0

    def one(self) -> None:
        """Count one; ImageError where it is one too many."""
        self._count += 1
        check_count(self._count, self._most, "boxes", "max_image_segments")


def kind_of(head: bytes) -> Optional[str]:
    """Return AVIF or HEIC by the brands in a file's first 32 bytes; None for all else, a film for instance."""
    if head[4:8] != b"ftyp":
        return None
    end = min(BRANDS_END, int.from_bytes(head[:4], "big"))
    brands = (head[8:12], *(head[at : at + 4] for at in range(16, end, 4)))
    return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)


def read_heif(data: bytes, limits: Limits) -> Header:
    """Return the facts of an AVIF or HEIC: those of its primary picture.

    Raises:
        ImageError: it is damaged.
        struct.error: it ends too early.
    """
    format_ = kind_of(data) or HEIC
    seen = _Seen(limits.max_segments)
    top = {kind: (at, end) for kind, at, end in _top(data, seen)}
    complete = all(end <= len(data) for _, end in top.values())
    at, end = top.get(b"meta", (0, 0))
    if end > len(data) or not (at or complete):
        raise struct.error("the file ends within the header")
    # 4: behind version and flags, as below
    parts = {kind: (at, end) for kind, at, end in _boxes(data, at + 4, end, seen)}
    properties = _properties(data, parts, seen)
    width, height, channels, turned, mirrored = 0, 0, 3, 0, 0
    shown: Optional[Tuple[int, int]] = None
    for kind, at, _ in properties:
        if kind == b"ispe":
            width, height = struct.unpack_from(">II", data, at + 4)
        elif kind == b"pixi":
            channels = 1 if data[at + 4] == 1 else 3
        elif kind == b"irot":
            turned = data[at] & 3
        elif kind == b"imir":
            mirrored = 1 + (data[at] & 1)
        elif kind == b"clap" and format_ == HEIC:
            # encoders fill sizes that are no multiples of 8 or 16, and say so; OpenCV heeds it in no AVIF
            across, per, down, per_row = struct.unpack_from(">IIII", data, at)
            shown = across // (per or 1), down // (per_row or 1)
    alpha = b"auxC" in data[slice(*parts.get(b"iprp", (0, 0)))]
    pixels = width * height
    seconds = pixels * _PER_PIXEL + len(data) * _PER_BYTE
    orientation = _ORIENTATIONS[turned][mirrored]
    width, height = shown or (width, height)
    animated = data[8:12] in _SEQUENCES
    buffers = pixels * _BUFFERS[format_]
    channels += alpha
    return Header(
        format_, width, height, channels, len(data), orientation, complete, 1, buffers, seconds, animated
    )


def _top(data: bytes, seen: _Seen) -> Iterator[Box]:
    """Yield the boxes of the picture; other bytes may follow, as those of another one."""
    kinds = set()
    for kind, at, end in _boxes(data, 0, len(data), seen):
        if kind not in _TOP or (kind in kinds and kind in _ONCE):
            return
        kinds.add(kind)
        yield kind, at, end


def without_tail(data: bytes) -> bytes:
    """Return the file without what follows the picture, which libheif would read, too."""
    end = max(end for _, _, end in _top(data, _Seen(len(data))))
    return data[:end] if end < len(data) else data


def _boxes(data: bytes, at: int, end: int, seen: _Seen) -> Iterator[Box]:
    """Yield the boxes of a part of the file; the last one may claim to end beyond it."""
    while at + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, at)
        start = at + 8
        if size == 1:
            size = struct.unpack_from(">Q", data, start)[0]
            start += 8
        # 0: up to the end
        following = at + size if size else end
        if following < start:
            raise ImageError("the image is damaged: a box of its file has %d bytes" % size)
        seen.one()
        yield kind, start, following
        at = following


def _properties(data: bytes, parts: Dict[bytes, Tuple[int, int]], seen: _Seen) -> List[Box]:
    """Return the boxes that describe the primary picture, in their order."""
    if b"pitm" not in parts or b"iprp" not in parts:
        return []
    at, _ = parts[b"pitm"]
    primary = struct.unpack_from(">I" if data[at] else ">H", data, at + 4)[0]
    known: List[Box] = []
    wanted: List[int] = []
    for kind, at, end in _boxes(data, *parts[b"iprp"], seen):
        if kind == b"ipco":
            known = list(_boxes(data, at, end, seen))
        elif kind == b"ipma":
            wanted += _associated(data, at, primary, seen)
    return [known[number - 1] for number in wanted if 0 < number <= len(known)]


def _associated(data: bytes, at: int, primary: int, seen: _Seen) -> Iterator[int]:
    """Yield the numbers, from 1, of a picture's properties."""
    item = struct.Struct(">IB" if data[at] else ">HB")
    entry, most = (struct.Struct(">H"), 0x7FFF) if data[at + 3] & 1 else (struct.Struct(">B"), 0x7F)
    (items,) = struct.unpack_from(">I", data, at + 4)
    at += 8
    for _ in range(items):
        seen.one()
        number, count = item.unpack_from(data, at)
        at += item.size
        if number == primary:
            # the highest bit says that whoever does not know the property must not show the picture
            yield from (entry.unpack_from(data, at + entry.size * n)[0] & most for n in range(count))
        at += entry.size * count


def library() -> Any:
    """Return the package that decodes HEIC; None where it is not installed."""
    try:
        import pillow_heif
    except ImportError:
        return None
    # none of its own beside the decoder's one: rows run in parallel
    pillow_heif.options.DECODE_THREADS = 0
    return pillow_heif


def decode_heic(data: bytes) -> Any:
    """Return the pixels of a HEIC as shown: uint8 (height, width, 3) BGR, its alpha dropped.

    Raises:
        ImageError: it is damaged, or the package that reads it is not installed here.
    """
    import numpy as np

    found = library()
    if found is None:
        raise ImageError(
            "the HEIC image cannot be decoded here: the package pillow-heif is not installed",
            hint="Install it on each database host (VENV/bin/pip install pillow-heif), or store JPEG.",
        )
    try:
        picture = found.open_heif(without_tail(data), bgr_mode=True)
        pixels = np.asarray(picture)
    except (ValueError, RuntimeError, SyntaxError, EOFError, LookupError, OSError) as err:
        raise ImageError(
            "the HEIC image is damaged or of an unsupported kind: %s" % str(err).strip()
        ) from err
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, 2)
    return np.ascontiguousarray(pixels[:, :, :3])
