"""The harness's images: of the asked size, all different, the same ones in every run."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from dbinfer.bench.images import digits_split, make_digits, make_images, size_of

pytest.importorskip("sklearn")


def decoded(data: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert image is not None
    return image


@pytest.mark.parametrize("images", ["500x375", "224x224"])
def test_photographs_are_jpeg_of_the_asked_size(images: str) -> None:
    width, height = size_of(images)
    for data in make_images(images, 3):
        assert data[:2] == b"\xff\xd8"
        assert decoded(data).shape == (height, width, 3)


def test_all_photographs_differ() -> None:
    assert len(set(make_images("100x80", 12))) == 12


def test_the_same_seed_gives_the_same_files_and_another_one_others() -> None:
    assert make_images("100x80", 3) == make_images("100x80", 3)
    assert make_images("100x80", 3) != make_images("100x80", 3, seed=1)


def test_digits_are_png_with_the_label_of_their_image() -> None:
    files, labels = make_digits(20)
    x, y = digits_split()[1]
    for file, label, image, wanted in zip(files, labels, x, y, strict=False):
        assert file.startswith(b"\x89PNG")
        np.testing.assert_array_equal(decoded(file), image)
        assert label == wanted


def test_no_held_out_digit_is_trained_on() -> None:
    (train, _), (held, _) = digits_split()
    assert len(train) + len(held) == 1797
    assert len(held) >= 400


def test_more_digits_than_there_are_repeat_them() -> None:
    files, _labels = make_digits(1000)
    assert len(files) == 1000
    assert files[0] in files[1:]
