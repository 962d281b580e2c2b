"""`dbinfer bench train`: what several ranks bring on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dbinfer.cli._options import Json, err_console, print_json, print_table, say

if TYPE_CHECKING:
    from dbinfer.train.compare import Comparison
    from dbinfer.train.options import TrainJob

HELP = """Compare variants of a training: data distributed over ranks, all data on each rank, one process.

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


def register(app: typer.Typer) -> None:
    """Add the command `train` to the group `bench`."""
    app.command("train", help=HELP)(_train)


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
    from dbinfer.train.compare import compare
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
    from dbinfer.train.sweep import sweep

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
    from dbinfer.train.by_device import compare_devices

    with _status() as tell:
        report = compare_devices(job, kinds, tell)
    if as_json:
        print_json(report.to_dict())
        return
    columns = ["", "epoch\nseconds", "test\nseconds", "total\nseconds", "images/s", "exchange's\nshare"]
    print_table(f"{job.network}, {job.data}", [*columns, report.metric], report.rows())
    say(f"figure: {report.figure}")


def _print(result: Comparison) -> None:
    from dbinfer.train.compare import table

    columns, rows = table(result)
    print_table(f"{result.metric}, {result.ranks} ranks on {result.cores} cores", columns, rows)
    for variant in result.variants:
        say(f"{variant.title:<28} {variant.images_per_second:8.1f} images/s")
    say(f"{f'{result.ranks} independent processes':<28} {result.independent:8.1f} images/s")
    say(f"speed-up against one process with a rank's share of the cores: {result.speed_up:.2f}")
    say(f"efficiency against {result.ranks} independent processes: {result.efficiency:.2f}")
    say(f"an epoch with all data on each rank takes {result.epoch_ratio:.1f} times as long")
    say(f"figure: {result.figure}")
