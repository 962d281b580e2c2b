"""The digits network learns scikit-learn's handwritten digits, fed as its manifest says."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer_models import NETWORKS


def _digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    data = load_digits()
    manifest = NETWORKS["digits"].manifest()
    size = (manifest.width, manifest.height)
    gray = [np.round(image * (255 / 16)).astype(np.uint8) for image in data.images]
    pixels = np.stack([cv2.resize(image, size, interpolation=cv2.INTER_LINEAR) for image in gray])
    return (pixels[..., None] / manifest.scale[0]).astype(np.float32), data.target


def test_held_out_digits_are_read() -> None:
    import keras

    keras.utils.set_random_seed(0)
    images, labels = _digits()
    held_out = np.random.default_rng(0).permutation(len(images)) < 360
    entry = NETWORKS["digits"]
    model = entry.build()
    model.compile(optimizer="adam", loss=entry.make_loss(), metrics=entry.make_metrics())
    model.fit(images[~held_out], labels[~held_out], epochs=15, batch_size=32, verbose=0)
    accuracy = model.evaluate(images[held_out], labels[held_out], verbose=0)[1]
    assert accuracy >= 0.97
