"""quantize: a model into INT8 with NNCF, straight down: images > calibrate > compare > write.

A process of its own reads the model and the images, see dbinfer/base/apart.py: they may come from anybody.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbinfer.base import apart
from dbinfer.base.errors import DataError, ModelFileError, UsageError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report, restored
from dbinfer.database.pins import install
from dbinfer.models.ir import check_output, folder_beside, put_in_place
from dbinfer_udf.manifest import Manifest

__all__ = ["QuantizeOptions", "QuantizeReport", "Side", "quantize", "quantize_images"]


@dataclass(frozen=True)
class QuantizeOptions:
    """How to quantize.

    Attributes:
        calibrate: SQL whose first column is the image (bytea).
        check: SQL whose columns are image and label (a class number or a label's text); empty: none.
        subset: how many images to calibrate with.
        limit: least agreement with the original (0..1); below it nothing is written.
        force: overwrite an output that is there.
    """

    calibrate: str = ""
    check: str = ""
    subset: int = 300
    limit: float = 0.99
    force: bool = False

    def __post_init__(self) -> None:
        if self.subset < 1:
            raise UsageError(f"--subset is {self.subset}, but must be at least 1")
        if not 0 <= self.limit <= 1:
            raise UsageError(f"--limit is {self.limit}, but must be 0 to 1")


@dataclass(frozen=True)
class Side:
    """One of the two models.

    Attributes:
        size: bytes of .xml and .bin.
        milliseconds: median of one inference with all cores.
        accuracy: share of right answers on labelled images; None without labels.
    """

    size: int
    milliseconds: float
    accuracy: float | None = None


@dataclass(frozen=True)
class QuantizeReport(Report):
    """The outcome of one quantization.

    Attributes:
        measure: what `agreement` is: `top-1`, `IoU`, `boxes` or `cosine`.
        agreement: mean over the compared images, 0..1.
        held_out: the compared images were not calibrated with.
        max_difference, mean_difference: of single output values.
    """

    source: Path
    output: Path
    calibrated: int
    compared: int
    held_out: bool
    measure: str
    agreement: float
    max_difference: float
    mean_difference: float
    original: Side
    quantized: Side


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
    except (RuntimeError, nncf.InternalError) as err:
        raise ModelFileError(f"NNCF cannot quantize this model: {str(err).strip().splitlines()[0]}") from err


# For each image, beside what every reading may take: large networks on small machines take some
SECONDS_OF_IMAGE = 60.0

if TYPE_CHECKING:
    from dbinfer.convert.compare import Run
    from dbinfer.models.agree import Row
    from dbinfer.models.describe import Description
    from dbinfer.models.ir import ModelFile


def quantize(
    source: Path,
    output: Path,
    options: QuantizeOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> QuantizeReport:
    """Quantize an IR with images from the database; write the result only where it agrees with the original.

    Args:
        source: the IR that was converted, with its manifest.
        output: the .xml to write.

    Raises:
        DataError: a query fails or gives no images, or the result agrees less than `options.limit`.
        ModelFileError: the IR cannot be used or quantized, or the output exists.
    """
    from dbinfer.models.agree import query_rows

    options = options or QuantizeOptions()
    _check_output(output, options)
    progress(Progress("reading images from the database"))
    # As many again to compare on, so that the comparison sees images that the calibration did not
    images = [image for image, _ in query_rows(options.calibrate, options.subset * 2, dsn)]
    labelled = query_rows(options.check, options.subset * 10, dsn, 2) if options.check else []
    checking = [image for image, _ in labelled] or images[options.subset :]
    return quantize_images(source, output, images[: options.subset], checking, options, labelled, progress)


def quantize_images(
    source: Path,
    output: Path,
    calibration: Sequence[bytes],
    checking: Sequence[bytes],
    options: QuantizeOptions,
    labelled: Sequence[Row] = (),
    progress: OnProgress = silent,
) -> QuantizeReport:
    """Quantize with image files that are at hand; see `quantize`.

    Args:
        checking: images to compare both models on; empty: those of the calibration.
        labelled: (image, label) of the same images as `checking`, for the accuracy of both.
    """
    _check_output(output, options)
    with folder_beside(output) as folder:
        groups = [_laid_down(folder / name, images) for name, images in (("a", calibration), ("b", checking))]
        call = {
            **{"source": source, "output": folder / output.name, "groups": groups, "options": options},
            "labels": [str(label) for _, label in labelled],
        }
        read = [source, source.with_suffix(".bin")]
        job = apart.Job(
            f"{__name__}:quantize_apart",
            call,
            source,
            folder,
            read,
            output.parent.absolute(),
            apart.SECONDS + SECONDS_OF_IMAGE * (len(calibration) + len(checking)),
        )
        said = apart.run(job, progress)
        try:
            report: QuantizeReport = restored(QuantizeReport, said)
        except (ValueError, TypeError) as err:
            raise ModelFileError(f"the process that read {source} gave a report that makes no sense") from err
        made = [apart.received(folder / output.with_suffix(end).name) for end in (".xml", ".bin")]
        put_in_place(made[0], output, force=True)  # _check_output asked already
    return replace(report, source=source, output=output)


def _laid_down(folder: Path, images: Sequence[bytes]) -> list[Path]:
    """Write images into files, by which another process gets them."""
    folder.mkdir()
    paths = [folder / str(number) for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        path.write_bytes(image)
    return paths


def quantize_apart(
    source: str,
    output: str,
    groups: Sequence[Sequence[str]],
    labels: Sequence[str],
    options: dict[str, Any],
    progress: OnProgress,
) -> QuantizeReport:
    """Quantize in this process, by the words of another one."""
    calibration, checking = ([Path(path).read_bytes() for path in paths] for paths in groups)
    told = QuantizeOptions(**options)
    return quantize_here(Path(source), Path(output), calibration, checking, told, labels, progress)


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
    from dbinfer.convert.compare import Tensors, differences, run
    from dbinfer.models.describe import describe
    from dbinfer.models.graph import output_names
    from dbinfer.models.ir import read_model

    model = read_model(source)
    known = describe(model)
    outputs = output_names(model.graph)
    if len(outputs) > 1:
        raise DataError(
            f"{source} has {len(outputs)} outputs ({', '.join(outputs)}), but quantize compares both models by one",
            "Convert the network again with --output-name for the one that you need.",
        )
    # the integer layers give the speed; the others stay as they were calibrated
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


def _check_output(output: Path, options: QuantizeOptions) -> None:
    """Refuse before the work what would be refused after it."""
    if check_output(output).exists() and not options.force:
        raise ModelFileError(
            f"{output} already exists", "Use --force to overwrite it, or choose another output."
        )


def _for_one_image(model: ModelFile, known: Description) -> Any:
    graph, manifest = model.graph.clone(), known.manifest
    graph.reshape(known.info.shape(manifest.height, manifest.width, manifest.channels))
    return graph


def _agreement(manifest: Manifest, before: Run, after: Run, options: QuantizeOptions) -> tuple[str, float]:
    """Return what was measured and the agreement of both models.

    Raises:
        DataError: it is below the limit.
    """
    from dbinfer.models.agree import agreement

    measure, agreed = agreement(manifest, before.outputs, after.outputs)
    if not agreed >= options.limit:
        raise DataError(
            f"the INT8 model agrees with the original by {agreed:.4f} ({measure}, {len(before.outputs)} images); "
            f"the limit is {options.limit:g}, so nothing was written",
            "Calibrate with more images, or with images that resemble those you will score, or lower --limit.",
        )
    return measure, agreed


def _noted(manifest: Manifest, measure: str, agreed: float, images: int) -> Manifest:
    metrics = {**manifest.metrics, f"int8_{measure}": round(agreed, 5)}
    provenance = {**manifest.provenance, "quantized": f"INT8, NNCF, {images} images"}
    return replace(manifest, metrics=metrics, provenance=provenance)


def _write(graph: Any, manifest: Manifest, output: Path) -> None:
    from dbinfer.models.ir import embed_manifest, written_beside

    embed_manifest(graph, manifest)
    with written_beside(graph, output) as temporary:
        put_in_place(temporary, output, force=True)


def _side(path: Path, result: Run, manifest: Manifest, labels: Sequence[str]) -> Side:
    from dbinfer.convert.compare import accuracy

    size = path.stat().st_size + path.with_suffix(".bin").stat().st_size
    right = accuracy(manifest, result.outputs, labels) if labels else None
    return Side(size, round(result.milliseconds, 3), right)
