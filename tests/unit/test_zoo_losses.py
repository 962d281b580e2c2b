"""Dice by hand on small masks, and models trained with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float32 import tolerance

from dbinfer_models import NETWORKS


def _masks() -> tuple[np.ndarray, np.ndarray]:
    truth = np.zeros((3, 4, 4, 1), np.float32)
    guess = np.zeros((3, 4, 4, 1), np.float32)
    truth[0, :2] = guess[0, :2] = 1  # equal: 8 of 8
    truth[1, :2], guess[1, 2:] = 1, 1  # disjoint: 8 and 8 pixels
    return truth, guess  # the third: both empty


def test_dice_of_equal_disjoint_and_empty_masks() -> None:
    from dbinfer_models.losses import dice_coefficient, dice_loss

    truth, guess = _masks()
    expected = [1.0, 1 / 17, 1.0]
    np.testing.assert_allclose(np.asarray(dice_coefficient(truth, guess)), expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(dice_loss(truth, guess)), 1 - np.array(expected), atol=1e-6)


def test_integer_masks_and_soft_scores() -> None:
    from dbinfer_models.losses import dice_coefficient

    truth = np.ones((1, 2, 2, 1), np.uint8)
    guess = np.full((1, 2, 2, 1), 0.5, np.float32)
    assert float(dice_coefficient(truth, guess)[0]) == pytest.approx((2 * 2 + 1) / (4 + 2 + 1))


@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer:UserWarning")
@pytest.mark.wide
def test_unet_learns_is_saved_and_loaded_with_its_loss(tmp_path: Path) -> None:
    import keras

    keras.utils.set_random_seed(0)
    entry = NETWORKS["unet"]
    model = entry.build(size=16, depth=1, base_width=4, channels=1)
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss=entry.make_loss(), metrics=entry.make_metrics())
    images = (np.random.default_rng(0).random((16, 16, 16, 1)) > 0.7).astype(np.float32)
    history = model.fit(images, images, epochs=15, batch_size=8, verbose=0).history
    assert history["dice_coefficient"][-1] > 0.9 > history["dice_coefficient"][0]
    model.save(tmp_path / "net.keras")
    again = keras.models.load_model(tmp_path / "net.keras")
    # sums over all pixels of all images
    figures = model.evaluate(images, images, verbose=0)
    rounding = tolerance(max(figures), 1, 16 * 16 * 16)
    assert again.evaluate(images, images, verbose=0) == pytest.approx(figures, abs=rounding)
