"""Masks of several classes: how files become numbers, what a network learns by, and pixels that count for nothing."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from test_train_own import described, one_loss

from dbinfer.base.errors import DataError, UsageError
from dbinfer.train.loader import Loader, Seed, check_numbers, class_numbers
from dbinfer.train.source import Memory
from dbinfer_models import NETWORKS, VOID
from dbinfer_udf.manifest import Manifest

keras = pytest.importorskip("keras")
NETWORK = """
import keras
from keras import layers


def build(classes=3, ending="softmax"):
    image = keras.Input((8, 8, 3))
    return keras.Model(image, layers.Conv2D(classes, 1, activation=ending)(image))
"""
NAMED = '\n\ndef manifest():\n    return {"labels": ["ground", "square", "disc"]}\n'
SIX = Manifest(task="segmentation", height=6, width=6, labels=("a", "b", "c"), scale=(255.0,))
PALETTE = [200, 0, 0, 0, 200, 0, 0, 0, 200]


def file(pixels: Any, mode: str = "L", kind: str = "PNG") -> bytes:
    """Return an image file of whole numbers: gray levels, or places in a palette (mode P)."""
    image, target = Image.fromarray(np.asarray(pixels, np.uint8)), io.BytesIO()
    if mode == "P":
        image = image.copy()
        image.putpalette(PALETTE)
    image.convert(mode).save(target, kind)
    return target.getvalue()


def loaded(mask: Any, manifest: Manifest = SIX, seed: Seed | None = None, mode: str = "L") -> Any:
    """Return the truth of an image as large as its mask."""
    image = file(np.zeros(np.shape(mask)))
    return Loader(Memory([(image, file(mask, mode))], "photo"), manifest).load(0, seed)[1]


def test_gray_levels_and_places_in_a_palette_are_class_numbers() -> None:
    mask = np.arange(36).reshape(6, 6) % 3
    for mode in ("L", "P"):
        found = loaded(mask, mode=mode)
        assert (found.shape, found.dtype) == ((6, 6, 1), np.int32)
        assert (found[..., 0] == mask).all()
    assert class_numbers(file([[0, 255]], "1"), "it").tolist() == [[0, 1]]


def test_resizing_and_augmenting_make_no_other_class() -> None:
    """Between the classes 0 and 2 there is no 1, and what a letterbox adds counts for nothing."""
    mask = np.zeros((40, 24), np.uint8)
    mask[:, 11:] = 2
    assert set(np.unique(loaded(mask))) == {0, 2}
    for epoch in range(5):
        assert set(np.unique(loaded(mask, seed=Seed(0, 0, epoch)))) == {0, 2}
    boxed = loaded(mask, replace(SIX, resize="fit_to_window_letterbox"))
    assert set(np.unique(boxed)) == {0, 2, VOID}
    assert (boxed[:, 0] == VOID).all()
    assert (boxed[:, -1] == VOID).all()


def test_masks_that_fit_no_class_are_one_sentence(subtests: pytest.Subtests) -> None:
    three = SIX.labels
    for mask, labels, message in [
        (file([[0, 7]]), three, "the mask of photo 0 has the class 7, but the network knows 0 to 2"),
        (file([[0, 255]]), three[:2], "has the values 0 and 255, but of two classes the second is 1"),
        (file([[0, 1]], "RGB"), three, r"has colours \(RGB\), not the numbers of classes"),
        (b"no image", three, "is unreadable"),
        (file(np.random.default_rng(0).integers(0, 3, (30, 30)))[:100], three, "is unreadable"),
        (file([[0, 1, 2]]), three, "has 3 x 1 pixels, but the image has 2 x 1"),
    ]:
        with subtests.test(message=message):
            loader = Loader(Memory([(file([[0, 0]]), mask)], "photo"), replace(SIX, labels=labels))
            with pytest.raises(DataError, match=message) as caught:
                loader.load(0)
            assert "x 1 pixels" in message or caught.value.hint
    check_numbers(np.array([[0, 1, VOID]], np.uint8), 2, "it")


def test_what_follows_from_a_network_of_several_classes(tmp_path: Path) -> None:
    network = described(tmp_path, NETWORK, task="segmentation", labels=0)
    manifest = network.manifest()
    assert (network.loss, network.metrics) == ("sparse_categorical_crossentropy", ("dice_coefficient",))
    assert (manifest.task, manifest.labels, manifest.activation) == ("segmentation", ("0", "1", "2"), "none")
    raw = described(tmp_path, NETWORK + NAMED, task="segmentation", labels=0, ending=None)
    assert (raw.manifest().labels, raw.manifest().activation) == (("ground", "square", "disc"), "softmax")
    one = described(tmp_path, NETWORK + NAMED, task="segmentation", labels=0, classes=1, ending="sigmoid")
    assert (one.loss, one.manifest().labels) == ("binary_crossentropy", ())


def test_networks_that_fit_no_mask_are_one_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for text, more, message in [
        (NETWORK + NAMED, {"classes": 4}, "names 3 classes, but its output has 4"),
        (NETWORK, {"classes": 256}, "or one for each of up to 255 classes"),
        (NETWORK, {"classes": 1}, "softmax over one score, which is always 1"),
    ]:
        with subtests.test(message=message), pytest.raises(UsageError, match=message) as caught:
            described(tmp_path, text, task="segmentation", labels=0, **more)
        assert caught.value.hint
    with pytest.raises(ValueError, match="classes is 300, but a mask holds 1 to 255"):
        NETWORKS["unet"].manifest(classes=300)


def truth_and_scores() -> tuple[Any, Any]:
    """Return two masks, (2, 8, 8, 1), of which the second is VOID on its left half, and probabilities of classes."""
    random = np.random.default_rng(2)
    truths = random.integers(0, 3, (2, 8, 8, 1)).astype(np.int32)
    truths[1, :, :4] = VOID
    scores = random.random((2, 8, 8, 3)).astype(np.float32) + 0.1
    return truths, scores / scores.sum(-1, keepdims=True)


def test_the_loss_is_that_of_the_pixels_that_count(tmp_path: Path, subtests: pytest.Subtests) -> None:
    truths, scores = truth_and_scores()
    known = truths[..., 0] != VOID
    right = np.take_along_axis(scores, np.where(known[..., None], truths, 0), -1)[..., 0]
    expected = np.where(known, -np.log(right), 0)
    for named in ("sparse_categorical_crossentropy", "categorical_crossentropy"):
        for ending, given in (("softmax", scores), (None, np.log(scores))):
            with subtests.test(loss=named, ending=ending):
                loss = f"\n\nloss = {named!r}\n"
                network = described(tmp_path, NETWORK + loss, task="segmentation", labels=0, ending=ending)
                assert one_loss(network, truths, given) == pytest.approx(expected, abs=1e-5)


def test_pixels_that_count_for_nothing_teach_nothing(tmp_path: Path) -> None:
    """Wherever the scores are 0 or 1, the gradient there is 0, and nowhere NaN."""
    tf = pytest.importorskip("tensorflow")
    truths, scores = truth_and_scores()
    scores[1, :, :4] = (0, 1, 0)
    for named in ("sparse_categorical_crossentropy", "categorical_crossentropy", "dice_loss"):
        loss = NETWORKS["unet"].make_loss()
        if named != "dice_loss":
            network = described(tmp_path, f"{NETWORK}\n\nloss = {named!r}\n", task="segmentation", labels=0)
            network.build(**network.options)
            loss = network.make_loss()
        given = tf.Variable(scores)
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(loss(tf.constant(truths), given))
        slope = np.asarray(tape.gradient(total, given))
        assert np.isfinite(slope).all()
        assert not slope[1, :, :4].any()
        assert slope[1, :, 4:].any()


def test_the_overlap_is_the_mean_over_the_classes_that_an_image_has() -> None:
    from dbinfer_models.losses import dice_coefficient

    truths, scores = truth_and_scores()
    truths[0][truths[0] == 2] = 1
    expected = []
    for truth, score in zip(truths[..., 0], scores, strict=True):
        known, found = truth != VOID, []
        for number in sorted(set(truth[known].tolist())):
            there, given = truth == number, score[..., number] * known
            found.append((2 * given[there].sum() + 1) / (there.sum() + given.sum() + 1))
        expected.append(np.mean(found))
    assert np.asarray(dice_coefficient(truths, scores)) == pytest.approx(expected, rel=1e-5)
    nothing = np.full_like(truths, VOID)
    assert np.asarray(dice_coefficient(nothing, scores)).tolist() == [1.0, 1.0]
    right = np.eye(3, dtype=np.float32)[np.where(truths == VOID, 0, truths)[..., 0]]
    assert np.asarray(dice_coefficient(truths, right)) == pytest.approx([1, 1])
