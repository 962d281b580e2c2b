"""Commands of the group 'bench'."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dbinfer.cli import bench_engine, bench_plan, bench_train
from dbinfer.cli._bench import (
    JsonFile,
    Keep,
    MarkdownFile,
    PlotFile,
    Seconds,
    console,
    print_rows,
    put,
    status,
    write_json,
)
from dbinfer.cli._options import Dsn

HELP = """Without --dsn this measures the embedded server and starts it if necessary. The networks are built once, which
needs TensorFlow, and kept in the state folder. Images and models get database objects of their own, which are
dropped at the end. A full run takes less than 30 minutes on 2 cores, --quick about 3.

Examples:

    $ dbinfer bench --quick

    $ dbinfer bench --json bench.json --plot bench.png --markdown docs/performance.md

    $ dbinfer bench --network resnet50 --precision f32,int8 --methods sql,bare --dsn "host=gp dbname=images"

    $ dbinfer bench scaling --plot scaling.png

    $ dbinfer bench engine

    $ dbinfer bench plan
"""
SCALING_HELP = """Measure how the cost grows with rows, processes, model size and image size.

This takes less than 8 minutes.

Examples:

    $ dbinfer bench scaling --json scaling.json --plot scaling.png --markdown docs/performance.md
"""

bench = typer.Typer(help=HELP, invoke_without_command=True, rich_markup_mode="markdown")


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    bench_engine.register(bench)
    bench_plan.register(bench)
    bench_train.register(bench)
    app.add_typer(bench, name="bench")


@bench.callback()
def _bench(
    ctx: typer.Context,
    *,
    network: Annotated[
        str | None, typer.Option(help="Comma-separated: digits,mobilenet_v2,resnet50,unet. Default: all.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Comma-separated: f32,bf16,int8. Default: what the CPU supports.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated: benchmark_app,bare,sql,batch,ctas,job,client,naive,keras,... Default: all."
        ),
    ] = None,
    # The name of --methods in 0.1.0
    ways: Annotated[str | None, typer.Option(hidden=True)] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows to score. Default: as many as take --seconds.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="About how long one measurement takes. Default: 5, with --quick 3.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="How many times to run every method; the median counts.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only ResNet-50 and digits, in about 3 minutes.")
    ] = False,
    dsn: Dsn = None,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
    markdown_file: MarkdownFile = None,
    tensorflow: Annotated[
        str | None,
        typer.Option(help="Virtual environment with TensorFlow for the Keras methods. Default: this one."),
    ] = None,
    keep: Keep = False,
) -> None:
    # `dbinfer bench scaling` comes through here, too
    if ctx.invoked_subcommand is not None:
        return
    from dbinfer.bench import BenchOptions
    from dbinfer.bench import bench as measure

    words = (_words(network), _words(precision), _words(methods or ways))
    options = BenchOptions(*words, rows, seconds, rounds, quick, keep, tensorflow)
    with status() as progress:
        report = measure(options, dsn, progress).to_dict()
    write_json(json_file, report)
    _show(report, plot_file, markdown_file)


@bench.command(help=SCALING_HELP)
def scaling(
    seconds: Seconds = 3.0,
    dsn: Dsn = None,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
    markdown_file: MarkdownFile = None,
    keep: Keep = False,
) -> None:
    """Measure how cost grows; the help is SCALING_HELP."""
    from dbinfer.bench import BenchOptions, bench_scaling
    from dbinfer.bench.plot import plot_scaling
    from dbinfer.bench.tables import environment_lines, scaling_markdown

    with status() as progress:
        report = bench_scaling(BenchOptions(seconds=seconds, keep=keep), dsn, progress).to_dict()
    write_json(json_file, report)
    for line in environment_lines(report["environment"]):
        console().print(line)
    for title, rows in report["scaling"].items():
        print_rows(title, list(rows[0]), [list(row.values()) for row in rows])
    if plot_file:
        plot_scaling(report["scaling"], plot_file)
    if markdown_file:
        put(markdown_file, "scaling", scaling_markdown(report))


bench.command("growth", help=SCALING_HELP, hidden=True)(scaling)  # its name in 0.1.0


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def _show(report: dict[str, Any], plot_file: Path | None, markdown_file: Path | None) -> None:
    from dbinfer.bench.plot import plot
    from dbinfer.bench.tables import environment_lines, markdown, profile_table, speed_table, target_table

    rows = report["results"]
    for title, table in (("Images per second", speed_table), ("One row in a backend", profile_table)):
        headings, cells = table(rows)
        print_rows(title, headings, cells)
    for line in environment_lines(report["environment"]):
        console().print(line)
    headings, cells = target_table(rows)
    print_rows("Must hold", headings, cells)
    if plot_file:
        plot(rows, plot_file)
    if markdown_file:
        put(markdown_file, "bench", markdown(report))
