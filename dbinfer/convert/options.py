"""The options and the report of a conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.options import check, documented, option
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
    "yolov8_pose",
    "yolov8_segment",
    "yolox",
    "centers",
    "blazeface",
    "raw_ssd",
    "rows",
)
MANIFEST_NAME = "manifest.json"
# What exporters write beside a model
TOKENIZERS = ("openvino_tokenizer.xml", "tokenizer.json")
BESIDE = ("metadata.yaml", "config.json", "preprocessor_config.json")
TOLERANCE = {"fp32": 1e-3, "fp16": 1e-2}


@documented
@dataclass(frozen=True)
class ConvertOptions:
    """How to convert, and what is known of the model.

    Attributes:
        layout: `NHWC` or `NCHW`, where the shape leaves it open.
        values: manifest keys that win over every other source, also `input_size` as (height, width).
    """

    weights: str = option("fp32", "fp32, or fp16 for half the size.", choices=WEIGHTS)
    tolerance: float | None = option(
        None,
        "Largest difference allowed between source and IR, relative to the largest output. Default: 1e-3, for fp16 "
        "1e-2.",
    )
    force: bool = option(False, "Overwrite an output that has different content.")
    manifest: Path | None = option(None, "Manifest to read instead of the one next to the source.")
    tokenizer: Path | None = option(
        None,
        "Tokenizer of a network that takes texts: tokenizer.json of Hugging Face, or an OpenVINO tokenizer's .xml. "
        "Default: the one next to the source.",
    )
    network: str | None = option(None, "Use the preprocessing of this network of the zoo.")
    layout: str | None = None
    output_name: str | Sequence[str] | None = option(
        None,
        "Which output to keep if the model has several; of a Keras model also a layer. Repeat it for more, the main "
        "one first. Default: all.",
        typed=list[str],
    )
    detector: str | None = option(
        None,
        "Form of a detector's outputs, if names and shapes do not tell: {choices}.",
        choices=DETECTORS,
    )
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)
        if len(set(self.outputs)) < len(self.outputs):
            raise UsageError(f"--output-name names an output twice: {', '.join(self.outputs)}")
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
