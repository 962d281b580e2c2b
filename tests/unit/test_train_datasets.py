"""The demo's data: real, fixed, with parts that share nothing."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from dbinfer.errors import UsageError
from dbinfer.train import datasets


def test_digits_are_split_into_fixed_parts_of_all_classes() -> None:
    train, labels = datasets.digit_images("train")
    heldout, held_labels = datasets.digit_images("heldout")
    assert (len(train), len(heldout)) == (1438, 359)
    assert set(labels) == set(held_labels) == set(range(10))
    assert train[0].shape == (28, 28)
    seen = {image.tobytes() for image in train}
    assert not any(image.tobytes() in seen for image in heldout)


def test_digits_are_written_by_class(tmp_path: Path) -> None:
    written = datasets.write_digits(tmp_path)
    assert len(written) == 359
    path, label = written[7]
    assert path == tmp_path / str(label) / "0007.png"
    images, labels = datasets.digit_images("heldout")
    assert label == labels[7]
    assert np.array_equal(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE), images[7])


def test_strokes_are_written_with_their_masks_and_are_always_the_same(tmp_path: Path) -> None:
    written = datasets.write_strokes(tmp_path / "a", "heldout", 3)
    datasets.write_strokes(tmp_path / "b", "heldout", 5)
    for image, mask in written:
        assert mask.name == f"{image.stem}_mask.png"
        assert image.read_bytes() == (tmp_path / "b" / image.name).read_bytes()
        pixels = cv2.imread(str(mask), cv2.IMREAD_UNCHANGED)
        assert pixels.shape == (128, 128)
        assert set(np.unique(pixels)) == {0, 255}
        assert 0.005 < (pixels == 255).mean() < 0.4


def test_strokes_differ_between_parts_and_images() -> None:
    images = [image for part in datasets.PARTS for image, _ in datasets.stroke_files(part, range(4))]
    assert len(set(images)) == 8


def test_an_unknown_part() -> None:
    with pytest.raises(UsageError, match="part is 'test', but must be one of train, heldout"):
        datasets.write_digits(Path("unused"), "test")
