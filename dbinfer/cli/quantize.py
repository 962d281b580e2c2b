"""quantize: an IR becomes INT8."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbinfer.cli._options import Dsn, Json, bytes_text, console, print_json, print_table
from dbinfer.cli._progress import progress_bar

if TYPE_CHECKING:
    from dbinfer.quantize import QuantizeReport, Side

HELP = """Images go through the model's own preprocessing. Then the original and the INT8 model score the same images;
if they agree less than --limit, nothing is written. Deploy the result as the next version of the model.

Examples:

    $ dbinfer quantize digits.xml --calibrate "SELECT img FROM images LIMIT 1000"

    $ dbinfer quantize net.xml --calibrate "SELECT img FROM images" --check "SELECT img, label FROM held_out"

    $ dbinfer deploy digits-int8.xml --name digits
"""


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command("quantize", help=HELP)(_quantize)


def _quantize(
    *,
    model: Annotated[Path, typer.Argument(help="The IR's .xml file, as 'dbinfer convert' wrote it.")],
    calibrate: Annotated[str, typer.Option(help="Query whose first column is the image.")],
    check: Annotated[
        str,
        typer.Option(
            help="Query with image and label (class number or name), to measure the accuracy of both models."
        ),
    ] = "",
    subset: Annotated[int, typer.Option(help="How many images to calibrate with.")] = 300,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The .xml file to write. Default: MODEL-int8.xml.")
    ] = None,
    limit: Annotated[
        float, typer.Option(help="Lowest agreement to accept: share of equal classes, or mean IoU of masks.")
    ] = 0.99,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    from dbinfer.quantize import QuantizeOptions, quantize

    target = output or model.parent / f"{model.stem}-int8.xml"
    options = QuantizeOptions(calibrate, check, subset, limit, force)
    with progress_bar() as progress:
        report = quantize(model, target, options, dsn, progress)
    if json:
        print_json(report.to_dict())
    else:
        _print(report)


def _print(report: QuantizeReport) -> None:
    rows = [_row("original", report.original), _row("INT8", report.quantized)]
    print_table("", ["model", "size", "one inference", "accuracy"], rows)
    where = "images not calibrated with" if report.held_out else "the images of the calibration"
    console.print(f"agreement {report.agreement:.4f} ({report.measure}) on {report.compared} {where}")
    console.print(f"difference {report.max_difference:.3g} at most, {report.mean_difference:.3g} on average")
    console.print(f"{report.output}: written, calibrated with {report.calibrated} images")


def _row(name: str, side: Side) -> list[str]:
    right = "" if side.accuracy is None else f"{side.accuracy:.4f}"
    return [name, bytes_text(side.size), f"{side.milliseconds:.2f} ms", right]
