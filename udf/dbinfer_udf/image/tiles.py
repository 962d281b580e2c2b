"""Cuts an image into overlapping tiles, one row of them after the other. Of a TIFF only the strips or tiles on which a
row of ours lies are decoded; other files are decoded whole, within the limits.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

import cv2
import numpy as np

from ..errors import ImageError
from . import tiff
from .apart import apart
from .decode import Decoder
from .file import Limits, check_count, image_limits, too_large
from .header import read_header, sniff

# left, top, right, bottom, and the top of the next row of tiles
Region = Callable[[int, int, int, int, int], np.ndarray]


class Cut(NamedTuple):
    """How an image is to be cut, in pixels.

    Attributes:
        width, height: of a tile.
        across, down: by how much neighbours overlap, at least.
        step: tiles start at multiples of it, as a network that halves its sides needs them.
        pad: grey level of what lies beyond the image; None: the tile of a smaller image is as small as that.
    """

    width: int
    height: int
    across: int
    down: int
    step: int = 1
    pad: Optional[int] = None


class Grid(NamedTuple):
    """Where the tiles of one image lie.

    Attributes:
        size: width and height of the image as shown.
        columns, rows: left side of each column, top of each row.
    """

    cut: Cut
    size: Tuple[int, int]
    columns: Sequence[int]
    rows: Sequence[int]

    @property
    def places(self) -> Iterator[Tuple[int, int]]:
        """Left and top of each tile, row by row."""
        return ((x, y) for y in self.rows for x in self.columns)


def grid_of(data: bytes, cut: Cut, limits: Limits) -> Grid:
    """Return where the tiles of an image lie, from its header alone.

    Raises:
        ImageError: no image, or more tiles than allowed.
    """
    found = _blocks(data, limits)
    size = (found.width, found.height) if found is not None else read_header(data, limits).size
    sides = ((size[0], cut.width, cut.across), (size[1], cut.height, cut.down))
    starts = [_starts(length, side, overlap, cut.step) for length, side, overlap in sides]
    # before they are listed, for a header may claim any size
    count = (len(starts[0][0]) + 1) * (len(starts[1][0]) + 1)
    check_count(count, limits.max_segments, "tiles", "max_image_segments")
    memory = 3 * size[0] * min(cut.height, size[1])
    if memory > limits.max_memory:
        raise _too_much(memory, limits)
    columns, rows = ([*before, last] for before, last in starts)
    return Grid(cut, size, columns, rows)


def _starts(length: int, side: int, overlap: int, step: int) -> Tuple[range, int]:
    """Return where tiles start along a side, and where the last one does: it ends with the image, or less than a step
    beyond.
    """
    last = -(-max(0, length - side) // step) * step
    return range(0, last, max(step, (side - overlap) // step * step)), last


def _too_much(memory: int, limits: Limits) -> ImageError:
    return too_large(memory, limits.max_memory, "bytes of memory for a row of tiles", "max_image_memory")


def _blocks(data: bytes, limits: Limits) -> Optional[tiff.Blocks]:
    if len(data) > limits.max_bytes:
        raise too_large(len(data), limits.max_bytes, "bytes", "max_image_bytes")
    return tiff.blocks(data, limits) if sniff(data) == "TIFF" else None


def tiles(settings: Dict[str, str], data: bytes, cut: Cut, elsewhere: bool) -> Iterator[bytes]:
    """Yield each tile as a BMP file, in the order of `Grid.places`.

    Args:
        elsewhere: decode in a process of its own.

    Raises:
        ImageError: no image, damaged, or above the limits; a damaged part of a TIFF only when it is its turn.
    """
    if elsewhere:
        yield from apart(settings, "image.tiles:tiles_apart", [data], [list(cut)])
    else:
        limits = image_limits(settings)
        yield from _cut(limits, data, cut, _region(limits, data, cut, settings))


def tiles_apart(limits: Limits, data: bytes, cut: Sequence[Any]) -> Iterator[bytes]:
    """Yield the same in that process."""
    yield from _cut(limits, data, Cut(*cut), _region(limits, data, Cut(*cut), None))


def _cut(limits: Limits, data: bytes, cut: Cut, region: Region) -> Iterator[bytes]:
    grid = grid_of(data, cut, limits)
    below = dict(zip(grid.rows, [*grid.rows[1:], grid.size[1]]))
    for x, y in grid.places:
        right, bottom = min(x + cut.width, grid.size[0]), min(y + cut.height, grid.size[1])
        part = region(x, y, right, bottom, below[y])
        if cut.pad is not None and part.shape[:2] != (cut.height, cut.width):
            missing = 0, cut.height - part.shape[0], 0, cut.width - part.shape[1]
            part = cv2.copyMakeBorder(part, *missing, cv2.BORDER_CONSTANT, value=(cut.pad,) * 3)
        yield cv2.imencode(".bmp", part)[1].tobytes()


def _region(limits: Limits, data: bytes, cut: Cut, settings: Optional[Dict[str, str]]) -> Region:
    """Return what gives the pixels BGR of a part of the image; asked for from top to bottom."""
    found = _blocks(data, limits)
    decode = Decoder("BGR", limits, settings=settings, keeps=found is None)
    if found is not None:
        return _Mosaic(found, decode, limits, cut.height)
    picture = decode(data)[0]
    return lambda left, top, right, bottom, _below: picture[top:bottom, left:right]


class _Mosaic:
    """Puts parts of a TIFF together of its strips or tiles, each decoded once while one goes downwards."""

    def __init__(self, blocks: tiff.Blocks, decode: Decoder, limits: Limits, height: int) -> None:
        self._blocks, self._decode = blocks, decode
        self._kept: Dict[int, np.ndarray] = {}
        # strips may be as low as a line, or higher than a tile
        lines = min(height + blocks.down, blocks.height)
        memory = 3 * blocks.columns * blocks.across * lines
        if memory > limits.max_memory:
            raise _too_much(memory, limits)

    def __call__(self, left: int, top: int, right: int, bottom: int, below: int) -> np.ndarray:
        across, down, columns = self._blocks.across, self._blocks.down, self._blocks.columns
        rows = range(top // down, -(-bottom // down))
        self._forget(left, top, below)
        part = np.empty((bottom - top, right - left, 3), np.uint8)
        for row in rows:
            for column in range(left // across, -(-right // across)):
                block = self._block(row * columns + column)
                x, y = column * across - left, row * down - top
                here = block[max(0, -y) : bottom - top - y, max(0, -x) : right - left - x]
                y, x = max(0, y), max(0, x)
                part[y : y + here.shape[0], x : x + here.shape[1]] = here
        return part

    def _forget(self, left: int, top: int, below: int) -> None:
        """Let go of the blocks above this tile, and of those to its left that the next row does not need."""
        columns, across, down = self._blocks.columns, self._blocks.across, self._blocks.down
        for number in [*self._kept]:
            row, column = divmod(number, columns)
            end = (row + 1) * down
            if end <= top or (end <= below and (column + 1) * across <= left):
                del self._kept[number]

    def _block(self, number: int) -> np.ndarray:
        if number not in self._kept:
            self._kept[number] = self._decode(self._blocks.file(number))[0]
        return self._kept[number]
