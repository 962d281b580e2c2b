"""Trains the network of Keras' tutorial on image classification for a moment, and converts it; run as a script.

Usage: python keras_tutorial.py FOLDER PICTURES
FOLDER gets flowers.keras, flowers.xml, and scores.json with what Keras says of the PNGs of PICTURES.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from dbinfer.base.quiet import tensorflow
from dbinfer.cli.app import main as dbinfer

CLASSES = 5


def main(folder: Path, pictures: Path) -> None:
    """Train, save and convert as a new user does, with Keras' own layers and no option."""
    tensorflow()
    import keras
    from keras import layers

    images = np.stack([np.asarray(Image.open(path)) for path in sorted(pictures.glob("*.png"))])
    keras.utils.set_random_seed(1)
    augmentation = keras.Sequential(
        [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1), layers.RandomZoom(0.1)]
    )
    model = keras.Sequential(
        [
            keras.Input(images.shape[1:]),
            augmentation,
            layers.Rescaling(1.0 / 255),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.2),
            layers.Flatten(),
            layers.Dense(32, activation="relu"),
            layers.Dense(CLASSES, name="outputs"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    model.fit(images, np.arange(len(images)) % CLASSES, epochs=3, verbose=0)
    model.save(folder / "flowers.keras")
    scores = keras.ops.softmax(model.predict(images, verbose=0))
    (folder / "scores.json").write_text(json.dumps(np.asarray(scores).tolist()))
    dbinfer(["convert", str(folder / "flowers.keras"), "-o", str(folder / "flowers.xml")])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
