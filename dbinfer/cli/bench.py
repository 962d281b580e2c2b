"""Commands of the group 'bench'."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dbinfer.cli.options import Dsn, Json, Screen, err_console, print_json, print_table, say

if TYPE_CHECKING:
    from dbinfer.base.progress import OnProgress
    from dbinfer.bench.training import Comparison
    from dbinfer.train.options import TrainJob


FILE_WIDTH = 160
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the results to this file, as JSON.")]
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Write a picture (.png, .svg, .pdf).")]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", help="Put the tables into this Markdown document.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep images and models in the database.")]
Seconds = Annotated[float, typer.Option(help="About how long one measurement takes.")]


def write_json(path: Path | None, report: dict[str, Any]) -> None:
    """Write a report as JSON where a file is named."""
    if path:
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def print_rows(title: str, headings: Sequence[str], cells: Sequence[Sequence[Any]]) -> None:
    """Print a table, wide enough for its lines also where the output is no terminal."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for line in cells:
        table.add_row(*("" if cell is None else str(cell) for cell in line))
    console().print(table)


def console() -> Screen:
    """Return the screen, or one that is wide enough for tables where the output is no terminal."""
    found = Screen()
    return found if found.is_terminal else Screen(width=FILE_WIDTH)


@contextmanager
def status() -> Iterator[OnProgress]:
    """Yield what says where a run is: a line that changes on a terminal, lines on stderr elsewhere."""
    if not err_console.is_terminal:
        yield lambda progress: say(progress.step, err=True)
        return
    with err_console.status("starting") as shown:
        yield lambda progress: shown.update(Text(progress.step))


def put(path: Path, name: str, content: str) -> None:
    """Put a section into a Markdown document; the others stay."""
    from dbinfer.bench.tables import put_between

    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(put_between(before, name, content), encoding="utf-8")


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
    _register_engine(bench)
    _register_plan(bench)
    _register_train(bench)
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
    from dbinfer.bench.tables import environment_lines, plot_scaling, scaling_markdown

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
    from dbinfer.bench.tables import (
        environment_lines,
        markdown,
        plot,
        profile_table,
        speed_table,
        target_table,
    )

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


ENGINE_HELP = """Measure the engine beside in-process scoring, by turns in one run.

Speed of whole statements, what a statement pays before its first row, the first row of a fresh session, memory of
one session and of 32, a single row beside a long scan, and how long a cancel takes. It sets the isolation of models
of its own only. This takes about 4 minutes.

Examples:

    $ dbinfer bench engine

    $ dbinfer bench engine --rounds 5 --json engine.json --markdown docs/performance.md
"""


def _register_engine(app: typer.Typer) -> None:
    """Add the command `engine` to the group `bench`."""
    app.command("engine", help=ENGINE_HELP)(_engine)


def _engine(
    seconds: Seconds = 3.0,
    rounds: Annotated[int, typer.Option(help="How many times to measure each side; the median counts.")] = 3,
    dsn: Dsn = None,
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
    keep: Keep = False,
) -> None:
    from dbinfer.bench import BenchOptions, bench_isolation
    from dbinfer.bench.tables import environment_lines, isolation_markdown, isolation_table

    with status() as progress:
        options = BenchOptions(seconds=seconds, rounds=rounds, keep=keep)
        report = bench_isolation(options, dsn, progress).to_dict()
    write_json(json_file, report)
    for line in environment_lines(report["environment"]):
        console().print(line)
    print_rows("Engine and in-process", *isolation_table(report["isolation"]))
    if markdown_file:
        put(markdown_file, "isolation", isolation_markdown(report))


PLAN_HELP = """Measure what `dbinfer plan` goes by, and how far its predictions are off.

On PostgreSQL the coefficients are fitted first, to the steps of a row and to statements of one process. Then statements
are measured that were not used for that: other networks and image sizes, and as many processes as cores. On Greenplum
the coefficients are taken as they are, and the statements run on all segments. This takes about 6 minutes.

Examples:

    $ dbinfer bench plan --json plan.json

    $ dbinfer bench plan --coefficients plan.json --dsn "host=gp dbname=images"
"""


def _register_plan(app: typer.Typer) -> None:
    """Add the command `plan` to the group `bench`."""
    app.command("plan", help=PLAN_HELP)(_plan)


def _plan(
    coefficients: Annotated[
        Path | None, typer.Option(help="File of coefficients to check, instead of fitting them.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each is measured, in turns; the least counts.")
    ] = 6,
    dsn: Dsn = None,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
    markdown_file: MarkdownFile = None,
) -> None:
    from dbinfer.bench.tables import environment_lines
    from dbinfer.plan.calibration import run_planning
    from dbinfer.plan.cost import read_coefficients
    from dbinfer.plan.shown import plan_markdown, plan_table, plot_plan

    given = read_coefficients(coefficients) if coefficients else None
    with status() as progress:
        report: dict[str, Any] = run_planning(dsn, given, progress, rounds).to_dict()
    write_json(json_file, report)
    for line in environment_lines(report["environment"]):
        console().print(line)
    print_rows("Predicted and measured", *plan_table(report["points"]))
    if plot_file:
        plot_plan(report["points"], plot_file)
    if markdown_file:
        put(markdown_file, "plan", plan_markdown(report))


TRAIN_HELP = """Compare variants of a training: data distributed over ranks, all data on each rank, one process.

Prints a table per epoch, the speed-up and the efficiency, and draws a figure. All variants get the same share of
the cores. The efficiency compares with as many independent processes at once. On one machine this shows what the
exchange between ranks costs, not what more machines would gain.

--sweep trains at several sizes, with ranks that exchange gradients and with as many that do not, and names the
smallest size from which on the efficiency reaches 0.9.

--devices compares one device of a kind with --ranks of them: the mean epoch, the test, the total time, and the share
of a step that the exchange takes.

Examples:

    $ dbinfer bench train

    $ dbinfer bench train --ranks 2 --launcher mpi --epochs 6 --out runs/compare

    $ dbinfer bench train --sweep width --ranks 2 --epochs 2 --out runs/width

    $ dbinfer bench train digits --data mnist --devices cpu --batch 32

    $ dbinfer bench train vgg19bn_cifar --data cifar10:cifar-10-binary.tar.gz --devices cpu,gpu --batch 128 --epochs 3

    $ dbinfer bench train digits --data digits --batch 32 --json
"""
STROKES = {"size": 128, "depth": 3, "base_width": 8}


def _register_train(app: typer.Typer) -> None:
    """Add the command `train` to the group `bench`."""
    app.command("train", help=TRAIN_HELP)(_train)


def _train(
    *,
    network: Annotated[str, typer.Argument(help="Network of the zoo.")] = "unet",
    data: Annotated[str, typer.Option(help="As for `dbinfer train`.")] = "strokes",
    ranks: Annotated[int, typer.Option(help="How many processes train together.")] = 2,
    launcher: Annotated[str, typer.Option(help="gloo or mpi.")] = "mpi",
    epochs: Annotated[int, typer.Option(help="Epochs of each variant.")] = 4,
    batch: Annotated[int, typer.Option(help="Images per step and rank.")] = 8,
    lr: Annotated[float, typer.Option(help="Learning rate of one rank.")] = 2.5e-3,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs and the figure. Default: a temporary one.")
    ] = None,
    sweep: Annotated[
        str, typer.Option(help="Compare sizes of one thing: width (of a U-Net), batch or ranks.")
    ] = "",
    devices: Annotated[
        str, typer.Option(help="Compare one device with --ranks of them: cpu, gpu, or cpu,gpu.")
    ] = "",
    momentum: Annotated[float, typer.Option(help="Momentum, with --optimizer sgd.")] = 0.9,
    optimizer: Annotated[str, typer.Option(help="adam, sgd, rmsprop or adagrad.")] = "adam",
    as_json: Json = False,
) -> None:
    from dbinfer.bench.training import compare
    from dbinfer.train.options import TrainJob

    folder = out or Path(tempfile.mkdtemp(prefix="dbinfer-bench-train-"))
    options = dict(STROKES) if network == "unet" else {}
    job = TrainJob(
        network,
        data,
        out=str(folder),
        network_options=options,
        epochs=epochs,
        batch=batch,
        lr=lr,
        ranks=ranks,
        launcher=launcher,
        warmup=1,
        momentum=momentum,
        optimizer=optimizer,
    )
    if sweep:
        _sweep(job, sweep, as_json)
        return
    if devices:
        _devices(job, devices.split(","), as_json)
        return
    with _status() as tell:
        result = compare(job, tell)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    with err_console.status("starting") as shown:
        # as Text: brackets are no markup
        yield lambda step: shown.update(Text(step))


def _sweep(job: TrainJob, kind: str, as_json: bool) -> None:
    from dbinfer.bench.training import sweep

    with _status() as tell:
        report = sweep(job, kind, say=tell)
    if as_json:
        print_json(report.to_dict())
        return
    columns = [kind, "ranks", "together\nimages/s", "apart\nimages/s", "efficiency", "exchange's\nshare"]
    print_table(f"{job.network}, {kind}", columns, report.rows())
    answer = "no size here" if report.smallest is None else f"{kind} {report.smallest} on"
    say(f"training together pays (efficiency 0.9) from: {answer}")
    say(f"figure: {report.figure}")


def _devices(job: TrainJob, kinds: list[str], as_json: bool) -> None:
    from dbinfer.bench.training import compare_devices

    with _status() as tell:
        report = compare_devices(job, kinds, tell)
    if as_json:
        print_json(report.to_dict())
        return
    columns = ["", "epoch\nseconds", "test\nseconds", "total\nseconds", "images/s", "exchange's\nshare"]
    print_table(f"{job.network}, {job.data}", [*columns, report.metric], report.rows())
    say(f"figure: {report.figure}")


def _print(result: Comparison) -> None:
    from dbinfer.bench.training import table

    columns, rows = table(result)
    print_table(f"{result.metric}, {result.ranks} ranks on {result.cores} cores", columns, rows)
    for variant in result.variants:
        say(f"{variant.title:<28} {variant.images_per_second:8.1f} images/s")
    say(f"{f'{result.ranks} independent processes':<28} {result.independent:8.1f} images/s")
    say(f"speed-up against one process with a rank's share of the cores: {result.speed_up:.2f}")
    say(f"efficiency against {result.ranks} independent processes: {result.efficiency:.2f}")
    say(f"an epoch with all data on each rank takes {result.epoch_ratio:.1f} times as long")
    say(f"figure: {result.figure}")
