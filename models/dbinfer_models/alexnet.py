"""AlexNet in one tower (Krizhevsky 2014, arXiv:1404.5997, after Krizhevsky et al. 2012)."""

from __future__ import annotations

from typing import Any

from dbinfer_models._network import Network, imagenet_manifest
from dbinfer_udf.manifest import Manifest


def build(classes: int = 1000, size: int = 224, dropout: float = 0.5) -> Any:
    """Return the network: input (batch, size, size, 3); output (batch, classes), softmax.

    This is the one-tower variant of 2014 (64, 192, 384, 256, 256 filters, no local response normalisation),
    with 61,100,840 parameters for 1000 classes at 224 pixels, as torchvision's alexnet.
    """
    import keras
    from keras import layers

    image = keras.Input((size, size, 3), name="image")

    # Block 1: large filters, stride 4. 224 -> 55 -> 27
    x = layers.ZeroPadding2D(2, name="block1_pad")(image)
    x = layers.Conv2D(64, 11, strides=4, activation="relu", name="block1_conv1")(x)
    x = layers.MaxPooling2D(3, strides=2, name="block1_pool")(x)

    # Block 2: 27 -> 13
    x = layers.Conv2D(192, 5, padding="same", activation="relu", name="block2_conv1")(x)
    x = layers.MaxPooling2D(3, strides=2, name="block2_pool")(x)

    # Block 3: three convolutions without pooling between them. 13 -> 6
    x = layers.Conv2D(384, 3, padding="same", activation="relu", name="block3_conv1")(x)
    x = layers.Conv2D(256, 3, padding="same", activation="relu", name="block3_conv2")(x)
    x = layers.Conv2D(256, 3, padding="same", activation="relu", name="block3_conv3")(x)
    x = layers.MaxPooling2D(3, strides=2, name="block3_pool")(x)

    # Classifier: dropout before each hidden layer
    x = layers.Flatten(name="flatten")(x)
    for step in (1, 2):
        x = layers.Dropout(dropout, name=f"fc{step}_dropout")(x)
        x = layers.Dense(4096, activation="relu", name=f"fc{step}")(x)
    scores = layers.Dense(classes, activation="softmax", name="scores")(x)
    return keras.Model(image, scores, name="alexnet")


def manifest(classes: int = 1000, size: int = 224, dropout: float = 0.5) -> Manifest:
    """Return the preprocessing: short side to `size`, centre cut out, ImageNet's mean and deviation."""
    return imagenet_manifest("alexnet", size)


NETWORK = Network(
    name="alexnet",
    doc="AlexNet in one tower, 224x224 RGB, 1000 classes",
    build=build,
    manifest=manifest,
    loss="sparse_categorical_crossentropy",
    metrics=("accuracy",),
)
