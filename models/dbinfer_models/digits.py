"""A small network for handwritten digits, after LeNet-5 (LeCun et al. 1998), with ReLU and dropout."""

from __future__ import annotations

from typing import Any

from dbinfer_models._network import Network
from dbinfer_udf.manifest import Manifest

SIZE = 28
CLASSES = 10


def build(classes: int = CLASSES, dropout: float = 0.25) -> Any:
    """Return the network.

    Input (batch, 28, 28, 1) of 0..1, white strokes on black; output (batch, classes), softmax.
    """
    import keras
    from keras import layers

    image = keras.Input((SIZE, SIZE, 1), name="image")

    # Block 1: strokes. 28x28 -> 14x14
    x = layers.Conv2D(16, 3, padding="same", activation="relu", name="block1_conv1")(image)
    x = layers.MaxPooling2D(2, name="block1_pool")(x)

    # Block 2: corners and loops. 14x14 -> 7x7
    x = layers.Conv2D(32, 3, padding="same", activation="relu", name="block2_conv1")(x)
    x = layers.MaxPooling2D(2, name="block2_pool")(x)

    # Head
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(64, activation="relu", name="fc1")(x)
    x = layers.Dropout(dropout, name="dropout")(x)
    scores = layers.Dense(classes, activation="softmax", name="scores")(x)
    return keras.Model(image, scores, name="digits")


def manifest(classes: int = CLASSES, dropout: float = 0.25) -> Manifest:
    """Return the preprocessing: gray, stretched to 28x28, 0..255 to 0..1."""
    return Manifest(
        task="classification",
        name="digits",
        height=SIZE,
        width=SIZE,
        channels=1,
        color="GRAY",
        scale=(255.0,),
        labels=tuple(str(digit) for digit in range(classes)),
        precision="auto",
    )


NETWORK = Network(
    name="digits",
    doc="small CNN for handwritten digits, 28x28 gray, 10 classes",
    build=build,
    manifest=manifest,
    loss="sparse_categorical_crossentropy",
    metrics=("accuracy",),
)
