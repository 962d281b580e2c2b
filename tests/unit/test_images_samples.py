"""The sample images and the strokes: real, fixed, of the asked size, with held-out parts that share nothing."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from dbinfer.base.errors import DataError, UsageError
from dbinfer.images import builtin
from dbinfer.images.builtin import PARTS, stroke_files, write_strokes

pytest.importorskip("sklearn")
from sklearn.datasets import load_digits, load_sample_images


def decoded(data: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert image is not None
    return image


def test_every_fifth_digit_is_held_out() -> None:
    target = load_digits().target
    np.testing.assert_array_equal(builtin.digits("heldout")[1], target[4::5])
    assert len(builtin.digits("train")[0]) + len(builtin.digits("heldout")[0]) == len(target) == 1797


def test_the_files_are_read_as_scikit_learn_reads_them() -> None:
    means = np.concatenate([builtin.digits(part)[0].mean((1, 2)) for part in ("train", "heldout")])
    levels = load_digits().images.mean((1, 2)) * (255 / 16)
    rows = np.arange(len(levels)) % 5 == 4
    np.testing.assert_allclose(means, np.concatenate([levels[~rows], levels[rows]]), atol=8)
    for ours, theirs in zip(builtin.photographs(), load_sample_images().images, strict=True):
        np.testing.assert_array_equal(ours, theirs[:, :, ::-1])


def test_digits_are_28_pixels_white_on_black() -> None:
    images, labels = builtin.digits("train")
    assert images.shape == (len(labels), 28, 28)
    assert images.dtype == np.uint8
    assert images.max() == 255
    assert np.median(images) < 128
    assert set(labels.tolist()) == set(range(10))


def test_digit_files_are_png_with_the_label_of_their_image() -> None:
    images, labels = builtin.digits("heldout")
    files = list(builtin.digit_files("heldout"))
    assert [label for _, label in files] == labels.tolist()
    for (file, _), image in zip(files[:20], images, strict=False):
        assert file.startswith(b"\x89PNG")
        np.testing.assert_array_equal(decoded(file), image)


def test_digits_are_written_in_folders_named_as_their_label(tmp_path: Path) -> None:
    written = builtin.write_digits(tmp_path)
    assert all(path.parent == tmp_path / str(label) for path, label in written)
    assert written[0][0].read_bytes() == next(builtin.digit_files("heldout"))[0]


def test_another_part_is_refused() -> None:
    with pytest.raises(UsageError, match="part is 'test', but must be one of train, heldout"):
        builtin.digits("test")


def test_the_photographs_are_bgr_and_cannot_be_changed_by_one_user_for_the_others() -> None:
    photos = builtin.photographs()
    assert [photo.shape for photo in photos] == [(427, 640, 3)] * 2
    flower = photos[1]  # red petals
    assert flower[200:260, 260:360, 2].mean() > flower[200:260, 260:360, 0].mean()
    with pytest.raises(ValueError, match="read-only"):
        flower[0, 0] = 0


@pytest.mark.parametrize("size", [(500, 375), (224, 224)])
def test_photograph_files_are_jpeg_of_the_asked_size(size: tuple[int, int]) -> None:
    for data in builtin.photograph_files(size, 3):
        assert data[:2] == b"\xff\xd8"
        assert decoded(data).shape == (size[1], size[0], 3)


def test_all_photograph_files_differ() -> None:
    assert len(set(builtin.photograph_files((100, 80), 12))) == 12


def test_the_same_seed_gives_the_same_files_and_another_one_others() -> None:
    first = builtin.photograph_files((100, 80), 3)
    assert builtin.photograph_files((100, 80), 3) == first
    assert builtin.photograph_files((100, 80), 3, seed=1) != first


def test_an_image_that_opencv_cannot_write_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match=r"cannot encode an image of shape \(0, 0\) as .jpg"):
        builtin.encode(".jpg", np.zeros((0, 0), np.uint8))


def test_strokes_are_written_with_their_masks_and_are_always_the_same(tmp_path: Path) -> None:
    written = write_strokes(tmp_path / "a", "heldout", 3)
    write_strokes(tmp_path / "b", "heldout", 5)
    for image, mask in written:
        assert mask.name == f"{image.stem}_mask.png"
        assert image.read_bytes() == (tmp_path / "b" / image.name).read_bytes()
        pixels = cv2.imread(str(mask), cv2.IMREAD_UNCHANGED)
        assert pixels.shape == (128, 128)
        assert set(np.unique(pixels)) == {0, 255}
        assert 0.005 < (pixels == 255).mean() < 0.4


def test_strokes_differ_between_parts_and_images() -> None:
    images = [image for part in PARTS for image, _ in stroke_files(part, range(4))]
    assert len(set(images)) == 8


def test_an_unknown_part() -> None:
    with pytest.raises(UsageError, match="part is 'test', but must be one of train, heldout"):
        write_strokes(Path("unused"), "test")
