"""The options and the report of a conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.report import Report
from dbinfer.models.describe import checked_layout, checked_values
from dbinfer.models.graph import Port
from dbinfer_udf.manifest import Manifest

WEIGHTS = ("fp32", "fp16")
DETECTORS = (
    "ssd",
    "detection_output",
    "boxes_labels",
    "yolov5",
    "yolov8",
    "yolox",
    "centers",
    "rows",
)
MANIFEST_NAME = "manifest.json"
# What exporters write beside a model
BESIDE = ("metadata.yaml", "config.json", "preprocessor_config.json")
TOLERANCE = {"fp32": 1e-3, "fp16": 1e-2}


@dataclass(frozen=True)
class ConvertOptions:
    """How to convert, and what is known of the model.

    Attributes:
        weights: `fp32`, or `fp16` for half the size.
        tolerance: largest difference allowed between source and IR, as a share of the largest output;
            None takes 1e-3 for fp32 and 1e-2 for fp16.
        force: overwrite an output whose content differs.
        manifest: a manifest file to read in place of the one beside the source.
        network: name of a zoo network whose preprocessing the model shares.
        layout: `NHWC` or `NCHW`, where the shape leaves it open.
        output_name: which output to keep, where the model has several, or several names: the first is what the
            functions of a task read; of a Keras model also layers. None keeps all.
        detector: the form of a detector's outputs, a key of HEADS; None: as its names and shapes tell.
        values: manifest keys that win over every other source, also `input_size` as (height, width).
    """

    weights: str = "fp32"
    tolerance: float | None = None
    force: bool = False
    manifest: Path | None = None
    network: str | None = None
    layout: str | None = None
    output_name: str | Sequence[str] | None = None
    detector: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.detector is not None and self.detector not in DETECTORS:
            raise UsageError(f"--detector is {self.detector!r}, but must be one of {', '.join(DETECTORS)}")
        if len(set(self.outputs)) < len(self.outputs):
            raise UsageError(f"--output-name names an output twice: {', '.join(self.outputs)}")
        if self.weights not in WEIGHTS:
            raise UsageError(f"--weights is {self.weights!r}, but must be fp32 or fp16")
        if self.tolerance is not None and not self.tolerance > 0:
            raise UsageError(f"--tolerance is {self.tolerance!r}, but must be greater than 0")
        object.__setattr__(self, "values", checked_values(self.values))  # the way into a frozen dataclass
        object.__setattr__(self, "layout", checked_layout(self.layout))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of outputs to keep; () for all."""
        names = self.output_name or ()
        return (names,) if isinstance(names, str) else tuple(names)

    @property
    def limit(self) -> float:
        """The tolerance in force."""
        return TOLERANCE[self.weights] if self.tolerance is None else self.tolerance


@dataclass(frozen=True)
class Check(Report):
    """The comparison of source and IR.

    Attributes:
        framework: what ran the source, or "" where nothing could.
        reason: why the source was not run, or "".
        images: how many images were compared.
        difference: largest absolute difference of an output value; None where not run.
        magnitude: largest absolute value the source gave.
        tolerance: limit for difference / magnitude.
    """

    derived = ("done",)

    framework: str = ""
    reason: str = ""
    images: int = 0
    difference: float | None = None
    magnitude: float | None = None
    tolerance: float = 0.0

    @property
    def done(self) -> bool:
        """Whether source and IR were compared."""
        return self.difference is not None


@dataclass(frozen=True)
class ConvertReport(Report):
    """The outcome of one conversion.

    Attributes:
        source, output, weights_file: paths; `size` is the bytes of both written files together.
        source_format: name of the format, a key of FORMATS.
        inputs, outputs: of the IR.
        manifest: as embedded; `assumed` names its keys that nobody stated.
        known: the published network that the source is, or "".
        told: who else has said values of the manifest, in the file or beside it, or "".
        detector: the form of a detector's outputs, with `recognised` where nobody named it; "" of other models.
        left_out: kinds of layers of the source that work in training alone.
        scaled_inside: the network was seen to scale pixels itself, where nobody but the user said how they become its
            input.
        written: False where the same content was there already.
        seconds: of the whole conversion.
    """

    source: Path
    source_format: str
    output: Path
    weights_file: Path
    weights: str
    size: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    manifest: Manifest
    assumed: tuple[str, ...]
    check: Check
    known: str
    told: str
    detector: str
    left_out: tuple[str, ...]
    scaled_inside: bool
    written: bool
    seconds: float
