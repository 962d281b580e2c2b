"""plan: how many hosts are needed for so many images a day, or how long some hosts take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbinfer.base.progress import silent
from dbinfer.cli.options import Dsn, Json, bytes_text, console, print_json, print_table
from dbinfer.cli.progress import progress_bar

if TYPE_CHECKING:
    from dbinfer.plan import PlanReport

STEPS = {"decode": "decode", "fit": "resize", "infer": "inference", "finish": "result", "row": "row"}


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command()(plan)


def plan(
    *,
    images: Annotated[
        str | None, typer.Option(help="Images a day, for example 50M. Default: the rows of --table.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A measured model, or one of the database. Default: the database's.")
    ] = None,
    hours: Annotated[
        str | None, typer.Option(help="Within how long, for example 6, 6h or 90m. Default: a day.")
    ] = None,
    hosts: Annotated[int | None, typer.Option(help="Tell how long so many hosts take.")] = None,
    size: Annotated[
        str | None, typer.Option(help="Width x height of the images, in pixels. Default: 500x375.")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="JPEG, PNG, WebP, BMP or TIFF. Default: JPEG.")
    ] = None,
    kilobytes: Annotated[
        float | None, typer.Option(help="Size of an image's file. Default: by its pixels.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table whose images and rows count instead.")] = None,
    column: Annotated[str | None, typer.Option(help="Column of the images in --table. Default: img.")] = None,
    cores: Annotated[
        int | None, typer.Option(help="Physical cores of a host. Default: the database's, else 16.")
    ] = None,
    segments: Annotated[
        int | None, typer.Option(help="Segments of a host. Default: the database's, else one for each core.")
    ] = None,
    skew: Annotated[
        float | None,
        typer.Option(help="Rows of the fullest segment / the mean one. Default: the table's, else 1."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Of a measured model: f32 or int8. Default: f32.")
    ] = None,
    here: Annotated[
        bool,
        typer.Option(
            "--here", help="Measure this machine for a second, and scale what was measured elsewhere."
        ),
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Measure all coefficients on this machine first, and keep them."),
    ] = False,
    coefficients: Annotated[
        Path | None, typer.Option(help="File of coefficients. Default: this machine's, else those shipped.")
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Without a database, with models and a processor that were measured; with --dsn or --table, with the model's
    trial, the images and the hosts of that database. The figures count scoring alone: reading from disks that are
    slower than 'reading a host' in the output, other load and other processors are not in them.

    Examples:

        $ dbinfer plan --images 50M --model resnet50 --hours 6

        $ dbinfer plan --images 1.5M --model mobilenet_v2 --size 4000x3000 --hosts 4 --cores 32

        $ dbinfer plan --table shop.images --model flowers --hours 90m --dsn "host=gp dbname=shop"
    """
    from dbinfer.cli import options as cli_options
    from dbinfer.plan import PlanOptions
    from dbinfer.plan import plan as run

    options = PlanOptions(
        images=cli_options.count("images", images),
        hours=cli_options.hours("hours", hours),
        hosts=hosts,
        size=cli_options.pixels("size", size),
        format=format_,
        kilobytes=kilobytes,
        cores=cores,
        segments=segments,
        skew=skew,
        precision=precision,
        table=table,
        column=column,
        coefficients=coefficients,
        here=here,
        calibrate=calibrate,
    )
    with progress_bar() as progress:
        report = run(model, options, dsn, silent if json else progress)
    if json:
        print_json(report.to_dict())
    else:
        _show(report)


def _show(report: PlanReport) -> None:
    from dbinfer.plan.forecast import count_text

    error = report.error.get("largest")
    print_table(
        f"{count_text(report.images)} images with {report.model} in {report.precision}",
        ["what", "needs"],
        [
            ["hosts", _hosts(report)],
            ["time", _time(report)],
            ["cores a host", report.cores],
            ["segments a host", report.segments],
            ["images/s", f"{report.images_per_second:,.0f} ({report.images_per_second_host:,.1f} a host)"],
            [
                "one image, " + ("one core" if report.threads == 1 else f"{report.threads} threads"),
                f"{sum(report.row_ms.values()):.3g} ms: {_steps(report.row_ms)}",
            ],
            ["a core beside busy ones", f"{report.efficiency:.0%} of a core alone"],
            ["skew", f"{report.skew:.2f}"],
            ["memory a host", f"{bytes_text(report.host_memory)} for models and sessions"],
            ["disk a host", f"{bytes_text(report.host_disk)} for the model, {_share(report)} for the images"],
            ["reading a host", f"{bytes_text(report.host_read)}/s of images"],
            ["network", "none for images: they are scored where they lie"],
        ],
    )
    for note in report.notes:
        console.print(f"assumed: {note}", soft_wrap=True)
    measured = report.measured
    console.print(
        f"measured: {measured.get('cpu', '?')}, {measured.get('cores', '?')} cores, {measured.get('date', '?')}"
        + (f"; largest error there {error:.0%} on statements that were not fitted" if error else ""),
        soft_wrap=True,
    )
    console.print(
        "Not in it: other processors, disks slower than above, other load, hyperthreads.", soft_wrap=True
    )


def _hosts(report: PlanReport) -> str:
    least, most = report.hosts_between
    return str(report.hosts) if least == most else f"{report.hosts} ({least} to {most} within the error)"


def _time(report: PlanReport) -> str:
    from dbinfer.plan.forecast import time_text

    found, least, most = map(time_text, (report.hours, *report.hours_between))
    return found if least == most else f"{found} ({least} to {most} within the error)"


def _share(report: PlanReport) -> str:
    return bytes_text(report.images_bytes / report.hosts)


def _steps(row_ms: dict[str, float]) -> str:
    return ", ".join(f"{STEPS[name]} {value:.3g}" for name, value in row_ms.items())
