"""Lines in a map of probabilities, and texts in the steps of a network: known answers."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from dbinfer_udf.errors import ModelError
from dbinfer_udf.image.resize import Resizer
from dbinfer_udf.manifest import Manifest, ManifestError
from dbinfer_udf.result.text import Line, characters, decoded, in_order, lines, map_size

DETECTOR = Manifest("text_detection", 64, 256, resize="keep_size", max_detections=1000)
READER = Manifest("text", 48, 320, resize="keep_height", pad_value=127, labels=("", "a", "b", " "))


def drawn(*quads: list[tuple[int, int]], probability: float = 0.9) -> np.ndarray:
    found = np.zeros((120, 200), np.float32)
    for quad in quads:
        cv2.fillPoly(found, [np.array(quad)], probability)
    return found


@pytest.mark.parametrize("growth", [0, 1.5])
def test_a_box_grows_by_area_over_circumference(growth: float) -> None:
    quad = [(20, 30), (119, 30), (119, 49), (20, 49)]
    (line,) = lines(drawn(quad), replace(DETECTOR, unclip_ratio=growth))
    # contours lie in the middles of pixels, and the dilation adds a pixel to the right and below
    further = growth * 100 * 20 / (2 * (100 + 20))
    expected = np.array([(20, 30), (120, 30), (120, 50), (20, 50)]) + further * np.array(
        [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    )
    assert np.abs(line.corners - expected).max() < 0.5
    assert 0.8 < line.score <= 0.9


def test_a_turned_line_keeps_its_corners_in_order() -> None:
    quad = [(20, 60), (120, 20), (128, 40), (28, 80)]
    (line,) = lines(drawn(quad), replace(DETECTOR, unclip_ratio=0.0))
    assert np.abs(line.corners - np.array(quad)).max() <= 2.5


def test_what_is_no_line() -> None:
    speck, faint = [(5, 5), (6, 5), (6, 6), (5, 6)], [(20, 30), (80, 30), (80, 49), (20, 49)]
    assert lines(drawn(speck), DETECTOR) == []
    assert lines(drawn(faint, probability=0.4), DETECTOR) == []
    assert len(lines(drawn(faint, probability=0.4), replace(DETECTOR, threshold=0.35))) == 1
    assert lines(np.full((120, 200), np.nan, np.float32), DETECTOR) == []
    assert (
        len(
            lines(drawn(faint, [(20, 80), (80, 80), (80, 90), (20, 90)]), replace(DETECTOR, max_detections=1))
        )
        == 1
    )


def test_order_of_reading() -> None:
    def at(x: float, y: float, slope: float = 0) -> Line:
        return Line(np.array([(x, y), (x + 50, y + slope), (x + 50, y + slope + 20), (x, y + 20)]), 1.0)

    found = [at(100, 58), at(0, 50), at(0, 80), at(60, 5), at(0, 9)]
    assert [tuple(line.corners[0]) for line in in_order(found)] == [
        (0, 9),
        (60, 5),
        (0, 50),
        (100, 58),
        (0, 80),
    ]
    assert in_order([]) == []


def test_ctc() -> None:
    def said(*best: int) -> tuple[str, float]:
        return decoded(np.eye(4, dtype=np.float32)[list(best)] * 0.8, ["", "a", "b", " "])

    assert said(0, 1, 1, 0, 1, 2, 3, 3, 2, 0) == ("aab b", pytest.approx(0.8))
    assert said(1) == ("a", pytest.approx(0.8))
    assert said(0, 0) == ("", 0.0)


def test_shapes_that_do_not_fit() -> None:
    assert map_size((1, 1, 64, 256), ()) == map_size((1, 64, 256, 1), ()) == (64, 256)
    assert characters((1, 40, 3), ("blank", "a", "b")) == ["", "a", "b"]
    for shape in ((1, 2, 64, 256), (1, 64), (2, 1, 64, 256)):
        with pytest.raises(ModelError, match="finds text is"):
            map_size(shape, ())
    for shape in ((1, 40, 4), (1, 3), (1, 40, 3, 1)):
        with pytest.raises(ModelError, match="3 labels"):
            characters(shape, ("", "a", "b"))


@pytest.mark.parametrize(
    ("image", "size"),
    [
        ((64, 100), (64, 96)),  # nearest multiples of 32
        ((30, 40), (64, 96)),  # enlarged until the short side has 64
        ((100, 200), (96, 192)),
        ((600, 300), (256, 128)),  # shrunk until the long side has 256
        ((10, 500), (32, 256)),
        ((1, 1), (64, 64)),
    ],
)
def test_sizes_that_keep_the_image(image: tuple[int, int], size: tuple[int, int]) -> None:
    pixels, resizer = np.full((*image, 3), 9, np.uint8), Resizer(DETECTOR)
    assert resizer.size_for(pixels) == size
    out = np.zeros((*size, 3), np.uint8)
    placement = resizer.resize(pixels, out)
    assert (placement.width, placement.height) == (size[1], size[0])
    assert (out == 9).all()


@pytest.mark.parametrize(
    ("image", "width", "used"),
    [
        ((48, 100), 320, 100),
        ((24, 200), 416, 400),  # as wide as it is, in multiples of 32
        ((10, 9000), 3200, 3200),  # ten times the manifest's width are the most
        ((300, 30), 480, 480),  # runs downwards
        ((60, 41), 320, 33),
    ],
)
def test_sizes_that_keep_the_height(image: tuple[int, int], width: int, used: int) -> None:
    pixels, resizer = np.full((*image, 3), 9, np.uint8), Resizer(READER)
    assert resizer.size_for(pixels) == (48, width)
    out = np.zeros((48, width, 3), np.uint8)
    assert resizer.resize(pixels, out).width == used
    assert (out[:, :used] == 9).all()
    assert (out[:, used:] == 127).all()


def test_a_line_that_runs_downwards_is_turned() -> None:
    pixels = np.zeros((96, 48, 3), np.uint8)
    pixels[:48] = 200  # what comes first
    out = np.zeros((48, 320, 3), np.uint8)
    Resizer(READER).resize(pixels, out)
    assert out[24, 20, 0] == 200
    assert out[24, 70, 0] == 0


def test_keys_of_the_manifest() -> None:
    assert {"pixel_threshold", "unclip_ratio"} <= DETECTOR.to_dict().keys()
    assert {"pixel_threshold", "unclip_ratio", "max_detections"}.isdisjoint(READER.to_dict())
    assert "resize_type" not in READER.model_info()
    for key, value in (("pixel_threshold", 2.0), ("unclip_ratio", -1.0), ("unclip_ratio", float("nan"))):
        with pytest.raises(ManifestError, match=key):
            replace(DETECTOR, **{key: value})
    with pytest.raises(
        ManifestError, match="height and width are 50 and 256, but for resize keep_size must be"
    ):
        replace(DETECTOR, height=50)
    with pytest.raises(ManifestError, match="resize is 'keep_size', but segmentation needs one size for all"):
        Manifest("segmentation", 64, 64, resize="keep_size")
