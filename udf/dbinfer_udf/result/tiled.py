"""Makes one result of what a network finds in the overlapping tiles of an image: a mask without seams, or objects.

What leaves a tile's network are plain numbers, no PNG and no text, because the process that runs it may have been taken
over by a hostile image, and no decoder of a backend should see what it says.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from ..errors import ImageError
from ..host.protocol import no_answer
from ..image.file import Header
from ..image.resize import Placement
from ..image.tiles import Grid
from ..manifest import Manifest
from .detection import COLUMNS, MOST_CLASSES, Detections, Way, detections, detector_labels, literal
from .mask import pixels

MOST_PNG = (1 << 30) - 1024  # bytes; a value of PostgreSQL has less than 1 GB
MOST_OBJECTS = 1_000_000
SAME = 0.5  # intersection over union from which two boxes are of one object
AT_ONCE = 64  # lines of a PNG
MOST_PAIRED = 1000  # boxes of a tile that are compared with those of another, each with each
# Sides that end within so many parts of a tile from its border are cut off there
BORDER = 64


class Mask:
    """The mask of a whole image: of each overlap either tile gives the half that is nearer to it.

    Args:
        grid: where the tiles lie.
    """

    def __init__(self, grid: Grid, _manifest: Manifest) -> None:
        self._grid = grid
        self._across = _shares(grid.columns, grid.cut.width, grid.size[0])
        self._down = _shares(grid.rows, grid.cut.height, grid.size[1])
        self._png = PngWriter(*grid.size)
        self._lines = np.empty((0, 0), np.uint8)

    @staticmethod
    def found(model: Any, output: np.ndarray, placement: Placement, header: Header) -> bytes:
        """Return the mask of a tile, a byte for each pixel."""
        return pixels(output, model.layout, model.manifest, placement, header.size)[0].tobytes()

    def add(self, number: int, found: bytes) -> None:
        """Take the mask of the next tile."""
        row, column = divmod(number, len(self._grid.columns))
        cut, (left, right), (top, bottom) = self._grid.cut, self._across[column], self._down[row]
        if len(found) != cut.width * cut.height:
            raise no_answer()
        tile = np.frombuffer(found, np.uint8).reshape(cut.height, cut.width)
        if not column:
            self._lines = np.empty((bottom - top, self._grid.size[0]), np.uint8)
        x, y = self._grid.columns[column], self._grid.rows[row]
        self._lines[:, left:right] = tile[top - y : bottom - y, left - x : right - x]
        if right == self._grid.size[0]:
            self._png.add(self._lines)

    def result(self) -> bytes:
        """Return the mask as an 8-bit gray PNG."""
        return self._png.end()


def _shares(starts: Sequence[int], side: int, length: int) -> List[Tuple[int, int]]:
    """Return from where to where each tile's result counts along a side: up to the middle of each overlap."""
    middles = [(before + side + start) // 2 for before, start in zip(starts, starts[1:])]
    return list(zip([0, *middles], [*middles, length]))


class PngWriter:
    """Writes an 8-bit gray PNG some lines at a time; only these, and what is compressed, lie in memory.

    Lines are stored as differences from the line above, and equal bytes as run lengths, as mask.png has OpenCV do it.
    """

    def __init__(self, width: int, height: int) -> None:
        self._before = np.zeros(width, np.uint8)
        self._deflate = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
        self._parts = [b"\x89PNG\r\n\x1a\n"]
        self._bytes = 0
        self._chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))

    def add(self, lines: np.ndarray) -> None:
        """Write the next lines, uint8 (n, width)."""
        for first in range(0, len(lines), AT_ONCE):
            self._add(lines[first : first + AT_ONCE])

    def _add(self, lines: np.ndarray) -> None:
        up = np.empty((lines.shape[0], lines.shape[1] + 1), np.uint8)
        up[:, 0] = 2  # the filter
        np.subtract(lines[0], self._before, up[0, 1:])
        np.subtract(lines[1:], lines[:-1], up[1:, 1:])
        self._before = lines[-1].copy()
        self._chunk(b"IDAT", self._deflate.compress(up.data))

    def end(self) -> bytes:
        """Return the file."""
        self._chunk(b"IDAT", self._deflate.flush())
        self._chunk(b"IEND", b"")
        found = b"".join(self._parts)
        self._parts.clear()
        return found

    def _chunk(self, kind: bytes, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > MOST_PNG:
            raise ImageError(
                "the mask of the image takes more than 1 GB, which no value can hold",
                hint="Score its tiles as rows: dbinfer.segment(t.tile) for dbinfer.tiles(img) t.",
                sqlstate="54000",
            )
        self._parts += [struct.pack(">I", len(data)), kind, data, struct.pack(">I", zlib.crc32(kind + data))]


class _Tile(NamedTuple):
    """What was found in a tile.

    Attributes:
        rows: as Objects.found gives them, but on the image.
        cut: which of them end at a border of the tile that is none of the image.
        first: number of the first one among all.
    """

    bounds: Tuple[int, int, int, int]
    rows: np.ndarray
    cut: np.ndarray
    first: int


class Objects:
    """The objects of a whole image: boxes that agree where two tiles overlap are one object.

    An object that a tile shows whole keeps that box. Where each tile cuts it off, its box holds all its parts.
    """

    def __init__(self, grid: Grid, manifest: Manifest) -> None:
        self._grid, self._most = grid, manifest.max_detections
        self._labels = detector_labels((1, 0, 6), manifest.labels)
        self._tiles: List[_Tile] = []
        # of tiles that later ones may overlap
        self._near: List[_Tile] = []
        self._same: Dict[int, int] = {}
        self._count = 0

    @staticmethod
    def found(model: Any, output: np.ndarray, placement: Placement, header: Header) -> bytes:
        """Return the objects of a tile: float32 (n, 6), left, top, right, bottom, score, class."""
        # a tile is as large as the input
        objects = detections(output, model.manifest, Way(1, 1, 0, 0), header.size)
        columns = (objects.boxes, objects.scores, objects.classes)
        return np.column_stack(columns).astype(np.float32).tobytes()

    def add(self, number: int, found: bytes) -> None:
        """Take the objects of the next tile."""
        row, column = divmod(number, len(self._grid.columns))
        x, y, (width, height) = self._grid.columns[column], self._grid.rows[row], self._grid.size
        bounds = (x, y, min(x + self._grid.cut.width, width), min(y + self._grid.cut.height, height))
        rows = self._on_image(found, bounds)
        if not len(rows):
            return
        tile = _Tile(bounds, rows, self._cut_off(rows, bounds), self._count)
        self._near = [other for other in self._near if other.bounds[3] > y]
        for other in self._near:
            for mine, theirs in _agreeing(tile, other):
                root, of = self._root(tile.first + mine), self._root(other.first + theirs)
                if root != of:
                    self._same[root] = of
        self._near.append(tile)
        self._tiles.append(tile)
        self._count += len(rows)
        if self._count > MOST_OBJECTS:
            raise ImageError(
                "the tiles of the image hold more than %d objects" % MOST_OBJECTS,
                hint="Raise the model's threshold, or score tiles as rows: dbinfer.detect(t.tile).",
                sqlstate="54000",
            )

    def _on_image(self, found: bytes, bounds: Tuple[int, int, int, int]) -> np.ndarray:
        size = COLUMNS * np.dtype(np.float32).itemsize
        if len(found) % size or len(found) > size * self._most:
            raise no_answer()
        rows = np.frombuffer(found, np.float32).reshape(-1, COLUMNS).astype(np.float64)
        if not (np.isfinite(rows).all() and ((rows[:, 5] >= 0) & (rows[:, 5] < MOST_CLASSES)).all()):
            raise no_answer()
        left, top, right, bottom = bounds
        rows[:, :4] = np.clip(rows[:, :4] + (left, top, left, top), (left, top) * 2, (right, bottom) * 2)
        # in the padding there is nothing
        there: np.ndarray = rows[(rows[:, 2] > rows[:, 0]) & (rows[:, 3] > rows[:, 1])]
        return there

    def _root(self, number: int) -> int:
        """Return the number that stands for all boxes of an object."""
        while number in self._same:
            number = self._same[number]
        return number

    def result(self) -> str:
        """Return the literal of dbinfer.detection[], highest score first."""
        rows = np.concatenate([np.empty((0, 6)), *(tile.rows for tile in self._tiles)])
        cut = np.concatenate([np.empty(0, bool), *(tile.cut for tile in self._tiles)])
        parts: Dict[int, List[int]] = {}
        for number in {*self._same, *self._same.values()}:
            parts.setdefault(self._root(number), []).append(number)
        alone = np.ones(len(rows), bool)
        for root, numbers in parts.items():
            alone[numbers] = False
            alone[root] = True
            rows[root] = _joined(rows[numbers], cut[numbers])
        rows = rows[alone]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")]
        classes = rows[:, 5].astype(np.int32).tolist()
        return literal(Detections(rows[:, :4], rows[:, 4].tolist(), classes), self._labels)

    def _cut_off(self, rows: np.ndarray, bounds: Tuple[int, int, int, int]) -> np.ndarray:
        left, top, right, bottom = bounds
        width, height = self._grid.size
        near = self._grid.cut.width / BORDER, self._grid.cut.height / BORDER
        low, high = rows[:, :2] - (left, top), (right, bottom) - rows[:, 2:4]
        inner = np.array([left > 0, top > 0]), np.array([right < width, bottom < height])
        ends: np.ndarray = (((low < near) & inner[0]) | ((high < near) & inner[1])).any(1)
        return ends


def _agreeing(one: _Tile, other: _Tile) -> List[Tuple[int, int]]:
    """Return pairs of boxes of one object.

    What is cut off belongs to its best partner, all else to one that finds it the best, too.
    """
    zone = [*map(max, one.bounds[:2], other.bounds[:2]), *map(min, one.bounds[2:], other.bounds[2:])]
    mine, theirs = _reaching(one, zone), _reaching(other, zone)
    if not (len(mine) and len(theirs)):
        return []
    score, to_mine, to_theirs = _likeness(one, mine, other, theirs, zone)
    best, back = score.argmax(1), score.argmax(0)
    pairs = [(at, to) for at, to in enumerate(best) if back[to] == at or to_mine[at, to]]
    pairs += [(at, to) for to, at in enumerate(back) if to_theirs[at, to]]
    return [(int(mine[at]), int(theirs[to])) for at, to in pairs if score[at, to] > 0]


def _reaching(tile: _Tile, zone: List[int]) -> np.ndarray:
    """Return the numbers of the boxes that reach into a zone; they come highest score first."""
    left, top, right, bottom = zone
    rows = tile.rows
    inside = (rows[:, 0] < right) & (rows[:, 2] > left) & (rows[:, 1] < bottom) & (rows[:, 3] > top)
    return np.flatnonzero(inside)[:MOST_PAIRED]


def _likeness(
    one: _Tile, mine: np.ndarray, other: _Tile, theirs: np.ndarray, zone: List[int]
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how alike each two boxes are in what both tiles show; and whether the first, or the second, is a part.

    Alike are boxes of one class that have more than half of both in common, or more than half of the smaller one where
    its tile cuts that off.
    """
    low, high = zone[:2] * 2, zone[2:] * 2
    first, second = one.rows[mine], other.rows[theirs]
    here, there = np.clip(first[:, None, :4], low, high), np.clip(second[None, :, :4], low, high)
    sides = np.minimum(here[..., 2:], there[..., 2:]) - np.maximum(here[..., :2], there[..., :2])
    both = np.clip(sides, 0, None).prod(2)
    areas = (here[..., 2:] - here[..., :2]).prod(2), (there[..., 2:] - there[..., :2]).prod(2)
    same = both / np.maximum(areas[0] + areas[1] - both, 1e-9)
    smaller = areas[0] <= areas[1]
    cut = np.where(smaller, one.cut[mine][:, None], other.cut[theirs][None])
    within = np.where(cut, both / np.maximum(np.minimum(*areas), 1e-9), same)
    agree = (np.maximum(same, within) > SAME) & (first[:, None, 5] == second[None, :, 5])
    # an equal box is a better partner than a large one around it
    return np.where(agree, same + within, 0), cut & smaller, cut & ~smaller


def _joined(rows: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Return the row of an object: the best one that is whole, unless that is but a small part; else all together."""
    joined: np.ndarray = rows[rows[:, 4].argmax()].copy()
    joined[:2], joined[2:4] = rows[:, :2].min(0), rows[:, 2:4].max(0)
    whole = rows[~cut]
    if len(whole):
        best: np.ndarray = whole[whole[:, 4].argmax()]
        if (best[2:4] - best[:2]).prod() > SAME * (joined[2:4] - joined[:2]).prod():
            return best
    return joined
