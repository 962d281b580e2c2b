"""How far the values of two models differ on the same images, how accurate each is, and how long an inference takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from dbinfer.agree.measure import winner
from dbinfer.ir import import_openvino
from dbinfer_udf.manifest import Manifest

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
