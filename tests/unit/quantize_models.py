"""A small convolutional classifier with fixed random weights, and images it tells apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from dbinfer.models.ir import embed_manifest, import_openvino
from dbinfer_udf.manifest import Manifest

SIDE, CLASSES = 16, 3


def classifier(folder: Path, name: str = "net") -> Path:
    """Write an IR: two convolutions, then the means of three channels as scores of red, green and blue."""
    ov = import_openvino()
    from openvino import opset13 as ops

    random = np.random.default_rng(3)
    image = ops.parameter([1, 3, SIDE, SIDE], np.float32, name="image")
    first = np.zeros((8, 3, 3, 3), np.float32)
    for channel in range(3):
        first[channel, channel, 1, 1] = 1.0
    first[3:] = random.normal(0, 0.05, first[3:].shape)
    second = np.zeros((CLASSES, 8, 1, 1), np.float32)
    for channel in range(3):
        second[channel, channel] = 1.0
    x: Any = image
    for weights, pad in ((first, 1), (second, 0)):
        x = ops.convolution(x, weights, [1, 1], [pad, pad], [pad, pad], [1, 1])
        x = ops.relu(x)
    scores = ops.reduce_mean(x, np.array([2, 3]), False)
    graph = ov.Model([ops.result(scores)], [image], name)
    manifest = Manifest(
        task="classification",
        name=name,
        height=SIDE,
        width=SIDE,
        scale=(255.0,),
        labels=("red", "green", "blue"),
    )
    embed_manifest(graph, manifest)
    ov.save_model(graph, folder / f"{name}.xml", compress_to_fp16=False)
    return folder / f"{name}.xml"


def pictures(count: int) -> tuple[list[bytes], list[str]]:
    """Return PNG files that are mostly red, green or blue in turn, and which."""
    random = np.random.default_rng(5)
    files, labels = [], []
    for i in range(count):
        pixels = random.integers(0, 60, (SIDE, SIDE, 3), dtype=np.uint8)
        pixels[..., 2 - i % 3] = random.integers(150, 255, (SIDE, SIDE), dtype=np.uint8)  # OpenCV: blue first
        files.append(bytes(cv2.imencode(".png", pixels)[1].tobytes()))
        labels.append(("red", "green", "blue")[i % 3])
    return files, labels
