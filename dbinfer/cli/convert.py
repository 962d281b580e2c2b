"""convert and quantize: a trained model becomes an IR, and an IR becomes INT8."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dbinfer
from dbinfer.cli.options import Dsn, Json, Stated
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import bytes_text, console, print_report, print_table, say

if TYPE_CHECKING:
    from dbinfer.convert.quantize import Side
    from dbinfer.models.graph import Port


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (convert, quantize):
        app.command()(command)


def convert(
    *,
    source: Annotated[Path, typer.Argument(help="The trained model: a file or a SavedModel folder.")],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="The .xml file to write; the weights go into a .bin file next to it."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Name of the model. Default: the source's.")] = None,
    options: dbinfer.ConvertOptions,
    said: Stated,
    json: Json = False,
) -> None:
    """Sources: Keras `.keras` and `.h5`, SavedModel folders, frozen `.pb`, `.onnx`, `.tflite`, and IRs (`.xml`) of
    other tools. Whatever you do not set with options comes from the first of these that states it: `manifest.json`
    next to the source; what its exporter wrote into the file or beside it (Ultralytics, TFLite and ONNX metadata,
    Model API, Hugging Face, timm); the zoo's network of that name; what is published about a known network (Keras
    Applications, torchvision); the model's shapes. Values that nobody stated are listed as assumed. Values that
    cannot be guessed are asked for all at once, with a command line to copy. If the results differ too much, nothing
    is written.

    Keras models are converted for inference, without augmentation and dropout. Sizes are height x width.

    Examples:

        $ dbinfer convert digits.keras -o digits.xml
        ...
        difference  5.7e-07 at most, in values up to 0.88, on 4 images against Keras 3.15.1
        digits.xml: written (5.0 s)

        $ dbinfer convert resnet50.keras -o resnet50.xml
        ...
        known as    ResNet of Keras Applications
        assumed     color BGR, mean 103.939 116.779 123.68, precision auto, resize standard, scale 1,
                    task classification
        ...

        $ dbinfer convert flowers.keras -o flowers.xml --labels daisy,dandelion,roses,sunflowers,tulips
        ...
        told by     its loss, SparseCategoricalCrossentropy
        left out    Dropout, RandomFlip, RandomRotation, RandomZoom: they work in training alone
        pixels      go in as 0..255: the network scales them itself
        ...

        $ dbinfer convert net.onnx -o net.xml --labels @names.txt --scale 255 --activation softmax

        $ dbinfer convert digits.keras -o features.xml --output-name fc1 --name features

        $ dbinfer convert unet.h5 -o unet.xml --scale 255 --weights fp16

        $ dbinfer convert yolo11n.onnx -o yolo.xml
        ...
        detector    yolov8 (recognised)
        told by     Ultralytics 8.3.40
        ...

        $ dbinfer convert yolo.onnx -o yolo.xml --detector yolov8 --labels @coco.txt --threshold 0.4

        $ dbinfer convert exported_folder -o model.xml --input-size 480x640 --scale 255 --json
    """
    options = replace(options, layout=said.layout, values={**said.values, "name": name})
    with progress_bar() as progress:
        report = dbinfer.convert(source, output, options, progress)
    print_report(report, json, _print)


def _print(report: dbinfer.ConvertReport) -> None:
    manifest = report.manifest
    rows = {
        "source": f"{report.source} ({report.source_format})",
        "output": f"{report.output} + {report.weights_file.name}, {bytes_text(report.size)}, {report.weights}",
        "input": _ports(report.inputs),
        "result": _ports(report.outputs),
        "manifest": f"{manifest.name}: {manifest.task}, {manifest.height}x{manifest.width} {manifest.color}",
        "labels": _labels(report),
        "known as": report.known,
        "told by": report.told,
        "detector": report.detector,
        "left out": f"{', '.join(report.left_out)}: they work in training alone" if report.left_out else "",
        "pixels": _pixels(report),
        "assumed": ", ".join(f"{key} {_said(getattr(manifest, key))}" for key in report.assumed) or "nothing",
        "difference": _difference(report),
    }
    for key, value in rows.items():
        if value:
            say(f"{key:<11} {value}")
    done = "written" if report.written else "the same content was there already"
    say(f"{report.output}: {done} ({report.seconds:.1f} s)")


def _labels(report: dbinfer.ConvertReport) -> str:
    """Say it where nobody has named the classes of a classifier or a detector."""
    if report.manifest.labels or report.manifest.task not in ("classification", "detection"):
        return ""
    return "none: results have the numbers of classes; name them with --labels a,b,c or --labels @FILE"


def _pixels(report: dbinfer.ConvertReport) -> str:
    """Say what becomes of pixels where the network scales them itself."""
    if not report.scaled_inside:
        return ""
    if any(report.manifest.mean) or any(value != 1 for value in report.manifest.scale):
        return "scaled twice: as --mean and --scale say, and by the network itself; leave these options out"
    return "go in as 0..255: the network scales them itself"


def _said(value: object) -> str:
    """Return a value as `1 2 3`, or the first two of many."""
    if not isinstance(value, tuple):
        return str(value)
    shown = value if len(value) <= 3 else (*value[:2], f"... ({len(value)})")
    return " ".join(f"{item:g}" if isinstance(item, float) else str(item) for item in shown)


def _ports(ports: tuple[Port, ...]) -> str:
    return ", ".join(
        f"{p.name} [{','.join('?' if n < 0 else str(n) for n in p.shape)}] {p.type}" for p in ports
    )


def _difference(report: dbinfer.ConvertReport) -> str:
    check = report.check
    if check.difference is None:
        return f"not checked: {check.reason}"
    values = f"in values up to {check.magnitude:.2g}"
    return f"{check.difference:.2g} at most, {values}, on {check.images} images against {check.framework}"


def quantize(
    *,
    model: Annotated[Path, typer.Argument(help="The IR's .xml file, as 'dbinfer convert' wrote it.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The .xml file to write. Default: MODEL-int8.xml.")
    ] = None,
    options: dbinfer.QuantizeOptions,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """The images for calibration go through the model's own preprocessing. Then the original and the INT8 model score
    the same images; if they agree less than --limit, nothing is written. Deploy the result as the model's next
    version.

    Examples:

        $ dbinfer quantize digits.xml --calibrate "SELECT img FROM images LIMIT 1000"

        $ dbinfer quantize net.xml --calibrate "SELECT img FROM images" --check "SELECT img, label FROM held_out"

        $ dbinfer deploy digits-int8.xml --name digits
    """
    target = output or model.parent / f"{model.stem}-int8.xml"
    with progress_bar() as progress:
        report = dbinfer.quantize(model, target, options, dsn, progress)
    print_report(report, json, _print_quantized)


def _print_quantized(report: dbinfer.QuantizeReport) -> None:
    rows = [_row("original", report.original), _row("INT8", report.quantized)]
    print_table("", ["model", "size", "one inference", "accuracy"], rows)
    where = "images not calibrated with" if report.held_out else "the images of the calibration"
    console.print(f"agreement {report.agreement:.4f} ({report.measure}) on {report.compared} {where}")
    console.print(f"difference {report.max_difference:.3g} at most, {report.mean_difference:.3g} on average")
    console.print(f"{report.output}: written, calibrated with {report.calibrated} images")


def _row(name: str, side: Side) -> list[str]:
    right = "" if side.accuracy is None else f"{side.accuracy:.4f}"
    return [name, bytes_text(side.size), f"{side.milliseconds:.2f} ms", right]
