"""VGG-19 (Simonyan and Zisserman 2014, configuration E) with batch normalisation, two heads."""

from __future__ import annotations

from typing import Any

from dbinfer_models._network import Network, imagenet_manifest
from dbinfer_udf.manifest import Manifest

# Table 1, column E: (filters, how many 3x3 convolutions) of each block
BLOCKS = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
CIFAR_LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# Mean and deviation of the CIFAR-10 training images per channel, in grey levels
CIFAR_MEAN = (125.307, 122.950, 113.865)
CIFAR_SCALE = (62.993, 62.089, 66.705)


def build(classes: int = 1000, size: int = 224, batch_norm: bool = True, dropout: float = 0.5) -> Any:
    """Return the network of the paper: input (batch, size, size, 3); output (batch, classes), softmax.

    With 1000 classes and size 224 it has 143,667,240 parameters without batch normalisation, and 143,678,248
    trainable ones with it (as torchvision's vgg19 and vgg19_bn).
    """
    import keras
    from keras import layers

    image = keras.Input((size, size, 3), name="image")
    x = _convolutions(image, batch_norm)

    # Classifier: two hidden layers of 4096 with dropout 0.5
    x = layers.Flatten(name="flatten")(x)
    for step in (1, 2):
        x = layers.Dense(4096, activation="relu", name=f"fc{step}")(x)
        x = layers.Dropout(dropout, name=f"fc{step}_dropout")(x)
    scores = layers.Dense(classes, activation="softmax", name="scores")(x)
    return keras.Model(image, scores, name="vgg19bn")


def build_cifar(classes: int = 10, size: int = 32, batch_norm: bool = True, dropout: float = 0.5) -> Any:
    """Return the network for small images: the same blocks, 512 features, one layer of scores.

    Input (batch, size, size, 3), size a multiple of 32; output (batch, classes), softmax.
    """
    import keras
    from keras import layers

    image = keras.Input((size, size, 3), name="image")
    x = _convolutions(image, batch_norm)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dropout(dropout, name="dropout")(x)
    scores = layers.Dense(classes, activation="softmax", name="scores")(x)
    return keras.Model(image, scores, name="vgg19bn_cifar")


def _convolutions(x: Any, batch_norm: bool) -> Any:
    from keras import layers

    for block, (filters, steps) in enumerate(BLOCKS, start=1):
        for step in range(1, steps + 1):
            x = layers.Conv2D(
                filters, 3, padding="same", kernel_initializer="he_normal", name=f"block{block}_conv{step}"
            )(x)
            if batch_norm:
                x = layers.BatchNormalization(name=f"block{block}_bn{step}")(x)
            x = layers.ReLU(name=f"block{block}_relu{step}")(x)
        x = layers.MaxPooling2D(2, name=f"block{block}_pool")(x)
    return x


def manifest(classes: int = 1000, size: int = 224, batch_norm: bool = True, dropout: float = 0.5) -> Manifest:
    """Return the preprocessing: short side to `size`, centre cut out, ImageNet's mean and deviation."""
    return imagenet_manifest("vgg19bn", size)


def manifest_cifar(
    classes: int = 10, size: int = 32, batch_norm: bool = True, dropout: float = 0.5
) -> Manifest:
    """Return the preprocessing: stretched to `size`, CIFAR-10's mean and deviation; CIFAR-10's labels."""
    return Manifest(
        task="classification",
        name="vgg19bn_cifar",
        height=size,
        width=size,
        mean=CIFAR_MEAN,
        scale=CIFAR_SCALE,
        labels=CIFAR_LABELS if classes == len(CIFAR_LABELS) else (),
        precision="auto",
    )


NETWORK = Network(
    name="vgg19bn",
    doc="VGG-19 with batch normalisation, 224x224 RGB, 1000 classes",
    build=build,
    manifest=manifest,
    loss="sparse_categorical_crossentropy",
    metrics=("accuracy",),
)

NETWORK_CIFAR = Network(
    name="vgg19bn_cifar",
    doc="VGG-19 with batch normalisation for small images, 32x32 RGB, 10 classes",
    build=build_cifar,
    manifest=manifest_cifar,
    loss="sparse_categorical_crossentropy",
    metrics=("accuracy",),
)
