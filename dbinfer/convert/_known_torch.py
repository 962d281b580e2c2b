"""Recognises the networks of torchvision in an ONNX file by the names of their modules, which exports keep.

All of them were trained with one mean and deviation; timm's networks of the same names mostly, too.
"""

from __future__ import annotations

import re
from pathlib import Path

from dbinfer.convert._known import TORCH, Known
from dbinfer.ir import import_openvino

# Modules as `layer1.0.conv1.weight` (weights) or `/layer1/layer1.0/conv1/Conv` (operations) name them
STEP = r"[./]"
FAMILIES = (
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
HEAD = re.compile(r"(^|/)(fc|classifier|head|heads)\b")
# Torchvision scales their short side to 8/7 of what it cuts out, or so; the manifest's crop takes all of it
RESIZE = "crop"


def known_torch(path: Path) -> Known | None:
    """Return which network of torchvision an ONNX file holds; None for any other."""
    names = _names(path)
    for family, patterns in FAMILIES:
        if all(any(re.search(pattern, name) for name in names) for pattern in patterns):
            head = any(HEAD.search(name) for name in names)
            return Known(f"{family} of torchvision", {**TORCH, "resize": RESIZE}, 0, head)
    return None


def _names(path: Path) -> set[str]:
    """Return the names of weights and operations, read as they are: converted, some weights have lost theirs."""
    ops = import_openvino().Core().read_model(str(path)).get_ops()
    tensors = (name for op in ops for port in op.outputs() for name in port.get_names())
    return {*tensors, *(op.get_friendly_name() for op in ops)}
