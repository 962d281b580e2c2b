"""The digits network learns scikit-learn's handwritten digits, fed as its manifest says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dbinfer.images import builtin
from dbinfer_models import NETWORKS


def _digits(part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    images, labels = builtin.digits(part)
    manifest = NETWORKS["digits"].manifest()
    assert (manifest.height, manifest.width) == images.shape[1:]
    return (images[..., None] / manifest.scale[0]).astype(np.float32), labels


@pytest.mark.wide
def test_held_out_digits_are_read() -> None:
    import keras

    keras.utils.set_random_seed(0)
    entry = NETWORKS["digits"]
    model = entry.build()
    model.compile(optimizer="adam", loss=entry.make_loss(), metrics=entry.make_metrics())
    model.fit(*_digits("train"), epochs=15, batch_size=32, verbose=0)
    accuracy = model.evaluate(*_digits("heldout"), verbose=0)[1]
    assert accuracy >= 0.97
