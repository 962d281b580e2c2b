"""A small detector without anchors, after CenterNet (Zhou et al. 2019, arXiv:1904.07850): objects are points."""

from __future__ import annotations

from typing import Any

from dbinfer_models._network import Network
from dbinfer_udf.manifest import Manifest

SIZE = 128
CLASSES = 10
CHANNELS = 3
BASE_WIDTH = 16
HALVINGS = 4
RARE = -2.19  # bias of the heatmap: at first each cell has score 0.1, or the many empty ones drown the loss


def build(
    classes: int = CLASSES, size: int = SIZE, base_width: int = BASE_WIDTH, channels: int = CHANNELS
) -> Any:
    """Return the network: input (batch, size, size, channels) of 0..1; three maps of size / 4 by size / 4 cells.

    `heatmap` (classes): score that an object of this class has its centre in the cell. `size` (2): width and height
    of that object in pixels of the input tensor. `offset` (2): where in the cell its centre lies, x and y, in cells.

    Args:
        classes: kinds of objects.
        size: height and width in pixels, a multiple of 16.
        base_width: filters of the first block; the deepest has 8 times as many.
        channels: 3 for colour, 1 for gray.

    Raises:
        ValueError: size is not a multiple of 16.
    """
    import keras
    from keras import layers

    from dbinfer_models.losses import STRIDE

    _check_size(size)
    image = keras.Input((size, size, channels), name="image")

    # Down: each block halves the image
    x, kept = image, []
    for level in range(HALVINGS):
        filters = base_width * 2**level
        x = _convolution(x, filters, f"block{level + 1}_conv1", strides=2)
        x = _convolution(x, filters, f"block{level + 1}_conv2")
        kept.append(x)

    # Up to a quarter of the image again: what is there, from the depth, and where exactly, from beside it
    for level in range(HALVINGS - 2, 0, -1):
        width = base_width * 2**level
        x = layers.Conv2D(width, 1, name=f"up{level}_narrow")(x)
        x = layers.UpSampling2D(2, name=f"up{level}_double")(x)
        beside = layers.Conv2D(width, 1, name=f"up{level}_beside")(kept[level])
        x = layers.Add(name=f"up{level}_add")([x, beside])
        x = _convolution(x, width, f"up{level}_conv")

    # Heads
    scores = _convolution(x, base_width * 4, "heatmap_conv")
    rare = keras.initializers.Constant(RARE)
    heatmap = layers.Conv2D(classes, 1, activation="sigmoid", bias_initializer=rare, name="heatmap")(scores)
    place = _convolution(x, base_width * 2, "place_conv")
    cells = layers.Conv2D(2, 1, name="size_in_cells")(place)
    # Learnt in cells, as pixels would make its loss the largest by far
    sizes = layers.Rescaling(float(STRIDE), name="size")(cells)
    offset = layers.Conv2D(2, 1, name="offset")(place)
    return keras.Model(image, [heatmap, sizes, offset], name="finder")


def trained(model: Any) -> Any:
    """Return the same layers with one output, (batch, cells, cells, classes + 4): heatmap, size, offset, side by side.

    Every strategy of training knows networks of one output only.
    """
    import keras
    from keras import layers

    maps = layers.Concatenate(name="maps")(model.outputs)
    return keras.Model(model.inputs, maps, name=model.name)


def _convolution(x: Any, filters: int, name: str, strides: int = 1) -> Any:
    from keras import layers

    x = layers.Conv2D(
        filters,
        3,
        strides=strides,
        padding="same",
        use_bias=False,  # the normalisation has its own shift
        kernel_initializer="he_normal",
        name=name,
    )(x)
    # 0.9: in a run of some thousand steps 0.99 follows the weights late
    x = layers.BatchNormalization(momentum=0.9, name=f"{name}_bn")(x)
    return layers.ReLU(name=f"{name}_relu")(x)


def _check_size(size: int) -> None:
    step = 2**HALVINGS
    if size < step or size % step:
        raise ValueError(f"size {size} does not fit the network: give a multiple of {step}")


def manifest(
    classes: int = CLASSES, size: int = SIZE, base_width: int = BASE_WIDTH, channels: int = CHANNELS
) -> Manifest:
    """Return the preprocessing: stretched to size x size, 0..255 to 0..1; objects with a score of 0.3 or more."""
    return Manifest(
        task="detection",
        name="finder",
        height=size,
        width=size,
        channels=channels,
        color="GRAY" if channels == 1 else "RGB",
        scale=(255.0,),
        labels=tuple(str(number) for number in range(classes)),
        threshold=0.3,
    )


NETWORK = Network(
    name="finder",
    doc="detector without anchors, 128x128 RGB by default, objects as points on a map",
    build=build,
    manifest=manifest,
    loss="centre_loss",
    metrics=("map50", "map50_95"),
    trained=trained,
)
