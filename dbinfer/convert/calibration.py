"""A model into INT8 with NNCF, straight down: calibrate > compare > write."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from dbinfer.base.errors import DataError, ModelFileError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.convert.quantize import QuantizeOptions, QuantizeReport, Side
from dbinfer.database.pins import install
from dbinfer.models.agree import Pixels, agreement, winner
from dbinfer.models.describe import Description, describe
from dbinfer.models.graph import input_tensor, output_names
from dbinfer.models.ir import (
    ModelFile,
    embed_manifest,
    import_openvino,
    put_in_place,
    read_model,
    written_beside,
)
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.model.device import new_core

WARM = 3  # inferences before those that are timed: the first also allocate and fill caches


def quantize_apart(
    source: str,
    output: str,
    groups: Sequence[Sequence[str]],
    labels: Sequence[str],
    options: dict[str, Any],
    progress: OnProgress,
) -> QuantizeReport:
    """Quantize in this process, as another one asks in JSON."""
    calibration, checking = ([Path(path).read_bytes() for path in paths] for paths in groups)
    return quantize_here(
        Path(source),
        Path(output),
        calibration=calibration,
        checking=checking,
        options=QuantizeOptions(**options),
        labels=labels,
        progress=progress,
    )


def quantize_here(
    source: Path,
    output: Path,
    calibration: Sequence[bytes],
    checking: Sequence[bytes],
    options: QuantizeOptions,
    labels: Sequence[str] = (),
    progress: OnProgress = silent,
) -> QuantizeReport:
    """Quantize in this process; see `quantize_images`."""
    model = read_model(source)
    known = describe(model)
    outputs = output_names(model.graph)
    # a detector's first output is its boxes, by which both are compared; masks and points belong to them
    if len(outputs) > 1 and known.manifest.task != "detection":
        raise DataError(
            f"{source} has {len(outputs)} outputs ({', '.join(outputs)}), but quantize compares both models by one",
            "Convert the network again with --output-name for the one that you need.",
        )
    # The integer layers make it fast; the others stay as they were calibrated
    left_open = known.manifest.precision == "auto"
    manifest = replace(known.manifest, precision="f32") if left_open else known.manifest
    make = Tensors(manifest, known.info.layout)
    graph = _for_one_image(model, known)
    progress(Progress(f"calibrating with {len(calibration)} images"))
    quantized = post_training(graph, [make(image) for image in calibration])
    progress(Progress("comparing both models"))
    inputs = [make(image) for image in checking or calibration]
    before, after = (run(each, inputs, manifest.precision) for each in (graph, quantized))
    measure, agreed = _agreement(manifest, before, after, options)
    _write(quantized, _noted(manifest, measure, agreed, len(calibration)), output)
    largest, mean = differences(before.outputs, after.outputs)
    return QuantizeReport(
        source=source,
        output=output,
        calibrated=len(calibration),
        compared=len(inputs),
        held_out=bool(checking),
        measure=measure,
        agreement=agreed,
        max_difference=largest,
        mean_difference=mean,
        original=_side(source, before, manifest, labels),
        quantized=_side(output, after, manifest, labels),
    )


class Tensors:
    """Makes the tensor that the model's graph takes from an image file, exactly as a deployed model sees it.

    Args:
        layout: NHWC or NCHW.
    """

    def __init__(self, manifest: Manifest, layout: str) -> None:
        self.manifest, self.layout = manifest, layout
        self.pixels = Pixels(manifest)

    def __call__(self, image: bytes) -> Any:
        """Return float32 of one image with the batch in front.

        Raises:
            DataError: it is no image.
        """
        return input_tensor(self.pixels(image), self.manifest, self.layout)


def _for_one_image(model: ModelFile, known: Description) -> Any:
    graph, manifest = model.graph.clone(), known.manifest
    graph.reshape(known.info.shape(manifest.height, manifest.width, manifest.channels))
    return graph


def post_training(graph: Any, inputs: Sequence[Any]) -> Any:
    """Return the graph in INT8 where that is possible.

    Raises:
        ModelFileError: NNCF is not installed, or cannot quantize this graph.
    """
    # NNCF sends its telemetry through OpenVINO's module; see dbinfer/models/ir.py
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import nncf
    except ImportError as err:
        raise ModelFileError("NNCF is not installed", install("quantize")) from err
    logging.getLogger("nncf").setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()):
            return nncf.quantize(graph, nncf.Dataset(list(inputs)), subset_size=len(inputs))
    except (RuntimeError, ValueError, nncf.InternalError) as err:
        raise ModelFileError(f"NNCF cannot quantize this model: {str(err).strip().splitlines()[0]}") from err


@dataclass(frozen=True)
class Run:
    """Outputs of a model, one for each image, and the median milliseconds of an inference."""

    outputs: list[Any]
    milliseconds: float


def run(graph: Any, inputs: Sequence[Any], precision: str) -> Run:
    """Run a graph on all inputs, one by one."""
    config = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    compiled = new_core(import_openvino()).compile_model(graph, "CPU", config)
    request, outputs, taken = compiled.create_infer_request(), [], []
    for _ in range(WARM):
        request.infer({0: inputs[0]})
    for x in inputs:
        started = perf_counter()
        request.infer({0: x})
        taken.append((perf_counter() - started) * 1000)
        # Copied, because the next inference writes into the same memory
        outputs.append(request.get_output_tensor(0).data.copy())
    return Run(outputs, median(taken))


def _agreement(manifest: Manifest, before: Run, after: Run, options: QuantizeOptions) -> tuple[str, float]:
    """Return what was measured and the agreement of both models.

    Raises:
        DataError: it is below the limit.
    """
    measure, agreed = agreement(manifest, before.outputs, after.outputs)
    if not agreed >= options.limit:
        raise DataError(
            f"the INT8 model agrees with the original by {agreed:.4f} ({measure}, {len(before.outputs)} images); "
            f"the limit is {options.limit:g}, so nothing was written",
            "Calibrate with more images, or with images that resemble those you will score, or lower --limit.",
        )
    return measure, agreed


def differences(first: Sequence[Any], second: Sequence[Any]) -> tuple[float, float]:
    """Return the largest and the mean absolute difference of output values."""
    gaps = [np.abs(a.astype(np.float64) - b) for a, b in zip(first, second, strict=True)]
    return float(max(gap.max() for gap in gaps)), float(np.mean([gap.mean() for gap in gaps]))


def _noted(manifest: Manifest, measure: str, agreed: float, images: int) -> Manifest:
    metrics = {**manifest.metrics, f"int8_{measure}": round(agreed, 5)}
    provenance = {**manifest.provenance, "quantized": f"INT8, NNCF, {images} images"}
    return replace(manifest, metrics=metrics, provenance=provenance)


def _write(graph: Any, manifest: Manifest, output: Path) -> None:
    embed_manifest(graph, manifest)
    with written_beside(graph, output) as temporary:
        put_in_place(temporary, output, force=True)


def _side(path: Path, result: Run, manifest: Manifest, labels: Sequence[str]) -> Side:
    size = path.stat().st_size + path.with_suffix(".bin").stat().st_size
    right = accuracy(manifest, result.outputs, labels) if labels else None
    return Side(size, round(result.milliseconds, 3), right)


def accuracy(manifest: Manifest, outputs: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the share of images whose best class is the label: a class number, or the text of one."""
    right = 0
    for output, label in zip(outputs, labels, strict=True):
        best = winner(manifest, output)
        names = {str(best)} | ({manifest.labels[best]} if best < len(manifest.labels) else set())
        right += str(label) in names
    return right / len(labels)
