"""Fitting images into tensors: each resize mode, its padding, its interpolation, and where the image lies."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from image_files import photographs

from dbinfer_udf.image.resize import Placement, Resizer
from dbinfer_udf.manifest import Manifest

MODES = ["standard", "fit_to_window", "fit_to_window_letterbox", "crop"]


def fit(image: np.ndarray, height: int, width: int, **changes: object) -> tuple[np.ndarray, Placement]:
    """Return a tensor that was full of 77 before, and the placement."""
    channels = 1 if image.ndim == 2 else 3
    color = "GRAY" if channels == 1 else "RGB"
    manifest = Manifest("classification", height, width, channels=channels, color=color, **changes)
    out = np.full((height, width, channels), 77, np.uint8)
    return out, Resizer(manifest).resize(image, out)


def flat(height: int, width: int, level: int = 200, gray: bool = False) -> np.ndarray:
    return np.full((height, width) if gray else (height, width, 3), level, np.uint8)


def test_the_same_size_is_copied(subtests: pytest.Subtests) -> None:
    for mode, gray in itertools.product(MODES, [False, True]):
        with subtests.test(mode=mode, gray=gray):
            image = photographs()[0][:32, :48]
            image = np.ascontiguousarray(image[..., 0]) if gray else image
            out, placement = fit(image, 32, 48, resize=mode, pad_value=9)
            assert np.array_equal(out.reshape(image.shape), image)
            assert placement == (0, 0, 48, 32, 0, 0, 1, 1)


@pytest.mark.parametrize("gray", [False, True])
def test_standard_stretches(gray) -> None:
    image = photographs()[0][..., 0].copy() if gray else photographs()[0]
    out, placement = fit(image, 40, 80)
    want = cv2.resize(image, (80, 40), interpolation=cv2.INTER_AREA)
    assert np.abs(out.reshape(want.shape).astype(int) - want).mean() < 1
    assert placement == (0, 0, 80, 40, 0, 0, 1, 1)


def test_windows_keep_the_proportions_and_pad_the_rest(subtests: pytest.Subtests) -> None:
    for (shape, mode, box), gray in itertools.product(
        [
            ((100, 200), "fit_to_window", (0, 0, 64, 32)),
            ((200, 100), "fit_to_window", (0, 0, 32, 64)),
            ((100, 200), "fit_to_window_letterbox", (0, 16, 64, 32)),
            ((200, 100), "fit_to_window_letterbox", (16, 0, 32, 64)),
            ((10, 1000), "fit_to_window_letterbox", (0, 31, 64, 1)),
            ((1, 5000), "fit_to_window", (0, 0, 64, 1)),
            ((5, 8), "fit_to_window_letterbox", (0, 12, 64, 40)),
            ((50, 50), "fit_to_window_letterbox", (0, 0, 64, 64)),
        ],
        [False, True],
    ):
        with subtests.test(shape=shape, mode=mode, box=box, gray=gray):
            out, placement = fit(flat(*shape, gray=gray), 64, 64, resize=mode, pad_value=9)
            assert placement == (*box, 0, 0, 1, 1)
            x, y, width, height = box
            inside = np.zeros((64, 64), bool)
            inside[y : y + height, x : x + width] = True
            assert (out[inside] == 200).all()
            assert (out[~inside] == 9).all()


def test_crop_cuts_the_centre(subtests: pytest.Subtests) -> None:
    for (shape, target, part), gray in itertools.product(
        [
            ((100, 200), (50, 50), (0.25, 0, 0.75, 1)),
            ((200, 100), (50, 50), (0, 0.25, 1, 0.75)),
            ((100, 200), (25, 100), (0, 0.25, 1, 0.75)),
            ((20, 40), (50, 50), (0.25, 0, 0.75, 1)),
            ((60, 60), (50, 50), (0, 0, 1, 1)),
        ],
        [False, True],
    ):
        with subtests.test(shape=shape, target=target, part=part, gray=gray):
            image = flat(*shape, level=10, gray=gray)
            height, width = shape
            left, top, right, bottom = part
            image[int(top * height) : int(bottom * height), int(left * width) : int(right * width)] = 200
            out, placement = fit(image, *target, resize="crop")
            assert placement == (0, 0, target[1], target[0], *part)
            assert (out == 200).all()


def test_tiny_and_thin_images(subtests: pytest.Subtests) -> None:
    for shape, mode in itertools.product([(1, 1), (1, 300), (300, 1), (3, 2)], MODES):
        with subtests.test(shape=shape, mode=mode):
            out, placement = fit(flat(*shape), 28, 30, resize=mode, pad_value=5)
            box = out[
                placement.y : placement.y + placement.height, placement.x : placement.x + placement.width
            ]
            assert box.size > 0
            assert (box == 200).all()
            assert set(np.unique(out)) <= {5, 200}
            assert 0 <= placement.left < placement.right <= 1
            assert 0 <= placement.top < placement.bottom <= 1


METHODS = {"linear": "LINEAR", "area": "AREA", "cubic": "CUBIC", "nearest": "NEAREST"}


def test_interpolation(subtests: pytest.Subtests) -> None:
    for size, interpolation, decode in itertools.product([(50, 60), (700, 900)], METHODS, ["fast", "exact"]):
        with subtests.test(size=size, interpolation=interpolation, decode=decode):
            image = photographs()[1]
            out, _ = fit(image, *size, interpolation=interpolation, decode=decode)
            method, most = METHODS[interpolation], 0.0
            if interpolation == "linear" and decode == "fast" and size == (50, 60):
                method, most = "AREA", 1.0
            want = cv2.resize(image, size[::-1], interpolation=getattr(cv2, "INTER_" + method))
            assert np.abs(out.astype(int) - want).mean() <= most


def test_a_side_that_shrinks_is_averaged_while_the_other_grows() -> None:
    stripes = np.zeros((10, 1000, 3), np.uint8)
    stripes[:, ::2] = 200
    fast, _ = fit(stripes, 40, 37)
    exact, _ = fit(stripes, 40, 37, decode="exact")
    assert np.abs(fast.astype(int) - 100).max() < 8
    assert np.abs(exact.astype(int) - 100).max() > 50


def test_writes_in_place_into_a_view_of_a_larger_array(subtests: pytest.Subtests) -> None:
    for mode in MODES:
        with subtests.test(mode=mode):
            tensor = np.zeros((2, 1, 28, 28, 1), np.uint8)
            manifest = Manifest("classification", 28, 28, channels=1, color="GRAY", resize=mode, pad_value=3)
            Resizer(manifest).resize(flat(50, 60, gray=True), tensor[1, 0])
            assert (tensor[0] == 0).all()
            assert set(np.unique(tensor[1])) <= {3, 200}
            assert (tensor[1] == 200).sum() >= 23 * 28


def test_a_resizer_forgets_the_image_before() -> None:
    resizer = Resizer(Manifest("classification", 32, 32, resize="fit_to_window_letterbox", pad_value=1))
    out = np.zeros((32, 32, 3), np.uint8)
    resizer.resize(flat(64, 32), out)
    resizer.resize(flat(32, 64, level=90), out)
    assert set(np.unique(out)) == {1, 90}
    assert (out == 90).sum() == 32 * 16 * 3
