"""Reads the first directory of a TIFF as libtiff will: size, orientation, and what its strips or tiles will cost; and
gives each strip or tile as a TIFF of its own.
"""

from __future__ import annotations

import contextlib
import struct
from collections import Counter
from itertools import zip_longest
from typing import Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from ..errors import ImageError
from . import jpeg
from .file import (
    ORIENTATION,
    Entry,
    Header,
    Layout,
    Limits,
    check_count,
    directory_end,
    entries,
    first_directory,
    layout_of,
    number,
    numbers,
    valid_orientation,
)

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES, _ROWS = 256, 257, 258, 259, 262, 277, 278
_PLANES, _TILE_WIDTH, _TILE_HEIGHT = 284, 322, 323
# of strips, or of tiles
_OFFSETS, _SIZES = (273, 324), (279, 325)
_TAGS = {_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, ORIENTATION, _SAMPLES, _ROWS, _PLANES}
_TAGS |= {_TILE_WIDTH, _TILE_HEIGHT}
# what says how the bytes of a strip or tile become pixels: predictor, colours, JPEG's tables, YCbCr and the like
_OF_A_BLOCK = {
    _BITS, _COMPRESSION, _PHOTOMETRIC, 266, _SAMPLES, 292, 293, 317, 318, 319, 320, 332, 333, 336, 338, 339,
    340, 341, 347, 529, 530, 531, 532,
}  # fmt: skip
# By type of a value
_VALUE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 16: 8, 17: 8}
_MOST_VALUE = 1 << 20  # bytes; a palette of 16 bits has 393,216
_LONG = 4
_SEPARATE, _PALETTE, _LAB = 2, 3, 8
_JPEG = 7  # the old form, 6, is not in OpenCV's libtiff
_RGBA = 4  # libtiff gives each strip or tile in four bytes a pixel

_PER_PIXEL, _PER_RAW_BYTE, _PER_BYTE = 30e-9, 12e-9, 5e-9  # seconds, measured
# libtiff makes its tables of colours anew for each strip or tile
_PER_LAB_STRIP, _PER_DEEP_STRIP, _PER_STRIP = 180e-6, 70e-6, 20e-6


def read_tiff(data: bytes, limits: Limits) -> Header:
    """Return the facts of a TIFF; OpenCV itself refuses one that was cut off."""
    layout = layout_of(data)
    directory = first_directory(data, layout)
    _walk_pages(data, layout, directory, limits)
    found = _first_entries(data, layout, directory)
    tags = _tags(data, layout, found)
    width, height = tags.get(_WIDTH, 0), tags.get(_HEIGHT, 0)
    channels = 3 if tags.get(_PHOTOMETRIC) == _PALETTE else tags.get(_SAMPLES, 1)
    orientation = valid_orientation(tags.get(ORIENTATION, 1))
    strips, buffers, seconds = _cost(tags, width, height)
    check_count(strips, limits.max_segments, "strips or tiles", "max_image_segments")
    scans = 1
    if tags.get(_COMPRESSION) == _JPEG:
        scans, coefficients, unpacking = _jpegs(data, layout, found, strips, limits)
        buffers, seconds = buffers + coefficients, seconds + unpacking
    seconds += len(data) * _PER_BYTE
    return Header("TIFF", width, height, channels, len(data), orientation, True, scans, buffers, seconds)


def _first_entries(data: bytes, layout: Layout, directory: int) -> Dict[int, Entry]:
    """Return the entries by their tags.

    Of a tag that stands twice libtiff takes the first, so the second one must not hide what the first one says.
    """
    found: Dict[int, Entry] = {}
    for entry in entries(data, layout, directory):
        found.setdefault(entry.tag, entry)
    return found


def _tags(data: bytes, layout: Layout, found: Dict[int, Entry]) -> Dict[int, int]:
    """Return the tags that decide on memory and time.

    libtiff reads more types of numbers than any writer uses for these tags, which are refused here.
    """
    tags: Dict[int, int] = {}
    for entry in found.values():
        if entry.tag in _TAGS:
            value = number(data, layout, entry)
            if value is None:
                raise ImageError(f"the TIFF image is damaged: tag {entry.tag} has type {entry.kind}")
            tags[entry.tag] = value
    return tags


def _jpegs(
    data: bytes, layout: Layout, found: Dict[int, Entry], strips: int, limits: Limits
) -> Tuple[int, int, float]:
    """Return (most scans, most bytes of coefficients, seconds) of the JPEGs that the strips or tiles are.

    All may be the same bytes of the file, each time decoded anew; or overlap, so what walking over them costs is
    bounded for all of them together.
    """
    scans, coefficients, seconds, segments = 1, 0, 0.0, 0
    for (start, size), times in _places(data, layout, found, strips).items():
        one, seen = jpeg.measure_jpeg(data[start : start + size], limits)
        scans, coefficients = max(scans, one.scans), max(coefficients, one.buffers)
        seconds, segments = seconds + times * one.seconds, segments + seen
        check_count(segments, limits.max_segments, "segments", "max_image_segments")
        if seconds > limits.max_seconds:
            break
    return scans, coefficients, seconds


def _places(data: bytes, layout: Layout, found: Dict[int, Entry], strips: int) -> Dict[Tuple[int, int], int]:
    """Return where the strips or tiles are, and how often each place is used."""
    starts, sizes = (_array(data, layout, found, tags, strips) for tags in (_OFFSETS, _SIZES))
    # libtiff guesses sizes that are missing or 0
    pairs = zip_longest(starts, sizes[: len(starts)], fillvalue=0)
    return Counter((start, size or len(data)) for start, size in pairs if start)


def _array(
    data: bytes, layout: Layout, found: Dict[int, Entry], tags: Tuple[int, int], most: int
) -> Tuple[int, ...]:
    both = [found[tag] for tag in tags if tag in found]
    values = numbers(data, layout, both[0], most) if both else ()
    # libtiff takes either tag for either kind, and the later one of both
    if values is None or len(both) > 1:
        raise ImageError(f"the TIFF image is damaged: tag {tags[0]} or {tags[1]} makes no sense")
    return values


def _walk_pages(data: bytes, layout: Layout, directory: int, limits: Limits) -> None:
    """Raise where there are more pages than allowed; OpenCV counts them all before it reads the first."""
    for _ in _directories(data, layout, directory, limits):
        pass


def _directories(data: bytes, layout: Layout, directory: int, limits: Limits) -> Iterator[int]:
    """Yield the offset of each page's directory."""
    pages = 0
    try:
        while directory:
            pages += 1
            check_count(pages, limits.max_frames, "pages", "max_image_frames")
            yield directory
            directory = struct.unpack_from(
                layout.end + layout.offset, data, directory_end(data, layout, directory)
            )[0]
    except (struct.error, OverflowError):
        return


def pages(data: bytes, limits: Limits) -> Iterator[bytes]:
    """Yield the file anew for each page, with that page as its first and only one."""
    layout = layout_of(data)
    form, file = layout.end + layout.offset, bytearray(data)
    for directory in _directories(data, layout, first_directory(data, layout), limits):
        file[:] = data
        struct.pack_into(form, file, layout.first, directory)
        # where it would lie beyond the end, there is none
        with contextlib.suppress(struct.error):
            struct.pack_into(form, file, directory_end(data, layout, directory), 0)
        yield bytes(file)


class Blocks(NamedTuple):
    """The strips or tiles of a TIFF's first page, each of which can be decoded without the others.

    Attributes:
        width, height: of the image.
        across, down: of a block; the last strip has fewer rows, the last tiles reach beyond the image.
        starts, sizes: where the bytes of each block are, row by row.
        tiled: they are tiles.
    """

    data: bytes
    layout: Layout
    kept: Sequence[Entry]
    width: int
    height: int
    across: int
    down: int
    starts: Sequence[int]
    sizes: Sequence[int]
    tiled: bool

    @property
    def columns(self) -> int:
        """How many blocks stand side by side."""
        return -(-self.width // self.across)

    def file(self, number: int) -> bytes:
        """Return a block as a TIFF of one strip, so that OpenCV decodes it whatever its compression is."""
        rows = self.down if self.tiled else min(self.down, self.height - number * self.down)
        start, size = self.starts[number], self.sizes[number]
        if start + size > len(self.data):
            raise ImageError(
                f"the TIFF image is cut off: its data ends after {len(self.data)} bytes",
                detail=f"The strip or tile {number} ends after {start + size}.",
                hint="Load the whole file again.",
            )
        data, layout = self.data, self.layout
        out = bytearray(data[: layout.first] + bytes(struct.calcsize("<" + layout.offset)))
        own = {_WIDTH: self.across, _HEIGHT: rows, _OFFSETS[0]: len(out), _ROWS: rows, _SIZES[0]: size}
        out += data[start : start + size]
        number_of, room = struct.Struct(layout.end + "I").pack, layout.entry - layout.value_at
        lines = {tag: (_LONG, 1, number_of(value).ljust(room, b"\0")) for tag, value in own.items()}
        lines.update((entry.tag, self._copied(entry, out, room)) for entry in self.kept)
        struct.pack_into(layout.end + layout.offset, out, layout.first, len(out) + len(out) % 2)
        out += bytes(len(out) % 2) + struct.pack(layout.end + layout.length, len(lines))
        form = layout.end + "HH" + layout.offset
        for tag, (kind, values, value) in sorted(lines.items()):
            out += struct.pack(form, tag, kind, values) + value
        return bytes(out) + bytes(room)  # no further page

    def _copied(self, entry: Entry, out: bytearray, room: int) -> Tuple[int, int, bytes]:
        """Return type, count and value of an entry; a long value goes to the end of what was written."""
        size = _VALUE_BYTES[entry.kind] * entry.values
        if size <= room:
            return entry.kind, entry.values, self.data[entry.at : entry.at + room]
        # copied for each block
        if size > _MOST_VALUE:
            raise ImageError(f"the TIFF image is damaged: tag {entry.tag} has {size} bytes")
        form = self.layout.end + self.layout.offset
        at = struct.unpack_from(form, self.data, entry.at)[0]
        out += bytes(len(out) % 2)
        place = struct.pack(form, len(out))
        out += self.data[at : at + size]
        return entry.kind, entry.values, place


def blocks(data: bytes, limits: Limits) -> Optional[Blocks]:
    """Return the strips or tiles; None where the picture must be decoded whole: it is turned, or its colours lie apart.

    Raises:
        ImageError: the directory is cut off or makes no sense.
    """
    try:
        layout = layout_of(data)
        found = _first_entries(data, layout, first_directory(data, layout))
        tags = _tags(data, layout, found)
        width, height, tiled = tags.get(_WIDTH, 0), tags.get(_HEIGHT, 0), _TILE_WIDTH in tags
        across, down = (
            (tags[_TILE_WIDTH], tags.get(_TILE_HEIGHT, 0)) if tiled else (width, tags.get(_ROWS, 0))
        )
        apart = tags.get(_PLANES) == _SEPARATE or tags.get(ORIENTATION, 1) != 1
        if apart or min(width, height, across, down) < 1:
            return None
        down = down if tiled else min(down, height)
        count = -(-width // across) * -(-height // down)
        check_count(count, limits.max_segments, "strips or tiles", "max_image_segments")
        starts, sizes = (_array(data, layout, found, tags, count) for tags in (_OFFSETS, _SIZES))
    except (struct.error, IndexError, OverflowError):
        raise ImageError(f"the image is cut off: its {len(data)} bytes end within the header") from None
    if len(starts) < count or len(sizes) < count:
        return None
    kept = [entry for tag, entry in found.items() if tag in _OF_A_BLOCK and entry.kind in _VALUE_BYTES]
    return Blocks(data, layout, kept, width, height, across, down, starts, sizes, tiled)


def _cost(tags: Dict[int, int], width: int, height: int) -> tuple[int, int, float]:
    """Return (strips or tiles, bytes beside the result, seconds)."""
    tiled = _TILE_WIDTH in tags or _TILE_HEIGHT in tags
    across = (tags.get(_TILE_WIDTH) if tiled else 0) or width or 1
    # without a number of rows, all of them are one strip
    down = tags.get(_TILE_HEIGHT if tiled else _ROWS) or height or 1
    down = down if tiled else min(down, height or 1)
    # a file may say 0
    samples, bits = min(4, tags.get(_SAMPLES) or 1), min(64, tags.get(_BITS, 1))
    planes = samples if tags.get(_PLANES) == _SEPARATE else 1
    strips = -(-width // across) * -(-height // down) * planes
    raw = across * down * samples * bits // 8
    # the pixels of one strip, and what it was unpacked from; of a single strip that is gone before the result is filled
    whole = across * down >= width * height
    buffers = across * down * _RGBA + (max(0, raw - 3 * width * height) if whole else raw)
    lab, deep = tags.get(_PHOTOMETRIC) == _LAB, bits > 8
    setup = _PER_LAB_STRIP if lab else _PER_DEEP_STRIP if deep else _PER_STRIP
    unpacked = strips * raw // planes
    seconds = strips * setup + width * height * _PER_PIXEL + unpacked * _PER_RAW_BYTE
    return strips, buffers, seconds
