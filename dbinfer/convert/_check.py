"""Does the IR give what its source gives? Both run on the same images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from dbinfer.convert._graph import Facts
from dbinfer.convert._report import Check
from dbinfer.convert._source import Array, Source, telling_line
from dbinfer.errors import ConvertError
from dbinfer.ir import import_openvino
from dbinfer_udf.manifest import Manifest

TYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "u8": np.uint8}
# Outputs below this are taken for zero
SMALLEST = 1e-4


def check(source: Source, ir: Path, known: Facts, manifest: Manifest, tolerance: float) -> Check:
    """Run source and IR, both in float32, on random images in the network's range and compare.

    Raises:
        ConvertError: they differ by more than `tolerance` times the source's largest value.
    """
    if source.run is None:
        return Check(reason=source.reason, tolerance=tolerance)
    images = [_tensor(image, known, manifest) for image in _images(manifest)]
    try:
        expected = [source.run(image) for image in images]
    except Exception as err:
        return Check(reason=f"{source.framework} could not run it: {telling_line(err)}", tolerance=tolerance)
    compiled = import_openvino().compile_model(str(ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    pairs = [_pair(np.asarray(compiled(x)[0]), y) for x, y in zip(images, expected, strict=True)]
    difference = max(pair[0] for pair in pairs)
    magnitude = max(pair[1] for pair in pairs)
    _refuse(difference, magnitude, tolerance)
    return Check(source.framework, "", len(images), difference, magnitude, tolerance)


def _refuse(difference: float, magnitude: float, tolerance: float) -> None:
    if not np.isfinite(magnitude):
        raise ConvertError("The source gives values that are not finite on random images.", "Train it again.")
    if not difference <= tolerance * max(magnitude, SMALLEST):
        raise ConvertError(
            f"The converted model differs from its source by {difference:.3g} (of {magnitude:.3g}); "
            f"the tolerance {tolerance:g} does not allow that, and nothing was written.",
            "Use --weights fp32, or allow more with --tolerance.",
        )


def _images(manifest: Manifest) -> list[Array]:
    """Return noise, a soft picture, a dark and a bright one: uint8, (height, width, channels)."""
    random = np.random.default_rng(0)
    shape = (manifest.height, manifest.width, manifest.channels)
    noise = random.integers(0, 256, shape, dtype=np.uint8)
    coarse = random.integers(0, 256, (4, 4, manifest.channels), dtype=np.uint8)
    soft = cv2.resize(coarse, (manifest.width, manifest.height), interpolation=cv2.INTER_LINEAR).reshape(
        shape
    )
    return [noise, soft, noise // 8, 255 - noise // 8]


def _tensor(image: Array, known: Facts, manifest: Manifest) -> Array:
    x: Array = image.astype(np.float32)
    if manifest.mean:
        x = x - np.asarray(manifest.mean, np.float32)
    if manifest.scale:
        x = x / np.asarray(manifest.scale, np.float32)
    x = x[None] if known.layout == "NHWC" else x.transpose(2, 0, 1)[None]
    return np.ascontiguousarray(x, dtype=TYPES[known.element])


def _pair(actual: Array, candidates: list[Array]) -> tuple[float, float]:
    """Return (largest difference, largest value) for the source output that `actual` is the image of.

    Frameworks order and name several outputs differently, so the nearest one of equal size is meant.
    """
    fitting = [np.asarray(y, np.float64).reshape(actual.shape) for y in candidates if y.size == actual.size]
    if not fitting:
        sizes = [list(y.shape) for y in candidates]
        raise ConvertError(f"The IR gives a result of shape {list(actual.shape)}, its source {sizes}.")
    both: list[tuple[Any, Any]] = [(np.abs(actual - y).max(), np.abs(y).max()) for y in fitting]
    difference, magnitude = min(both)
    return float(difference), float(magnitude)
