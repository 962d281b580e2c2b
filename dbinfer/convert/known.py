"""Networks that many people use, how they are recognised, and how their authors publish that an image becomes
their input.

What stands in front of the network may be preprocessing of the user's own. Then nothing is assumed of pixels.

All of torchvision's were trained with one mean and deviation; timm's networks of the same names mostly, too.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from dbinfer.models.graph import GraphInfo
from dbinfer.models.ir import import_openvino

# x = (pixel - mean) / scale: these keys describe one thing together, so whoever states one states all
PIXELS = ("color", "mean", "scale")
CLASSES = 1000
# preprocess_input's three modes in Keras; "torch" is also what torchvision does
CAFFE: dict[str, Any] = {"color": "BGR", "mean": (103.939, 116.779, 123.68), "scale": (1.0,)}
TF: dict[str, Any] = {"color": "RGB", "mean": (127.5,), "scale": (127.5,)}
TORCH: dict[str, Any] = {
    "color": "RGB",
    "mean": (123.675, 116.28, 103.53),
    "scale": (58.395, 57.12, 57.375),
}
# The network itself begins with the layers that prepare pixels
INSIDE: dict[str, Any] = {"color": "RGB", "scale": (1.0,)}


@dataclass(frozen=True)
class Known:
    """A network that was recognised.

    Attributes:
        network: its family and where that comes from, as a person would say it.
        pixels: what its authors publish: PIXELS, and keys like resize and interpolation.
        size: of its images in pixels, for a graph that takes any; 0 where the family has several.
        head: whether it ends in classes or, without, in features; None: nobody knows what the output means.
    """

    network: str
    pixels: dict[str, Any]
    size: int = 0
    head: bool | None = True


def published(known: Known | None, info: GraphInfo, stated: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest's keys that follow from a known network, except what was stated."""
    if known is None or info.channels == 1 or info.element == "u8":
        return {}
    values = dict(known.pixels)
    if any(key in stated for key in PIXELS):
        values = {key: value for key, value in values.items() if key not in PIXELS}
    if known.size and info.height is None and info.width is None:
        values.update(height=known.size, width=known.size)
    if info.classes and known.head is not None:
        values.update(_meaning(known, info))
    return {key: value for key, value in values.items() if key not in stated}


def _meaning(known: Known, info: GraphInfo) -> dict[str, Any]:
    """Return what the output means: classes, or features of the image."""
    if not known.head:
        return {"task": "embedding"}
    values: dict[str, Any] = {"task": "classification"}
    if not info.activation:
        values["activation"] = "sigmoid" if info.classes == 1 else "softmax"
    if info.classes == CLASSES and (labels := _imagenet_labels()):
        values["labels"] = labels
    return values


def _imagenet_labels() -> tuple[str, ...]:
    """Return the names that Keras keeps once it has decoded a prediction on this machine, else none."""
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    try:
        index = json.loads((home / "models" / "imagenet_class_index.json").read_text(encoding="utf-8"))
        return tuple(str(index[str(number)][1]) for number in range(CLASSES))
    # Missing labels are no error: numbers do, too
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return ()


# Layers that change images in training only
ONLY_IN_TRAINING = ("InputLayer", "Dropout", "SpatialDropout2D", "GaussianNoise")
PREPARING = ("Rescaling", "Normalization", "Resizing", "CenterCrop")
SCALING = ("Rescaling", "Normalization", "TrueDivide", "Divide", "Multiply", "Subtract", "Add")
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


KERAS_FAMILIES = (
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
        # What stands before it may be any preprocessing
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


def scales_inside(model: Any) -> bool:
    """Return whether a Keras model begins with what brings pixels of 0..255 into its range."""
    steps = [step for step in _steps(model) if not _only_in_training(step)]
    front = takewhile(
        lambda step: _prepares(step) or (hasattr(step, "layers") and scales_inside(step)), steps
    )
    return any(hasattr(step, "layers") or type(step).__name__ in SCALING for step in front)


def _family(steps: list[Any]) -> tuple[str, dict[str, Any], int] | None:
    names = {step.name for step in steps}
    first = steps[0].name if steps else ""
    for family in KERAS_FAMILIES:
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


# Modules as `layer1.0.conv1.weight` (weights) or `/layer1/layer1.0/conv1/Conv` (operations) name them
STEP = r"[./]"
TORCH_FAMILIES = (
    ("ResNet", (rf"(^|/)layer1\.0{STEP}conv1\b", rf"(^|/)layer4\.\d+{STEP}conv2\b")),
    ("DenseNet", (rf"features{STEP}denseblock1{STEP}denselayer1\b",)),
    ("SqueezeNet", (rf"features\.3{STEP}squeeze\b",)),
    ("MobileNetV2", (rf"features\.1{STEP}conv\b", r"features\.18\b")),
    ("EfficientNet", (rf"features\.1\.0{STEP}block\b", r"\bfc1\b", r"\bfc2\b")),
    ("MobileNetV3", (rf"features\.1{STEP}block\b",)),
    ("ConvNeXt", (rf"features\.1\.0{STEP}block\b", r"\blayer_scale\b")),
    ("RegNet", (rf"trunk_output{STEP}block1\b",)),
    ("ShuffleNetV2", (rf"(^|/)stage2\.0{STEP}branch[12]\b",)),
    ("GoogLeNet", (rf"inception3a{STEP}branch1\b",)),
    ("Inception v3", (rf"Conv2d_1a_3x3{STEP}conv\b", rf"Mixed_7c{STEP}branch1x1\b")),
    ("MNASNet", (r"(^|/)layers\.8\.0", r"(^|/)layers\.16\b")),
    ("Vision Transformer", (r"\bconv_proj\b", r"encoder_layer_0\b")),
    ("VGG or AlexNet", (r"features\.0\b", r"features\.10\b", r"classifier\.6\b")),
)
# Towers for images that are compared with texts, as open_clip and Hugging Face name their modules
CLIP: dict[str, Any] = {
    "color": "RGB",
    "mean": (122.770938, 116.746013, 104.093936),
    "scale": (68.500533, 66.632158, 70.323163),
    "resize": "crop",
    "interpolation": "cubic",
    "l2_normalize": True,
}
SIGLIP: dict[str, Any] = {**TF, "resize": "standard", "interpolation": "cubic", "l2_normalize": True}
TOWERS = (
    ("SigLIP", (rf"visual{STEP}trunk{STEP}attn_pool\b", rf"visual{STEP}trunk{STEP}blocks\b"), SIGLIP),
    ("SigLIP", (rf"vision_model{STEP}head{STEP}attention\b", rf"vision_model{STEP}encoder\b"), SIGLIP),
    ("CLIP", (rf"visual{STEP}conv1\b", rf"visual{STEP}transformer{STEP}resblocks\b"), CLIP),
    (
        "CLIP",
        (rf"vision_model{STEP}embeddings{STEP}patch_embedding\b", rf"vision_model{STEP}pre_layrnorm\b"),
        CLIP,
    ),
)
HEAD = re.compile(r"(^|/)(fc|classifier|head|heads)\b")
# Torchvision scales their short side to 8/7 of what it cuts out, or so; the manifest's crop takes all of it
RESIZE = "crop"


def known_torch(path: Path) -> Known | None:
    """Return which network of torchvision, or which tower of CLIP or SigLIP, an ONNX file holds; None for any other."""
    names = _names(path)
    for network, modules, pixels in TOWERS:
        if all(any(re.search(module, name) for name in names) for module in modules):
            return Known(network, pixels, 0, head=False)
    for family, patterns in TORCH_FAMILIES:
        if all(any(re.search(pattern, name) for name in names) for pattern in patterns):
            head = any(HEAD.search(name) for name in names)
            return Known(f"{family} of torchvision", {**TORCH, "resize": RESIZE}, 0, head)
    return None


def _names(path: Path) -> set[str]:
    """Return the names of weights and operations in the file; converted, some weights lose theirs."""
    ops = import_openvino().Core().read_model(str(path)).get_ops()
    tensors = (name for op in ops for port in op.outputs() for name in port.get_names())
    return {*tensors, *(op.get_friendly_name() for op in ops)}
