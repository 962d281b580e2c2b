"""What dbinfer.crop cuts out of a picture, and what it takes for a box."""

from __future__ import annotations

import json
from typing import Any

import cv2
import numpy as np
import pytest
from image_files import encode, turned
from PIL import Image

from dbinfer_udf.errors import ImageError, UsageError
from dbinfer_udf.image.crop import MOST_SIDE, cropped
from dbinfer_udf.image.file import DEFAULT_LIMITS
from dbinfer_udf.session import images

HEIGHT, WIDTH = 40, 60
PICTURE = np.random.default_rng(5).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def file_of(pixels: np.ndarray, orientation: int = 0) -> bytes:
    return encode(Image.fromarray(pixels[:, :, ::-1].copy()), "PNG", orientation)


def cut(box: object, margin: float = 0, picture: np.ndarray = PICTURE) -> np.ndarray:
    made = cropped(picture, json.dumps(box), margin, DEFAULT_LIMITS)
    return cv2.imdecode(np.frombuffer(made, np.uint8), cv2.IMREAD_COLOR)


DETECTION = {"label": None, "class": 1, "score": 0.5, "x": 10, "y": 5, "width": 20, "height": 8}


@pytest.mark.parametrize(
    "box",
    [
        DETECTION,
        [10, 5, 20, 8],
        "(30,13),(10,5)",  # the type box, which puts its upper right corner first
        [10, 5, 30, 5, 30, 13, 10, 13],
        [[10, 5], [30, 5], [30, 13], [10, 13]],
        "((10,5),(30,5),(30,13),(10,13))",
        [10, 5, 10, 13, 30, 13, 30, 5],  # the other way around
        {"text": "hello", "score": 0.9, "box": [10, 5, 20, 8]},
    ],
    ids=str,
)
def test_each_way_to_name_the_same_part(box: object) -> None:
    assert np.array_equal(cut(box), PICTURE[5:13, 10:30])


def test_a_margin_is_a_part_of_each_side() -> None:
    assert np.array_equal(cut(DETECTION, 0.25), PICTURE[3:15, 5:35])
    assert np.array_equal(cut([10, 4, 30, 4, 30, 12, 10, 12], 0.25), PICTURE[2:14, 5:35])


@pytest.mark.parametrize(
    ("box", "rows", "columns"),
    [
        ([-10, -10, 20, 20], slice(0, 10), slice(0, 10)),
        ([50, 30, 100, 100], slice(30, 40), slice(50, 60)),
        ([-1e8, -1e8, 2e8, 2e8], slice(0, 40), slice(0, 60)),
        ([9.6, 4.6, 20, 8], slice(5, 13), slice(10, 30)),
        # a box within a pixel is that pixel
        ([10.6, 4.1, 0.2, 0.2], slice(4, 5), slice(10, 11)),
        ([59.6, 39.6, 0.4, 0.4], slice(39, 40), slice(59, 60)),
    ],
)
def test_a_box_is_clipped_to_whole_pixels(box: object, rows: slice, columns: slice) -> None:
    assert np.array_equal(cut(box), PICTURE[rows, columns])


def test_a_quarter_turn_loses_nothing() -> None:
    # what stands at the right of the picture is the top of the text
    corners = [[30, 5], [30, 13], [10, 13], [10, 5]]
    assert np.array_equal(cut(corners), np.rot90(PICTURE[5:13, 10:30]))


def test_a_turned_rectangle_is_straightened() -> None:
    smooth = cv2.GaussianBlur(PICTURE, (0, 0), 4)
    middle, turn = (30.0, 20.0), cv2.getRotationMatrix2D((29.5, 19.5), 30, 1)
    corners = cv2.boxPoints((middle, (24, 10), -30))  # lower left first
    found = cut(np.roll(corners, -1, 0).tolist(), picture=smooth).astype(int)
    turned = cv2.warpAffine(smooth, cv2.invertAffineTransform(turn), (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC)
    wanted = turned[15:25, 18:42]
    assert found.shape == wanted.shape
    # the two interpolate alike, and differ by the rounding of places to 1/32 of a pixel
    assert np.abs(found - wanted).max() <= 2


def test_its_corners_may_lie_outside() -> None:
    found = cut([[-5, -5], [5, -5], [5, 5], [-5, 5]])
    assert found.shape == (10, 10, 3)
    assert np.array_equal(found[5:, 5:], PICTURE[:5, :5])
    assert (found[:5, :5] == PICTURE[0, 0]).all()


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ([1, 2, 3], "[1, 2, 3] is no box"),
        ([[0, 0], [9, 0], [9, 9]], "is no box"),
        (["a", 1, 2, 3], "is no box"),
        ([None, 1, 2, 3], "is no box"),
        ([True, 1, 2, 3], "is no box"),
        ([1e300, 1, 2, 3], "is no box"),
        ([[[1]], 2, 3, 4], "is no box"),
        ("NaN,1,2,3", "is no box"),
        ("<(1,2),3>", "is no box"),
        ({"x": 1}, "is no box"),
        (7, "7 is no box"),
        pytest.param([[0] * 4] * 90_000, "characters is no box", id="more than a mask has"),
        ([1, 2, 0, 5], "the box has no pixels: it is 0 wide and 5 high"),
        ([60, 0, 5, 5], "the box lies outside of the image of 60 x 40: from (60, 0) to (65, 5)"),
        ([-5, 0, 5, 5], "lies outside"),
        ([0, 0, 9, 9, 9, 0, 0, 9], "make no convex quadrilateral"),
        ([0, 0, 9, 0, 18, 0, 0, 9], "make no convex quadrilateral"),
        ([0, 0] * 4, "make no convex quadrilateral"),
    ],
    ids=str,
)
def test_what_is_no_box(box: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        cut(box)
    assert words in caught.value.message
    assert len(caught.value.message) < 400
    assert caught.value.hint


@pytest.mark.parametrize("margin", [-0.1, 11, float("nan"), float("inf")])
def test_what_is_no_margin(margin: float) -> None:
    with pytest.raises(UsageError, match=r"margin is .*, but must be from 0 to 10"):
        cut(DETECTION, margin)


def test_what_is_straightened_is_bounded() -> None:
    far = 1e6
    with pytest.raises(ImageError, match="pixels to straighten, but the limit is 100000000"):
        cut([[0, 0], [far, 0], [far, far], [0, far]])
    with pytest.raises(UsageError, match=f"the quadrilateral is 40000 pixels long, but {MOST_SIDE} are"):
        cut([[0, 0], [40_000, 0], [40_000, 10], [0, 10]])


def test_of_many_parts_of_one_image_the_decoder_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from dbinfer_udf.image import decode

    runs = list[bytes]()
    real = decode._decode

    def counted(data: bytes, *more: Any) -> np.ndarray:
        runs.append(data)
        return real(data, *more)

    monkeypatch.setattr(decode, "_decode", counted)
    monkeypatch.setattr(decode, "SHARED_BYTES", 0)
    decode._kept.clear()
    one, other, third = file_of(PICTURE), file_of(PICTURE[::-1]), file_of(PICTURE[:, ::-1])
    for image in (one, bytes(bytearray(one)), other, one, third, other):
        images.crop({}, image, ("[1, 2, 3, 4]", 0))
    assert runs == [one, other, third, other]
    # a session may have less than it had
    with pytest.raises(ImageError, match="the image is too large"):
        images.crop({"max_image_pixels": "100"}, one, ("[1, 2, 3, 4]", 0))
    monkeypatch.setattr(decode, "KEPT_BYTES", 100)
    runs.clear()
    decode._kept.clear()
    for _ in range(2):
        images.crop({}, other, ("[1, 2, 3, 4]", 0))
    assert len(runs) == 2


def test_a_box_is_refused_before_the_decoder_runs() -> None:
    with pytest.raises(UsageError, match="is no box"):
        images.crop({}, b"no image", ("[1]", 0))


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_box_counts_on_the_image_as_shown(orientation: int) -> None:
    """The same in this process and in one apart."""
    made = file_of(PICTURE, orientation)
    found = [
        images.crop({"isolation": isolation}, made, ("[2, 3, 10, 5]", 0)) for isolation in ("never", "always")
    ]
    assert found[0] == found[1]
    part = cv2.imdecode(np.frombuffer(found[0], np.uint8), cv2.IMREAD_COLOR)
    shown = turned(Image.fromarray(PICTURE), orientation)
    assert np.array_equal(part, shown[3:8, 2:12])
