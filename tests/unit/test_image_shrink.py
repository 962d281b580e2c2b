"""Shrinking: how near it is to exact averaging of areas, on photographs and on pictures that show a shift or a gap."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from image_files import photographs
from variants import wide

from dbinfer_udf.image.resize import Resizer, shrink
from dbinfer_udf.manifest import Manifest

# Grey levels: the mean over both photographs, over one, what 99 of 100 values stay below, the largest
MEAN, MEAN_OF_ONE, MOST, LARGEST = 1.0, 1.2, 12, 45
RATIOS = [
    1.03,
    1.1,
    1.2,
    1.35,
    1.5,
    1.67,
    2,
    2.23,
    2.59,
    2.8,
    3,
    3.2,
    3.4,
    3.6,
    3.9,
    4,
    4.6,
    5.3,
    6.1,
    7,
    9.3,
]


def shrunk(image: np.ndarray, height: int, width: int) -> np.ndarray:
    out = np.full((height, width, *image.shape[2:]), 77, np.uint8)
    shrink(image, out)
    return out


def exact(image: np.ndarray, height: int, width: int) -> np.ndarray:
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


def gaps(image: np.ndarray, height: int, width: int) -> np.ndarray:
    return np.abs(shrunk(image, height, width).astype(int) - exact(image, height, width))


def large() -> np.ndarray:
    """Return 8 megapixels of a photograph that is enlarged, with a camera's noise."""
    image = cv2.resize(photographs()[0], (3333, 2501), interpolation=cv2.INTER_CUBIC)
    noise = np.random.default_rng(0).normal(0, 5, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def test_photographs_come_out_as_averaged_areas(subtests: pytest.Subtests) -> None:
    for ratio, gray in itertools.product(RATIOS, [False, True]):
        with subtests.test(ratio=ratio, gray=gray):
            means = []
            for photograph in photographs():
                image = photograph[..., 1].copy() if gray else photograph
                found = gaps(image, int(image.shape[0] / ratio), int(image.shape[1] / ratio))
                assert np.percentile(found, 99) <= MOST
                assert found.max() <= LARGEST
                means.append(found.mean())
            assert max(means) <= MEAN_OF_ONE
            assert np.mean(means) <= MEAN


def test_both_sides_may_shrink_differently(subtests: pytest.Subtests) -> None:
    for shape in [(375, 500), (500, 375), (427, 640), (480, 640), (336, 337), (225, 1000)]:
        with subtests.test(shape=shape):
            image = cv2.resize(photographs()[1], shape[::-1], interpolation=cv2.INTER_AREA)
            found = gaps(image, 224, 224)
            assert found.mean() <= MEAN
            assert found.max() <= LARGEST


@pytest.mark.parametrize("size", [(1875, 1251), *wide(((2501, 3333),), ((2500, 3332),))])
def test_large_pictures(size) -> None:
    image = np.ascontiguousarray(large()[: size[0], : size[1]])
    found = gaps(image, 224, 224)
    assert found.mean() <= MEAN
    assert found.max() <= LARGEST


def test_nothing_moves(subtests: pytest.Subtests) -> None:
    """A ramp keeps its level at each place, also where an odd side was halved."""
    for ratio in RATIOS:
        with subtests.test(ratio=ratio):
            for width in (640, 641, 1023):
                ramp = np.repeat(np.linspace(0, 255, width)[None], width, 0).astype(np.uint8)
                side = int(width / ratio)
                # but for the last line, which has no neighbour to be sampled with
                assert gaps(ramp, side, side)[:-1, :-1].max() <= 2


def test_a_flat_picture_stays_flat(subtests: pytest.Subtests) -> None:
    for shape, level in itertools.product(
        [(375, 500), (1001, 997), (30, 4000), (225, 224)], [0, 1, 128, 254, 255]
    ):
        with subtests.test(shape=shape, level=level):
            assert (shrunk(np.full((*shape, 3), level, np.uint8), 24, 24) == level).all()


def test_fine_stripes_become_gray() -> None:
    stripes = np.zeros((400, 400), np.uint8)
    stripes[:, ::2] = 200
    assert np.abs(shrunk(stripes, 100, 100).astype(int) - 100).max() <= 1


def test_each_channel_is_shrunk_alone() -> None:
    image = photographs()[0]
    whole = shrunk(image, 101, 203)
    for channel in range(3):
        assert np.array_equal(whole[..., channel], shrunk(image[..., channel].copy(), 101, 203))


def test_a_part_of_a_larger_array_is_read_and_written() -> None:
    image, tensor = photographs()[1], np.full((2, 240, 260, 3), 7, np.uint8)
    shrink(image[20:400, 30:600], tensor[1, 8:232, 16:240])
    assert np.array_equal(tensor[1, 8:232, 16:240], shrunk(image[20:400, 30:600].copy(), 224, 224))
    assert (tensor[0] == 7).all()
    assert (tensor[1, :8] == 7).all()
    assert (tensor[1, :, 240:] == 7).all()


def test_threads_share_a_resizer() -> None:
    """Training fits images in several threads at once."""
    resizer = Resizer(Manifest("classification", 224, 224))
    images = [np.ascontiguousarray(np.roll(photographs()[0], 16 * i, 0)) for i in range(8)]

    def fit(image: np.ndarray) -> np.ndarray:
        out = np.empty((224, 224, 3), np.uint8)
        resizer.resize(image, out)
        return out

    alone = [fit(image) for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, images * 8))
    assert all(np.array_equal(found, alone[i % 8]) for i, found in enumerate(together))


@pytest.mark.parametrize("said", [{"interpolation": "area"}, {"interpolation": "area", "decode": "exact"}])
def test_exact_averaging_is_there_for_who_asks(said) -> None:
    image, out = photographs()[0], np.empty((224, 224, 3), np.uint8)
    Resizer(Manifest("classification", 224, 224, **said)).resize(image, out)
    assert np.array_equal(out, exact(image, 224, 224))
