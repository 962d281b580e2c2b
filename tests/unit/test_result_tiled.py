"""What the tiles of an image hold becomes one mask without seams, and objects that no border parts."""

from __future__ import annotations

import io
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from PIL import Image

from dbinfer_udf.errors import EngineError, ImageError
from dbinfer_udf.image.file import DEFAULT_LIMITS
from dbinfer_udf.image.tiles import Cut, Grid, grid_of
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.model.tiled import scored
from dbinfer_udf.result import tiled
from dbinfer_udf.result.tiled import Mask, Objects, PngWriter

SIDE = 64
DETECTOR = Manifest("detection", SIDE, SIDE, labels=("a", "b"))


def grid(width: int, height: int, overlap: int = 16) -> Grid:
    target = io.BytesIO()
    Image.new("L", (width, height)).save(target, "PNG")
    return grid_of(target.getvalue(), Cut(SIDE, SIDE, overlap, overlap, 1, 0), DEFAULT_LIMITS)


def objects(where: Grid, *boxes: tuple[float, ...], most: int = 100) -> list[tuple[float, ...]]:
    """Return what comes of objects (left, top, right, bottom, score, class) of which each tile sees its part."""
    one = Objects(where, Manifest("detection", SIDE, SIDE, max_detections=most))
    for number, (x, y) in enumerate(where.places):
        rows = np.array(boxes, np.float64).reshape(-1, 6)
        rows[:, :4] = np.clip(rows[:, :4] - (x, y, x, y), 0, SIDE)
        seen = rows[(rows[:, 2] - rows[:, 0] > 2) & (rows[:, 3] - rows[:, 1] > 2)]
        one.add(number, seen.astype(np.float32).tobytes())
    return unpacked(one.result())


def unpacked(literal: str) -> list[tuple[float, ...]]:
    """Return class, score, x, y, width and height of each object of a literal."""
    rows = [row.strip('{}"()').split(",") for row in literal.split('","')] if literal != "{}" else []
    return [tuple(float(value) for value in row[1:]) for row in rows]


def test_a_mask_is_that_of_the_whole_image(subtests: pytest.Subtests) -> None:
    for width, height in ((200, 150), (64, 64), (64, 300), (20, 30), (65, 1), (1, 1)):
        with subtests.test(width=width, height=height):
            where = grid(width, height)
            whole = np.random.default_rng(1).integers(0, 3, (height, width), np.uint8) * np.uint8(90)
            padded = np.pad(whole, ((0, SIDE), (0, SIDE)))
            mask = Mask(where, DETECTOR)
            for number, (x, y) in enumerate(where.places):
                mask.add(number, padded[y : y + SIDE, x : x + SIDE].tobytes())
            assert (np.asarray(Image.open(io.BytesIO(mask.result()))) == whole).all()


@pytest.mark.parametrize("ahead", [False, True], ids=["in turn", "the next one is read meanwhile"])
def test_a_tile_that_equals_the_one_before_is_not_scored_again(ahead: bool) -> None:
    slide = np.full((SIDE, 5 * SIDE), 245, np.uint8)
    slide[:, 2 * SIDE :] = np.random.default_rng(1).integers(0, 256, (SIDE, 3 * SIDE))
    slide[:, 4 * SIDE :] = 245
    file, asked = io.BytesIO(), []
    Image.fromarray(slide).save(file, "PNG")

    def red(tile: bytes, meanwhile: Callable[[], None]) -> bytes:
        asked.append(tile)
        if ahead:
            meanwhile()
        return np.asarray(Image.open(io.BytesIO(tile)).convert("L")).tobytes()

    manifest = Manifest("segmentation", SIDE, SIDE, tile_overlap=0.0)
    mask = scored(manifest, {}, "segment", file.getvalue(), red)
    assert (np.asarray(Image.open(io.BytesIO(mask))) == slide).all()
    assert len(asked) == 4
    assert asked[0] == asked[3]


def test_of_an_overlap_each_tile_gives_its_nearer_half() -> None:
    where = grid(112, 64)
    assert list(where.places) == [(0, 0), (48, 0)]
    mask = Mask(where, DETECTOR)
    mask.add(0, bytes([1]) * SIDE * SIDE)
    mask.add(1, bytes([2]) * SIDE * SIDE)
    assert np.asarray(Image.open(io.BytesIO(mask.result())))[0].tolist() == [1] * 56 + [2] * 56


def test_objects_come_once_wherever_borders_lie(subtests: pytest.Subtests) -> None:
    where = grid(300, 200)
    for name, box in (
        ("within a tile", (5, 6, 25, 26)),
        ("in an overlap", (50, 5, 62, 20)),
        ("cut off by one tile", (40, 5, 60, 30)),
        ("where four tiles meet", (44, 44, 63, 63)),
        ("longer than the overlap", (30, 10, 90, 20)),
        ("longer than a tile", (10, 10, 290, 30)),
        ("larger than nine tiles", (10, 10, 290, 190)),
        ("at the image's border", (280, 180, 300, 200)),
    ):
        with subtests.test(name):
            left, top, right, bottom = box
            assert objects(where, (*box, 0.75, 1)) == [(1, 0.75, left, top, right - left, bottom - top)]


def test_objects_apart_stay_apart() -> None:
    neighbours = [(48 + 4 * n, 10, 51 + 4 * n, 30, 0.5, 0) for n in range(4)]
    found = objects(grid(300, 200), *neighbours)
    assert sorted(x for _, _, x, *_ in found) == [48, 52, 56, 60]
    # of another class
    assert len(objects(grid(300, 200), (50, 5, 62, 20, 0.5, 0), (50, 5, 62, 20, 0.75, 1))) == 2
    assert [
        score for _, score, *_ in objects(grid(300, 200), (5, 5, 9, 9, 0.25, 0), (99, 5, 108, 20, 0.75, 0))
    ] == [
        0.75,
        0.25,
    ]
    assert objects(grid(300, 200)) == []


def test_an_object_that_a_tile_shows_whole_keeps_that_box() -> None:
    where = grid(112, 64)
    one = Objects(where, DETECTOR)
    one.add(0, np.array([[30, 10, 58, 30, 0.5, 0]], np.float32).tobytes())
    # the second tile begins at 48, and sees the last 10 columns a little too wide
    one.add(1, np.array([[0, 8, 12, 31, 0.75, 0]], np.float32).tobytes())
    assert unpacked(one.result()) == [(0, 0.5, 30, 10, 28, 20)]


def test_a_long_object_that_lies_aslant_is_one() -> None:
    """Its boxes in neighbouring tiles agree less than those of an upright one."""
    where = grid(300, 200)
    one = Objects(where, DETECTOR)
    for number, (x, y) in enumerate(where.places):
        # a band from (20, 40) to (280, 150), 30 pixels thick, of which each tile sees the box of its part
        across = np.arange(max(20, x), min(280, x + SIDE))
        middle = 40 + (across - 20) * 110 / 260
        seen = (middle + 15 > y + 2) & (middle - 15 < y + SIDE - 2)
        rows = np.empty((0, 6), np.float32)
        if seen.any():
            left, right = across[seen][0], across[seen][-1] + 1
            top, bottom = middle[seen][0] - 15, middle[seen][-1] + 15
            box = np.clip([left - x, top - y, right - x, bottom - y], 0, SIDE)
            rows = np.array([[*box, 0.5, 0]], np.float32)
        one.add(number, rows.tobytes())
    ((_, _, x, y, width, height),) = unpacked(one.result())
    assert (x, width) == (20, 260)
    assert abs(y - 25) < 1
    assert abs(height - 140) < 1


def test_blots_at_random_are_those_of_the_whole_image() -> None:
    """Each connected part of a picture is an object, of which a tile shows the box of what it sees."""
    random = np.random.default_rng(3)
    blots = np.zeros((700, 1000), np.uint8)
    for _ in range(60):
        axes = random.integers(8, 30, 2)
        cv2.ellipse(blots, random.integers(20, 680, 2), axes, random.integers(0, 180), 0, 360, 1, -1)
    cv2.ellipse(blots, (520, 360), (330, 26), 20, 0, 360, 1, -1)
    target = io.BytesIO()
    Image.fromarray(blots).save(target, "PNG")
    where = grid_of(target.getvalue(), Cut(256, 256, 64, 64, 32, 0), DEFAULT_LIMITS)
    one = Objects(where, Manifest("detection", 256, 256))
    for number, (x, y) in enumerate(where.places):
        one.add(number, parts(blots[y : y + 256, x : x + 256]).tobytes())
    found = {row[2:] for row in unpacked(one.result())}
    boxes = parts(blots)[:, :4]
    wanted = {(x, y, right - x, bottom - y) for x, y, right, bottom in boxes.tolist()}
    assert len(wanted) > 30
    assert found == wanted


def parts(picture: np.ndarray) -> np.ndarray:
    """Return the connected parts of a picture as objects, float32 (n, 6)."""
    boxes = cv2.connectedComponentsWithStats(picture)[2][1:, :4]
    rows = np.zeros((len(boxes), 6), np.float32)
    rows[:, :4], rows[:, 4] = np.hstack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]]), 0.5
    return rows


def test_a_small_neighbour_does_not_take_the_place_of_a_long_object() -> None:
    where = grid(112, 64)
    one = Objects(where, DETECTOR)
    one.add(0, np.array([[0, 20, 64, 40, 0.5, 0]], np.float32).tobytes())
    # the second tile cuts off what it takes for a part of its own
    one.add(1, np.array([[0, 22, 30, 42, 0.5, 0], [0, 24, 6, 30, 0.75, 0]], np.float32).tobytes())
    assert unpacked(one.result()) == [(0, 0.75, 0, 20, 78, 22)]


def test_what_lies_in_the_padding_is_nothing() -> None:
    one = Objects(grid(40, 30), DETECTOR)
    rows = [[45, 5, 60, 20, 0.5, 0], [30, 20, 50, 50, 0.5, 0]]
    one.add(0, np.array(rows, np.float32).tobytes())
    assert unpacked(one.result()) == [(0, 0.5, 30, 20, 10, 10)]


def test_what_is_no_answer_of_a_network_is_refused() -> None:
    for found in (b"", bytes(SIDE * SIDE - 1), bytes(SIDE * SIDE + 1)):
        with pytest.raises(EngineError, match="answered what is no result"):
            Mask(grid(100, 100), DETECTOR).add(0, found)
    row = np.zeros((1, 6), np.float32)
    for bad in (bytes(23), row.tobytes() * 101, (row + np.float32("nan")).tobytes()):
        with pytest.raises(EngineError, match="answered what is no result"):
            Objects(grid(100, 100), DETECTOR).add(0, bad)


def test_a_result_that_no_value_can_hold_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "MOST_PNG", 40)
    noise = np.random.default_rng(1).integers(0, 256, (50, 50), np.uint8)
    writer = PngWriter(50, 50)
    writer.add(noise[:1])
    with pytest.raises(ImageError, match="takes more than 1 GB"):
        writer.end()
    monkeypatch.setattr(tiled, "MOST_OBJECTS", 3)
    with pytest.raises(ImageError, match="more than 3 objects"):
        objects(grid(300, 200), *((50 * n, 5, 50 * n + 8, 20, 0.5, 0) for n in range(5)))
