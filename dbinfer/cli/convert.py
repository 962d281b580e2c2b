"""Commands of the group 'convert'."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dbinfer.cli._values import labels, numbers, size
from dbinfer.errors import UsageError

if TYPE_CHECKING:
    from dbinfer.convert import ConvertOptions, ConvertReport, Port

HELP = """Convert a trained model to OpenVINO IR with all that scoring needs, and prove that they agree.

Sources: Keras `.keras` and `.h5`, SavedModel folders, frozen `.pb`, `.onnx`, `.tflite`.
What the options do not say is taken from `manifest.json` beside the source, then from the zoo by the model's
name, then from its shapes.

**Examples**

    dbinfer convert digits.keras -o digits.xml

    dbinfer convert net.onnx -o net.xml --labels @names.txt --scale 255 --activation softmax

    dbinfer convert unet.h5 -o unet.xml --scale 255 --weights fp16

    dbinfer convert exported_folder -o model.xml --size 480x640 --scale 255 --json
"""


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command("convert", help=HELP)(_convert)


def _convert(
    *,
    source: Annotated[Path, typer.Argument(help="The trained model: a file or a SavedModel folder.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The .xml to write; weights go into .bin beside it.")
    ],
    task: Annotated[
        str | None, typer.Option(help="classification, segmentation, embedding or tensor.")
    ] = None,
    label_list: Annotated[
        str | None, typer.Option("--labels", help="Class names: a,b,c or @FILE with one a line.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model; else the source's.")] = None,
    input_size: Annotated[
        str | None, typer.Option("--size", help="Input in pixels: 224 or 480x640 (height x width).")
    ] = None,
    color: Annotated[
        str | None, typer.Option(help="Channel order of the training: RGB, BGR or GRAY.")
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Per channel, grey levels 0..255: x = (pixel - mean) / scale.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="Per channel, grey levels 0..255; 255 for an input of 0..1.")
    ] = None,
    resize: Annotated[
        str | None, typer.Option(help="standard, crop, fit_to_window or fit_to_window_letterbox.")
    ] = None,
    interpolation: Annotated[str | None, typer.Option(help="linear, area, cubic or nearest.")] = None,
    pad_value: Annotated[int | None, typer.Option(help="Grey level of the padding, 0..255.")] = None,
    activation: Annotated[str | None, typer.Option(help="For raw scores: softmax, sigmoid or none.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Score above which a pixel belongs to a one-class mask.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Inference precision: f32, bf16 or f16.")] = None,
    decode: Annotated[
        str | None, typer.Option(help="fast (JPEG at reduced scale where enough) or exact.")
    ] = None,
    l2_normalize: Annotated[bool | None, typer.Option(help="Embeddings of length one.")] = None,
    weights: Annotated[str, typer.Option(help="fp32, or fp16 for half the size.")] = "fp32",
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest difference, as a share of the largest output; 1e-3, fp16 1e-2."),
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option(help="Manifest to read in place of the one beside the source.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="Take the preprocessing of this zoo network.")] = None,
    layout: Annotated[
        str | None, typer.Option(help="NHWC or NCHW, where the input's shape leaves it open.")
    ] = None,
    output_name: Annotated[
        str | None, typer.Option(help="Which output to keep, where there are several.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an output with other content.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    from dbinfer.convert import ConvertOptions

    stated: dict[str, Any] = {
        "task": task,
        "labels": labels(label_list),
        "name": name,
        **size(input_size),
        "color": color.upper() if color else None,
        "mean": numbers("mean", mean),
        "scale": numbers("scale", scale),
        "resize": resize,
        "interpolation": interpolation,
        "pad_value": pad_value,
        "activation": activation,
        "threshold": threshold,
        "precision": precision,
        "decode": decode,
        "l2_normalize": l2_normalize,
    }
    options = ConvertOptions(
        weights=weights,
        tolerance=tolerance,
        force=force,
        manifest=manifest,
        network=network,
        layout=layout.upper() if layout else None,
        output_name=output_name,
        values={key: value for key, value in stated.items() if value is not None},
    )
    _check_allowed(options)
    report = _run(source, output, options)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print(report)


def _check_allowed(options: ConvertOptions) -> None:
    """Find misspelt words before any model is read."""
    from dbinfer_udf import manifest as m

    words = {
        "task": m.TASKS,
        "color": m.COLORS,
        "resize": m.RESIZES,
        "interpolation": m.INTERPOLATIONS,
        "precision": m.PRECISIONS,
        "activation": m.ACTIVATIONS,
        "decode": m.DECODES,
    }
    for key, allowed in words.items():
        if options.values.get(key, allowed[0]) not in allowed:
            raise UsageError(f"--{key} is {options.values[key]!r}, but must be one of {', '.join(allowed)}.")


def _run(source: Path, output: Path, options: ConvertOptions) -> ConvertReport:
    from dbinfer.convert import convert

    with os.fdopen(os.dup(2), "w") as stderr:  # a copy: TensorFlow's noise is silenced on the original
        console = Console(file=stderr)
        with console.status("starting") as status:
            return convert(source, output, options, status.update)


def _print(report: ConvertReport) -> None:
    manifest, megabytes = report.manifest, report.size / 1e6
    rows = {
        "source": f"{report.source} ({report.source_format})",
        "output": f"{report.output} + {report.weights_file.name}, {megabytes:.1f} MB, {report.weights}",
        "input": _ports(report.inputs),
        "result": _ports(report.outputs),
        "manifest": f"{manifest.name}: {manifest.task}, {manifest.width}x{manifest.height} {manifest.color}",
        "assumed": ", ".join(f"{key} {getattr(manifest, key)}" for key in report.assumed) or "nothing",
        "difference": _difference(report),
    }
    for key, value in rows.items():
        typer.echo(f"{key:<11} {value}")
    done = "written" if report.written else "the same content was there already"
    typer.echo(f"{report.output}: {done} ({report.seconds:.1f} s)")


def _ports(ports: tuple[Port, ...]) -> str:
    return ", ".join(
        f"{p.name} [{','.join('?' if n < 0 else str(n) for n in p.shape)}] {p.type}" for p in ports
    )


def _difference(report: ConvertReport) -> str:
    check = report.check
    if check.difference is None:
        return f"not checked: {check.reason}"
    values = f"in values up to {check.magnitude:.2g}"
    return f"{check.difference:.2g} at most, {values}, on {check.images} images against {check.framework}"
