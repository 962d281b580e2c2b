"""The quantization from end to end: images > calibrate > compare > write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbinfer.errors import DataError, ModelFileError
from dbinfer.ir import embed_manifest, import_openvino
from dbinfer.quantize.compare import Run, accuracy, agreement, differences, run
from dbinfer.quantize.images import Row, Tensors, query_rows, tensors
from dbinfer.quantize.nncf_ptq import post_training
from dbinfer.quantize.options import QuantizeOptions
from dbinfer.quantize.report import QuantizeReport, Side
from dbinfer.registry.describe import describe, layout
from dbinfer.registry.source import SourceModel, read_source
from dbinfer_udf.manifest import Manifest

OnStep = Callable[[str], None]


def quiet(step: str) -> None:
    """Say nothing."""


def quantize(source: Path, output: Path, options: QuantizeOptions, on_step: OnStep = quiet) -> QuantizeReport:
    """Quantize an IR with images from the database; write the result only where it agrees with the original.

    Args:
        source: the IR that was converted, with its manifest.
        output: the .xml to write.
        on_step: is told what is being done.

    Raises:
        DataError: a query fails or gives no images, or the result agrees less than `options.limit`.
        ModelFileError: the IR cannot be used or quantized, or the output exists.
    """
    _refuse_existing(output, options)
    on_step("reading images from the database")
    rows = query_rows(options.calibrate, options.subset * 2, options.dsn)
    images = [image for image, _label in rows]
    labelled = query_rows(options.check, options.subset * 10, options.dsn, 2) if options.check else []
    checking = [image for image, _label in labelled] or images[options.subset :]
    return quantize_images(source, output, images[: options.subset], checking, options, labelled, on_step)


def quantize_images(
    source: Path,
    output: Path,
    calibration: Sequence[bytes],
    checking: Sequence[bytes],
    options: QuantizeOptions,
    labelled: Sequence[Row] = (),
    on_step: OnStep = quiet,
) -> QuantizeReport:
    """Quantize with image files that are at hand; see `quantize`.

    Args:
        checking: images to compare both models on; empty: those of the calibration.
        labelled: (image, label) of the same images as `checking`, for the accuracy of both.
    """
    _refuse_existing(output, options)
    read = read_source(source)
    manifest = describe(read, {})[0]
    make = Tensors(manifest, layout(read.graph, None))
    graph = _fixed(read, manifest)
    on_step(f"calibrating with {len(calibration)} images")
    quantized = post_training(graph, tensors(make, calibration))
    on_step("comparing both models")
    inputs = tensors(make, checking or calibration)
    before, after = (run(g, inputs, manifest.precision) for g in (graph, quantized))
    measure, agreed = agreement(manifest, before.outputs, after.outputs)
    if not agreed >= options.limit:
        raise DataError(
            f"the INT8 model agrees with the original by {agreed:.4f} ({measure}, {len(inputs)} images); "
            f"the limit {options.limit:g} does not allow that, and nothing was written.",
            "Calibrate with more images, or images that are more like those to score; or lower --limit.",
        )
    labels = [label for _image, label in labelled]
    embed_manifest(quantized, _noted(manifest, measure, agreed, len(calibration)))
    _write(quantized, output)
    largest, mean = differences(before.outputs, after.outputs)
    return QuantizeReport(
        source,
        output,
        len(calibration),
        len(inputs),
        bool(checking),
        measure,
        agreed,
        largest,
        mean,
        _side(source, before, manifest, labels),
        _side(output, after, manifest, labels),
    )


def _refuse_existing(output: Path, options: QuantizeOptions) -> None:
    if output.suffix != ".xml":
        raise ModelFileError(f"the output {output} is no .xml file.", "Name it MODEL-int8.xml, for example.")
    if output.exists() and not options.force:
        raise ModelFileError(f"{output} is there already.", "Overwrite it with --force, or name another one.")


def _fixed(read: SourceModel, manifest: Manifest) -> Any:
    """Return the graph for one image of the manifest's size."""
    graph = read.graph.clone()
    sizes = {"N": 1, "H": manifest.height, "W": manifest.width, "C": manifest.channels}
    graph.reshape([sizes[axis] for axis in layout(graph, None)])
    return graph


def _noted(manifest: Manifest, measure: str, agreed: float, images: int) -> Manifest:
    metrics = {**manifest.metrics, f"int8_{measure}": round(agreed, 5)}
    provenance = {**manifest.provenance, "quantized": f"INT8, NNCF, {images} images"}
    return replace(manifest, metrics=metrics, provenance=provenance)


def _write(graph: Any, output: Path) -> None:
    """Write both files beside their place, then rename them: a reader never sees half a model."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        temporary = Path(folder, output.name)
        import_openvino().save_model(graph, temporary, compress_to_fp16=False)
        os.replace(temporary.with_suffix(".bin"), output.with_suffix(".bin"))
        os.replace(temporary, output)


def _side(path: Path, result: Run, manifest: Manifest, labels: list[Any]) -> Side:
    size = path.stat().st_size + path.with_suffix(".bin").stat().st_size
    right = accuracy(manifest, result.outputs, labels) if labels else None
    return Side(size, round(result.milliseconds, 3), right)
