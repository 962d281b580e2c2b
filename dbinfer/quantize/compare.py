"""How far two models agree on the same images, how accurate each is, and how long an inference takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from dbinfer.ir import import_openvino
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.mask import MaskLayout, mask_layout, sigmoid
from dbinfer_udf.postprocess import scores

WARM = 3


@dataclass(frozen=True)
class Run:
    """Outputs of a model, one for each image, and the median milliseconds of an inference."""

    outputs: list[Any]
    milliseconds: float


def run(graph: Any, inputs: Sequence[Any], precision: str) -> Run:
    """Run a graph on all inputs, one by one."""
    config = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    compiled = import_openvino().Core().compile_model(graph, "CPU", config)
    request, outputs, taken = compiled.create_infer_request(), [], []
    # First inferences also allocate and fill caches
    for _ in range(WARM):
        request.infer({0: inputs[0]})
    for x in inputs:
        started = perf_counter()
        request.infer({0: x})
        taken.append((perf_counter() - started) * 1000)
        # Copied, because the next inference writes into the same memory
        outputs.append(request.get_output_tensor(0).data.copy())
    return Run(outputs, median(taken))


def agreement(manifest: Manifest, first: Sequence[Any], second: Sequence[Any]) -> tuple[str, float]:
    """Return what is measured (`top-1`, `IoU`, `cosine`) and its mean over the images."""
    pairs = list(zip(first, second, strict=True))
    if manifest.task == "classification":
        same = [winner(manifest, a) == winner(manifest, b) for a, b in pairs]
        return "top-1", float(np.mean(same))
    if manifest.task == "segmentation":
        layout = mask_layout(first[0].shape, manifest.labels)
        masks = [(mask_of(manifest, layout, a), mask_of(manifest, layout, b)) for a, b in pairs]
        return "IoU", float(np.mean([overlap(a, b) for a, b in masks]))
    return "cosine", float(np.mean([_cosine(a.ravel(), b.ravel()) for a, b in pairs]))


def winner(manifest: Manifest, output: Any) -> int:
    """Return the best class, as `classify` does."""
    return int(scores(output, manifest.activation, len(manifest.labels)).argmax())


def mask_of(manifest: Manifest, layout: MaskLayout, output: Any) -> Any:
    """Return the class of each pixel; 0 and 1 where the network has one class."""
    if layout.indices:
        return output.reshape(layout.height, layout.width).astype(np.int64)
    if layout.classes > 1:
        return output[0].argmax(0 if layout.channels_first else 2)
    values = output.reshape(layout.height, layout.width)
    limit = manifest.threshold
    if manifest.activation == "sigmoid":
        values = sigmoid(values)
    return (values > limit).astype(np.int64)


def overlap(a: Any, b: Any) -> float:
    """Return the mean over the classes that occur of intersection / union; of the mask alone where it is one class."""
    classes = [c for c in np.union1d(a, b).tolist() if c != 0]
    if not classes:
        return 1.0
    return float(np.mean([((a == c) & (b == c)).sum() / ((a == c) | (b == c)).sum() for c in classes]))


def _cosine(a: Any, b: Any) -> float:
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.dot(a, b)) / length if length else float(not a.any() and not b.any())


def differences(first: Sequence[Any], second: Sequence[Any]) -> tuple[float, float]:
    """Return the largest and the mean absolute difference of output values."""
    gaps = [np.abs(a.astype(np.float64) - b) for a, b in zip(first, second, strict=True)]
    return float(max(gap.max() for gap in gaps)), float(np.mean([gap.mean() for gap in gaps]))


def accuracy(manifest: Manifest, outputs: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the share of images whose best class is the label: a class number, or the text of one."""
    right = 0
    for output, label in zip(outputs, labels, strict=True):
        best = winner(manifest, output)
        names = {str(best)} | ({manifest.labels[best]} if best < len(manifest.labels) else set())
        right += str(label) in names
    return right / len(labels)
