"""Boxes: threshold, suppression, and the way back through every resize, EXIF turn and reduced decoding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from image_files import TRANSPOSES, encode
from PIL import Image

from dbinfer_udf.errors import ModelError
from dbinfer_udf.image.decode import Decoder, reduction_of, target_of
from dbinfer_udf.image.header import read_header
from dbinfer_udf.image.resize import Placement, Resizer
from dbinfer_udf.manifest import FIXED_SIZE, Manifest
from dbinfer_udf.result.detection import (
    Detections,
    candidates,
    detections,
    detector_labels,
    literal,
    on_image,
    suppressed,
    way_to_image,
)

# that of a turn undoes it, but for the two rotations
INVERSE = {6: 8, 8: 6}


def manifest(**values: object) -> Manifest:
    return Manifest.from_dict({"task": "detection", "height": 64, "width": 96} | values)


def output(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array([rows or np.zeros((0, 6))], np.float32)


def test_rows_below_the_threshold_and_padding_are_dropped_and_the_best_comes_first() -> None:
    rows = output((0, 0, 1, 1, 0.4, 1), (0, 0, 2, 2, 0.9, 0), (0, 0, 3, 3, 0.5, 2), (0, 0, 4, 4, 0, 0))
    assert candidates(rows, manifest()).T[2].tolist() == [2, 3]
    assert candidates(rows, manifest(threshold=0.0)).T[2].tolist() == [2, 3, 1]


def test_rows_that_are_no_boxes_are_dropped() -> None:
    bad = [(np.nan, 0, 1, 1, 0.9, 0), (0, 0, np.inf, 1, 0.9, 0), (0, 0, 1, 1, np.nan, 0)]
    bad += [(0, 0, 1, 1, 0.9, -1), (0, 0, 1, 1, 0.9, 1e20), (0, 0, 1, 1, 0.9, np.nan)]
    for iou in (1.0, 0.5):
        assert len(candidates(output(*bad, (0, 0, 1, 1, 0.9, 0)), manifest(iou_threshold=iou))) == 1


def test_suppression_equals_its_definition() -> None:
    random = np.random.default_rng(5)
    for _ in range(20):
        corners = random.uniform(-60, 60, (60, 2, 2))
        boxes = np.concatenate([corners.min(1), corners.max(1)], 1)
        scores = np.sort(random.uniform(0.1, 1, 60))[::-1]
        rows = np.column_stack([boxes, scores, random.integers(0, 3, 60)]).astype(np.float32)
        assert np.array_equal(suppressed(rows, 0.4), _suppressed_by_definition(rows, 0.4))


def _suppressed_by_definition(rows: np.ndarray, limit: float) -> np.ndarray:
    kept: list[np.ndarray] = []
    for row in rows:
        if all(other[5] != row[5] or _overlap(row[:4], other[:4]) <= limit for other in kept):
            kept.append(row)
    return np.array(kept)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    return common / (float(np.prod(a[2:] - a[:2])) + float(np.prod(b[2:] - b[:2])) - common)


def test_no_more_boxes_than_wanted() -> None:
    rows = output(*((i, 0, i + 1, 1, 0.9, 0) for i in range(20)))
    straight = way_to_image(Placement(0, 0, 96, 64), _header(96, 64), 1)
    assert len(detections(rows, manifest(max_detections=7), straight, (96, 64)).scores) == 7


def test_boxes_are_clipped_and_those_outside_are_left_out() -> None:
    rows = output((-5, -5, 10, 10, 0.9, 0), (90, 60, 300, 300, 0.8, 0), (97, 0, 120, 10, 0.7, 0))[0]
    boxes, kept = on_image(rows, way_to_image(Placement(0, 0, 96, 64), _header(96, 64), 1), (96, 64))
    assert boxes.tolist() == [[0, 0, 10, 10], [90, 60, 96, 64]]
    assert kept[:, 4] == pytest.approx([0.9, 0.8])


def _header(width: int, height: int):
    return read_header(encode(Image.new("L", (width, height)), "PNG"))


@pytest.mark.wide
def test_a_box_drawn_in_the_image_comes_back(subtests: pytest.Subtests) -> None:
    """Within a fifth of the tensor's pixel: what grey levels tell of an edge after JPEG and resize."""
    for resize, kind in itertools.product(FIXED_SIZE, ["PNG", "JPEG"]):
        with subtests.test(resize=resize, kind=kind):
            random = np.random.default_rng(len(resize))
            # not longer: the box must be in what crop leaves
            sizes = [
                (side, int(side * random.uniform(0.4, 2.2)))
                for side in random.integers(100, 1500, 4).tolist()
            ]
            for (width, height), turn in itertools.product([*sizes, (1917, 1085)], range(1, 9)):
                known = manifest(resize=resize, height=192, width=288)
                wanted, data = _drawn(width, height, turn, kind, random)
                header = read_header(data)
                tensor = np.empty((192, 288, 3), np.uint8)
                placement = Resizer(known).resize(Decoder("RGB", target=target_of(known))(data)[0], tensor)
                way = way_to_image(placement, header, reduction_of(header, target_of(known)))
                row = np.array([[*_edges(tensor), 0.9, 0]])
                boxes, _ = on_image(row, way, header.size)
                allowed = 0.2 * max(way.across, way.down)
                assert header.size == (width, height)
                assert boxes[0] == pytest.approx(wanted, abs=max(allowed, 0.2)), (width, height, turn)


def _drawn(width: int, height: int, turn: int, kind: str, random: np.random.Generator):
    """Return a white box near the centre of a black image as shown, and the file that a turn shows so."""
    left, top = (int(side * random.uniform(0.4, 0.45)) for side in (width, height))
    right, bottom = (int(side * random.uniform(0.55, 0.6)) for side in (width, height))
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    stored = Image.fromarray(pixels)
    if turn > 1:
        stored = stored.transpose(TRANSPOSES[INVERSE.get(turn, turn)])
    options = {"quality": 95} if kind == "JPEG" else {}
    return (left, top, right, bottom), encode(stored, kind, turn, **options)


def _edges(tensor: np.ndarray) -> tuple[float, float, float, float]:
    """Return the box of a blurred white rectangle, from its centre and how much white its sides hold."""
    light = tensor.mean(2) / 255
    sides = []
    for axis in (0, 1):
        profile = light.max(axis) / light.max()
        centre = ((np.arange(profile.size) + 0.5) * profile).sum() / profile.sum()
        sides.append((centre - profile.sum() / 2, centre + profile.sum() / 2))
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]


def test_the_last_block_of_a_reduced_jpeg_counts_as_what_it_is() -> None:
    """427 rows at 1/8 are 53 pixels, which stand for 424 rows."""
    header = read_header(encode(Image.new("RGB", (640, 427)), "JPEG", 3))
    way = way_to_image(Placement(0, 0, 80, 53), header, 8)
    assert (way.across, way.down, way.left, way.top) == (8, 8, 0, 3)


def test_crop_that_rounds_comes_back() -> None:
    """The part that crop cuts is where the placement says, to the pixel."""
    resizer, tensor = Resizer(manifest(resize="crop")), np.empty((64, 96, 3), np.uint8)
    placement = resizer.resize(np.zeros((203, 501, 3), np.uint8), tensor)
    way = way_to_image(placement, _header(501, 203), 1)
    corners, _ = on_image(np.array([[0, 0, 96, 64, 1, 0]]), way, (501, 203))
    part = (501 - round(96 / (64 / 203))) // 2
    assert corners[0] == pytest.approx([part, 0, part + round(96 / (64 / 203)), 203])


def test_literal_quotes_labels_twice() -> None:
    labels = detector_labels((1, 5, 6), ['a "b" \\ {c},(d)', ""])
    objects = Detections(np.array([[1.5, 2, 4, 8]]), [np.float32(0.1).item()], [0])
    assert literal(objects, labels) == (
        '{"(\\"a \\\\\\"b\\\\\\" \\\\\\\\ {c},(d)\\",0,0.100000001,1.5,2,2.5,6)"}'
    )
    assert literal(objects._replace(classes=[7]), labels) == '{"(,7,0.100000001,1.5,2,2.5,6)"}'
    assert literal(Detections(np.zeros((0, 4)), [], []), labels) == "{}"


def test_another_shape_is_no_detector(subtests: pytest.Subtests) -> None:
    for shape in [(1, 6), (1, 5, 7), (2, 5, 6), (1, 1, 5, 6)]:
        with subtests.test(shape=shape), pytest.raises(ModelError, match="but a detector's is"):
            detector_labels(shape, ())
