"""U-Net (Ronneberger et al. 2015) with padded convolutions and batch normalisation: image to mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbinfer_models._network import Network, numbered
from dbinfer_udf.manifest import Manifest

SIZE = 512
CHANNELS = 3
DEPTH = 7
BASE_WIDTH = 8


@dataclass(frozen=True)
class _Stage:
    """One stage of the U: its name, its filters, and whether its convolutions are normalised."""

    name: str
    filters: int
    batch_norm: bool


def build(
    size: int = SIZE,
    depth: int = DEPTH,
    base_width: int = BASE_WIDTH,
    channels: int = CHANNELS,
    batch_norm: bool = True,
    classes: int = 1,
) -> Any:
    """Return the network: input (batch, size, size, channels) of 0..1; output (batch, size, size, classes).

    Args:
        size: height and width in pixels, a multiple of 2 ** depth.
        depth: how often the image is halved; the full network has 7 (512 -> 4).
        base_width: filters of the first block, doubled at each halving (8, 16, ... 1024 in the full network).
        channels: 3 for colour, 1 for gray.
        batch_norm: without it, the result does not depend on how images are spread over batches.
        classes: of a pixel; 1 is one mask, set or not.

    Raises:
        ValueError: size is not a multiple of 2 ** depth.
    """
    import keras
    from keras import layers

    _check_size(size, depth)
    image = keras.Input((size, size, channels), name="image")
    widths = [base_width * 2**level for level in range(depth + 1)]

    # Contracting path: two convolutions, keep the result for later, halve the image
    x, kept = image, []
    for level, filters in enumerate(widths[:-1], start=1):
        x = _two_convolutions(x, _Stage(f"block{level}", filters, batch_norm))
        kept.append(x)
        x = layers.MaxPooling2D(2, name=f"block{level}_pool")(x)

    # Bottom of the U
    x = _two_convolutions(x, _Stage(f"block{depth + 1}", widths[-1], batch_norm))

    # Expanding path: double the image, put the kept detail beside it, two convolutions
    for level in range(depth, 0, -1):
        filters = widths[level - 1]
        x = layers.Conv2DTranspose(filters, 2, strides=2, name=f"up{level}_upconv")(x)
        x = layers.Concatenate(name=f"up{level}_concat")([kept[level - 1], x])
        x = _two_convolutions(x, _Stage(f"up{level}", filters, batch_norm))

    # One score per pixel, or one for each class
    activation = "sigmoid" if classes == 1 else "softmax"
    mask = layers.Conv2D(classes, 1, activation=activation, name="mask")(x)
    return keras.Model(image, mask, name="unet")


def _two_convolutions(x: Any, stage: _Stage) -> Any:
    from keras import layers

    for step in (1, 2):
        x = layers.Conv2D(
            stage.filters,
            3,
            padding="same",
            use_bias=not stage.batch_norm,  # the normalisation has its own shift
            kernel_initializer="he_normal",
            name=f"{stage.name}_conv{step}",
        )(x)
        if stage.batch_norm:
            x = layers.BatchNormalization(name=f"{stage.name}_bn{step}")(x)
        x = layers.ReLU(name=f"{stage.name}_relu{step}")(x)
    return x


def _check_size(size: int, depth: int) -> None:
    step = 2**depth
    if depth < 1 or size < step or size % step:
        raise ValueError(f"size {size} does not fit depth {depth}: give a multiple of 2 ** depth = {step}")


def manifest(
    size: int = SIZE,
    depth: int = DEPTH,
    base_width: int = BASE_WIDTH,
    channels: int = CHANNELS,
    batch_norm: bool = True,
    classes: int = 1,
) -> Manifest:
    """Return the preprocessing: stretched to size x size, 0..255 to 0..1; above 0.5 is mask."""
    return Manifest(
        task="segmentation",
        name="unet",
        height=size,
        width=size,
        channels=channels,
        color="GRAY" if channels == 1 else "RGB",
        scale=(255.0,),
        labels=numbered(classes),
        threshold=0.5,
        precision="auto",
    )


NETWORK = Network(
    name="unet",
    doc="U-Net with batch normalisation, 512x512 RGB by default, one mask or several classes",
    build=build,
    manifest=manifest,
    loss="dice_loss",
    metrics=("dice_coefficient",),
)
