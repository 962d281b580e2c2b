"""quantize: a model into INT8 with the user's images, if the result agrees with the original.

A process of its own reads the model and the images, see dbinfer/base/apart.py: they may come from anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dbinfer.base import apart
from dbinfer.base.errors import ModelFileError, UsageError
from dbinfer.base.options import check, documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report, restored
from dbinfer.models.ir import check_output, folder_beside, put_in_place

if TYPE_CHECKING:
    from dbinfer.models.agree import Row

__all__ = ["QuantizeOptions", "QuantizeReport", "Side", "quantize", "quantize_images"]

# For each image, in addition to the limit for every model: large networks on small machines are slow
SECONDS_OF_IMAGE = 60.0


@documented
@dataclass(frozen=True)
class QuantizeOptions:
    """How to quantize."""

    calibrate: str = option("", "Query whose first column is the image.", needed=True)
    check: str = option(
        "", "Query with image and label (class number or name), to measure the accuracy of both models."
    )
    subset: int = option(300, "How many images to calibrate with.", least=1)
    limit: float = option(
        0.99, "Lowest agreement to accept, 0 to 1: share of equal classes, or mean IoU of masks."
    )
    force: bool = option(False, "Overwrite an existing output.")

    def __post_init__(self) -> None:
        check(self)
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
    # Twice as many: the other half is for the comparison, which must see other images
    images = [image for image, _ in query_rows(options.calibrate, options.subset * 2, dsn)]
    labelled = query_rows(options.check, options.subset * 10, dsn, 2) if options.check else []
    checking = [image for image, _ in labelled] or images[options.subset :]
    return quantize_images(
        source,
        output,
        calibration=images[: options.subset],
        checking=checking,
        options=options,
        labelled=labelled,
        progress=progress,
    )


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
            function="dbinfer.convert.calibration:quantize_apart",
            arguments=call,
            what=source,
            folder=folder,
            read=read,
            shown=output.parent.absolute(),
            seconds=apart.SECONDS + SECONDS_OF_IMAGE * (len(calibration) + len(checking)),
        )
        said = apart.run(job, progress)
        try:
            report: QuantizeReport = restored(QuantizeReport, said)
        except (ValueError, TypeError) as err:
            raise ModelFileError(f"the process that read {source} gave a report that makes no sense") from err
        made = [apart.received(folder / output.with_suffix(end).name) for end in (".xml", ".bin")]
        put_in_place(made[0], output, force=True)  # _check_output has checked that
    return replace(report, source=source, output=output)


def _check_output(output: Path, options: QuantizeOptions) -> None:
    """Refuse at once what would be refused after the work."""
    if check_output(output).exists() and not options.force:
        raise ModelFileError(
            f"{output} already exists", "Use --force to overwrite it, or choose another output."
        )


def _laid_down(folder: Path, images: Sequence[bytes]) -> list[Path]:
    """Write images into files for another process."""
    folder.mkdir()
    paths = [folder / str(number) for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        path.write_bytes(image)
    return paths
