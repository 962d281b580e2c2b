"""Recognises the networks of Keras Applications by their layers' names, whatever the model is called.

What stands in front of the network may be preprocessing of the user's own. Then nothing is assumed of pixels.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any, NamedTuple

from dbinfer.convert._known import CAFFE, INSIDE, TF, TORCH, Known

# What changes images in training alone
ONLY_IN_TRAINING = ("InputLayer", "Dropout", "SpatialDropout2D", "GaussianNoise")
PREPARING = ("Rescaling", "Normalization", "Resizing", "CenterCrop")
FEATURES = ("GlobalAveragePooling2D", "GlobalMaxPooling2D", "Flatten")


class Family(NamedTuple):
    """Networks that share their preprocessing.

    Attributes:
        name: as Keras calls them; first: beginnings of the name of the first layer.
        layers: all of them are inside; without: none of these is.
        pixels: what preprocess_input does; size: of images, 0 where members of the family differ.
    """

    name: str
    first: tuple[str, ...]
    layers: tuple[str, ...]
    pixels: dict[str, Any]
    size: int = 224
    without: tuple[str, ...] = ()


FAMILIES = (
    Family("ResNet", ("conv1_pad",), ("conv1_bn", "conv2_block1_1_conv", "conv5_block3_out"), CAFFE),
    Family("ResNetV2", ("conv1_pad",), ("post_bn", "conv2_block1_preact_bn"), TF),
    Family(
        "VGG", ("block1_conv1",), ("block1_conv2", "block5_conv3"), CAFFE, without=("block1_relu1",)
    ),  # without: the zoo's VGG, which has layers of the same names
    Family("Xception", ("block1_conv1",), ("block1_conv1_bn", "block14_sepconv2"), TF, 299),
    Family("MobileNet", ("conv1",), ("conv1_bn", "conv_dw_1", "conv_pw_13"), TF),
    Family("MobileNetV2", ("Conv1",), ("bn_Conv1", "expanded_conv_depthwise", "Conv_1"), TF),
    Family("DenseNet", ("zero_padding2d",), ("conv1_conv", "conv2_block1_0_bn", "pool4_conv"), TORCH),
    Family("InceptionV3", ("conv2d",), ("mixed0", "mixed10"), TF, 299),
    Family("InceptionResNetV2", ("conv2d",), ("mixed_5b", "block35_1_conv", "conv_7b"), TF, 299),
    Family("NASNet", ("stem_conv1",), ("stem_bn1", "reduction_conv_1_stem_1"), TF, 0),
)
# These begin with a layer that scales pixels: its class, and its (scale, offset) where it is a Rescaling
BEGINNINGS = {
    "EfficientNet": (("stem_conv", "block1a_dwconv", "top_conv"), ((1 / 255, 0.0),)),
    "EfficientNetV2": (("stem_conv", "block1a_project_conv", "top_conv"), ((1 / 255, 0.0), (1 / 128, -1.0))),
    "MobileNetV3": (("conv", "conv_bn", "expanded_conv_project"), ((1 / 127.5, -1.0),)),
}
# Its layers begin with the name of the model
CONVNEXT = re.compile(r".*_stage_0_block_0_depthwise_conv")


def known_keras(model: Any) -> Known | None:
    """Return which network of Keras Applications the model is, or is built upon; None for any other."""
    steps = [step for step in _steps(model) if not _only_in_training(step)]
    front = list(takewhile(_prepares, steps))
    # Transfer learning keeps the network as one layer of the model
    base = next((step for step in steps[len(front) :][:1] if hasattr(step, "layers")), None)
    of_base = base and _family([step for step in _steps(base) if not _only_in_training(step)])
    found = of_base or _family(steps)
    if found is None:
        return None
    name, pixels, size = found
    if of_base and front:
        # what stands before it may be any preprocessing
        pixels = {}
    end = type((_steps(steps[-1]) or steps)[-1]).__name__
    return Known(f"{name} of Keras Applications", {**pixels, "resize": "standard"}, size, end not in FEATURES)


def _steps(model: Any) -> list[Any]:
    # `layers` leaves out operations like a division, which may be the user's preprocessing
    return list(getattr(model, "operations", None) or getattr(model, "layers", None) or [])


def _only_in_training(step: Any) -> bool:
    if hasattr(step, "layers"):
        return all(_only_in_training(one) for one in _steps(step))
    name = type(step).__name__
    return name in ONLY_IN_TRAINING or name.startswith("Random")


def _prepares(step: Any) -> bool:
    """Return whether a step may bring pixels into a network's range: an operation like a division, or such a layer."""
    return not hasattr(step, "weights") or type(step).__name__ in PREPARING


def _family(steps: list[Any]) -> tuple[str, dict[str, Any], int] | None:
    names = {step.name for step in steps}
    first = steps[0].name if steps else ""
    for family in FAMILIES:
        if not first.startswith(family.first) or not names.issuperset(family.layers):
            continue
        if names.isdisjoint(family.without):
            return family.name, family.pixels, family.size
    return _family_with_preprocessing(steps, names)


def _family_with_preprocessing(steps: list[Any], names: set[str]) -> tuple[str, dict[str, Any], int] | None:
    kind = type(steps[0]).__name__ if steps else ""
    if kind in ("Normalization", "PreStem") and any(CONVNEXT.fullmatch(name) for name in names):
        return "ConvNeXt", INSIDE, 224
    if kind != "Rescaling":
        return None
    begins = (steps[0].scale, steps[0].offset)
    for family, (layers, scalings) in BEGINNINGS.items():
        if names.issuperset(layers) and begins in scalings:
            return family, INSIDE, 224 if family == "MobileNetV3" else 0
    return None
