"""Masks: every output layout, every resize mode undone, PNG in the size of the image."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from dbinfer_udf.errors import ModelError
from dbinfer_udf.image.resize import Placement, Resizer
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.mask import MaskLayout, mask, mask_layout

MODES = ["standard", "fit_to_window", "fit_to_window_letterbox", "crop"]


def read(png: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(png))
    assert (image.format, image.mode) == ("PNG", "L")
    return np.asarray(image)


def test_layout_of_an_output(subtests: pytest.Subtests) -> None:
    for shape, labels, layout in [
        ((1, 64, 48), (), MaskLayout(64, 48, 1, False, False)),
        ((1, 64, 48), ("a", "b"), MaskLayout(64, 48, 1, False, False)),
        ((1, 64, 48), ("a", "b", "c"), MaskLayout(64, 48, 1, False, True)),
        ((1, 64, 48, 1), (), MaskLayout(64, 48, 1, False, False)),
        ((1, 1, 64, 48), (), MaskLayout(64, 48, 1, True, False)),
        ((1, 1, 64, 48), ("stroke",), MaskLayout(64, 48, 1, True, False)),
        ((1, 1, 64, 48), ("a", "b", "c"), MaskLayout(64, 48, 1, True, True)),
        ((1, 64, 48, 21), (), MaskLayout(64, 48, 21, False, False)),
        ((1, 21, 64, 48), (), MaskLayout(64, 48, 21, True, False)),
        ((1, 8, 8, 21), tuple("abcdefghijklmnopqrstu"), MaskLayout(8, 8, 21, False, False)),
        ((1, 21, 8, 8), tuple("abcdefghijklmnopqrstu"), MaskLayout(8, 8, 21, True, False)),
        ((1, 4, 4, 4), (), MaskLayout(4, 4, 4, False, False)),
    ]:
        with subtests.test(shape=shape, labels=labels, layout=layout):
            assert mask_layout(shape, labels) == layout


def test_an_output_that_is_no_mask(subtests: pytest.Subtests) -> None:
    for shape in [(1, 10), (2, 64, 48), (1, 1, 1, 64, 48), (1,)]:
        with subtests.test(shape=shape), pytest.raises(ModelError, match="which is not a mask"):
            mask_layout(shape)


def test_too_many_classes() -> None:
    assert mask_layout((1, 512, 512, 256)).classes == 256
    with pytest.raises(ModelError, match="257 classes, but a mask holds at most 256"):
        mask_layout((1, 512, 512, 257))


def test_one_probability_becomes_0_and_255(subtests: pytest.Subtests) -> None:
    for activation, layout in itertools.product(["none", "sigmoid"], ["HW", "HWC", "CHW"]):
        with subtests.test(activation=activation, layout=layout):
            truth = np.zeros((32, 48), bool)
            truth[8:20, 10:30] = True
            output = np.where(truth, 0.9, 0.2).astype(np.float32)
            if activation == "sigmoid":
                output = np.log(output / (1 - output))
            output = {"HW": output[None], "HWC": output[None, ..., None], "CHW": output[None, None]}[layout]
            manifest = Manifest("segmentation", 32, 48, activation=activation)
            got = read(mask(output, mask_layout(output.shape), manifest, Placement(0, 0, 48, 32), (48, 32)))
            assert np.array_equal(got, truth * np.uint8(255))


@pytest.mark.parametrize(("threshold", "level"), [(0.5, 0), (0.4, 255), (0.49999, 255)])
def test_pixels_above_the_threshold_are_set(threshold, level) -> None:
    output = np.full((1, 8, 8, 1), 0.5, np.float32)
    manifest = Manifest("segmentation", 8, 8, threshold=threshold)
    assert (
        read(mask(output, mask_layout(output.shape), manifest, Placement(0, 0, 8, 8), (8, 8))) == level
    ).all()


def test_several_classes_give_the_number_of_the_highest(subtests: pytest.Subtests) -> None:
    for classes, first in itertools.product([2, 5, 256], [False, True]):
        with subtests.test(classes=classes, first=first):
            rng = np.random.default_rng(classes)
            output = rng.normal(size=(1, 260, 270, classes)).astype(np.float32)
            want = output[0].argmax(-1)
            given = np.ascontiguousarray(output.transpose(0, 3, 1, 2)) if first else output
            labels = tuple(str(i) for i in range(classes))
            manifest = Manifest("segmentation", 260, 270, labels=labels)
            layout = mask_layout(given.shape, labels)
            assert layout.channels_first == first
            assert np.array_equal(
                read(mask(given, layout, manifest, Placement(0, 0, 270, 260), (270, 260))), want
            )


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32])
def test_class_numbers_made_by_the_network_pass_through(dtype) -> None:
    numbers = np.arange(12).reshape(1, 3, 4).astype(dtype)
    manifest = Manifest("segmentation", 3, 4, labels=tuple("abcdefghijkl"))
    layout = mask_layout(numbers.shape, manifest.labels)
    got = read(mask(numbers, layout, manifest, Placement(0, 0, 4, 3), (8, 6)))
    assert np.array_equal(got, np.kron(numbers[0], np.ones((2, 2))))


def seen_by_network(
    image: np.ndarray, mode: str, size: tuple[int, int]
) -> tuple[np.ndarray, Placement, Manifest]:
    """Return what a perfect network would say of a bright shape: its tensor, scaled to 0..1."""
    manifest = Manifest("segmentation", *size, channels=1, color="GRAY", resize=mode, pad_value=255)
    tensor = np.zeros((*size, 1), np.uint8)
    placement = Resizer(manifest).resize(image, tensor)
    return (tensor / np.float32(255))[None], placement, manifest


def test_resizing_is_undone(subtests: pytest.Subtests) -> None:
    for shape, size, mode in itertools.product(
        [(120, 200), (200, 120), (33, 71), (64, 64), (427, 640)], [(64, 64), (48, 96), (300, 200)], MODES
    ):
        with subtests.test(shape=shape, size=size, mode=mode):
            height, width = shape
            truth = np.zeros(shape, np.uint8)
            truth[height // 4 : height // 2, width // 3 : width * 3 // 4] = 255
            output, placement, manifest = seen_by_network(truth, mode, size)
            got = read(mask(output, mask_layout(output.shape), manifest, placement, (width, height)))
            assert got.shape == shape
            assert set(np.unique(got)) <= {0, 255}
            inside = np.zeros(shape, bool)
            box = [round(v) for v in np.multiply(placement[4:], (width, height, width, height))]
            inside[box[1] : box[3], box[0] : box[2]] = True
            assert (got[~inside] == 0).all()
            wrong = (got != truth) & inside
            coarse = max(1.0, (box[2] - box[0]) / placement.width, (box[3] - box[1]) / placement.height)
            assert wrong.sum() <= coarse * (
                height / 2 + width
            )  # at most half a tensor pixel along the shape's edge


def test_classes_are_not_mixed_by_resizing(subtests: pytest.Subtests) -> None:
    for mode in MODES:
        with subtests.test(mode=mode):
            numbers = np.zeros((90, 150), np.uint8)
            numbers[:, 50:] = 7
            numbers[:, 100:] = 2
            output, placement, _ = seen_by_network(numbers, mode, (60, 60))
            manifest = Manifest("segmentation", 60, 60, resize=mode, labels=tuple("abcdefghi"))
            indices = np.choose(
                np.searchsorted([1, 5, 8], np.rint(output[..., 0] * 255)), [0, 2, 7, 0]
            ).astype(np.float32)
            got = read(
                mask(indices, mask_layout(indices.shape, manifest.labels), manifest, placement, (150, 90))
            )
            assert set(np.unique(got)) <= {0, 2, 7}
            assert (got[45, [70, 80]] == 7).all()
            assert got[45, 108] == 2


def test_an_output_smaller_than_the_input() -> None:
    manifest = Manifest("segmentation", 64, 64, resize="fit_to_window_letterbox")
    output = np.zeros((1, 16, 16, 1), np.float32)
    output[0, 4:12, :8] = 1  # the image's left half; rows 4 to 12 hold it
    got = read(mask(output, mask_layout(output.shape), manifest, Placement(0, 16, 64, 32), (128, 64)))
    assert (got[:, :60] == 255).all()
    assert (got[:, 68:] == 0).all()


def test_tiny_and_thin_images(subtests: pytest.Subtests) -> None:
    for size, mode in itertools.product([(1, 1), (1, 4000), (4000, 1), (3, 2)], MODES):
        with subtests.test(size=size, mode=mode):
            width, height = size
            output, placement, manifest = seen_by_network(
                np.full((height, width), 255, np.uint8), mode, (64, 48)
            )
            got = read(mask(output, mask_layout(output.shape), manifest, placement, size))
            assert got.shape == (height, width)
            assert got.max() == 255


def test_nan_is_not_set() -> None:
    output = np.full((1, 4, 4, 1), np.nan, np.float32)
    manifest = Manifest("segmentation", 4, 4, activation="sigmoid")
    assert (read(mask(output, mask_layout(output.shape), manifest, Placement(0, 0, 4, 4), (4, 4))) == 0).all()
