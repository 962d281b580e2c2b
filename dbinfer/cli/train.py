"""Commands of the group 'train'."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dbinfer.cli._options import Dsn, Json, console, print_json, say
from dbinfer.cli._progress import progress_bar
from dbinfer.errors import UsageError
from dbinfer.progress import silent
from dbinfer.train.options import LAYOUTS, STRATEGIES
from dbinfer.train.strategies import explained

if TYPE_CHECKING:
    from dbinfer.train import TrainJob, TrainReport

HELP = """--data is `digits`, `strokes`, `written`, `mnist`, `cifar10:ARCHIVE`, a folder with CLASS/IMAGE files, a
folder with NAME.jpg and NAME_mask.gif, or a SQL query that returns an image, a mask, boxes or label, and a unique
key. The run's folder gets NETWORK.keras, manifest.json, history.csv, curves.png, run.json and checkpoints. Convert
NETWORK.keras with `dbinfer convert`.

Strategies:

{strategies}

Examples:

    $ dbinfer train digits --data digits --epochs 15 --augment --out runs/digits

    $ dbinfer train unet --data strokes --set size=128 --set depth=3 --ranks 2 --batch 4 --out runs/strokes

    $ dbinfer train finder --data "SELECT img, boxes, id FROM written" --epochs 20 --augment --out runs/finder

    $ dbinfer train unet --data "SELECT img, mask, id FROM cars" --ranks 4 --hosts a:2,b:2 --out runs/cars

    $ dbinfer train unet --data strokes --config run.toml --resume --out runs/strokes
"""
NOT_CONFIG = ("config", "settings", "as_json")  # options that are no field of TrainJob by that name
CONFIG_HELP = (
    "TOML or JSON file with options (named as here, with _). Options on the command line override it."
)


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command("train", help=HELP.format(strategies=explained()), cls=_Resumable)(_train)


class _Resumable(TyperCommand):
    """A command whose --resume may stand without a value, which then is `last`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        full: list[str] = []
        for place, word in enumerate(args, 1):
            full.append(word)
            if word == "--resume" and not re.fullmatch(r"\d+|last", args[place] if args[place:] else ""):
                full.append("last")
        return list(super().parse_args(ctx, full))


def _train(
    *,
    network: Annotated[str, typer.Argument(help="digits, unet, finder, vgg19bn, vgg19bn_cifar or alexnet.")],
    data: Annotated[str | None, typer.Option(help="Images to train on; see above.")] = None,
    out: Annotated[str | None, typer.Option(help="Folder of the run. Default: runs/NETWORK.")] = None,
    config: Annotated[Path | None, typer.Option(help=CONFIG_HELP)] = None,
    ranks: Annotated[
        int | None,
        typer.Option(help="Processes (mirrored, central: devices) that train together. Default: 1."),
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(help="Ranks per host: a:2,b:2. Default: all on this host.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help=f"{', '.join(STRATEGIES)}; see above. Default: horovod.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help=f"Of split: {', '.join(LAYOUTS)}. Default: {LAYOUTS[0]}.")
    ] = None,
    mesh: Annotated[str | None, typer.Option(help="Of split: GROUPSxPARTS. Default: 1xRANKS.")] = None,
    device: Annotated[str | None, typer.Option(help="auto (a GPU where there is one), cpu or gpu.")] = None,
    launcher: Annotated[str | None, typer.Option(help="gloo (horovodrun) or mpi (mpirun).")] = None,
    servers: Annotated[
        int | None, typer.Option(help="Processes that hold the weights (downpour, sandblaster). Default: 1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Their first port; the others take the next ones. Default: free ones.")
    ] = None,
    private_network: Annotated[
        str | None, typer.Option(help="Where they listen: 10.1.2.0/24. Default: loopback.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the images. Default: 10.")] = None,
    batch: Annotated[int | None, typer.Option(help="Images per step and rank. Default: 32.")] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Learning rate of one rank; multiplied by the ranks (downpour: not). Default: 0.001."
        ),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(help="Epochs in which the rate rises from lr to lr x ranks. Default: 3.")
    ] = None,
    schedule: Annotated[str | None, typer.Option(help="constant or cosine.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adam, sgd, rmsprop or adagrad.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of sgd; 0.9.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the network: size=128. Repeatable.")
    ] = None,
    val: Annotated[str | None, typer.Option(help="Validation data, like --data, or none.")] = None,
    val_fraction: Annotated[
        float | None, typer.Option(help="Share to hold out if the data has no held-out part. Default: 0.1.")
    ] = None,
    augment: Annotated[
        bool | None, typer.Option("--augment", help="Change the images a little, at random.")
    ] = None,
    sharding: Annotated[str | None, typer.Option(help="split, or all (each rank sees every image).")] = None,
    on_bad: Annotated[str | None, typer.Option(help="For an unreadable image: error or skip.")] = None,
    final: Annotated[str | None, typer.Option(help="Which epoch's model to keep: best or last.")] = None,
    keep: Annotated[
        int | None, typer.Option(help="Checkpoints to keep besides the best one. Default: 2.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, order and augmentation.")] = None,
    workers: Annotated[int | None, typer.Option(help="Threads per rank that decode images.")] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="[EPOCH]", help="Continue after this epoch, or after the last one.")
    ] = None,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    # Before any other assignment: the arguments are the only locals here
    given = {name: value for name, value in locals().items() if name not in NOT_CONFIG and value is not None}
    from dbinfer.train import make_job, read_options, train

    values = {**(read_options(config) if config else {}), **given}
    if settings:
        values["network_options"] = {
            # A file of 0.1.0 has them under `options`
            **values.get("network_options", values.pop("options", {})),
            **dict(setting(text) for text in settings),
        }
    job = make_job(values)
    if not as_json:
        _print_job(job)
    with progress_bar() as progress:
        report = train(job.network, job.data, job, job.dsn, silent if as_json else progress)
    if as_json:
        print_json(report.to_dict())
    else:
        _print_report(report)


def setting(text: str) -> tuple[str, Any]:
    """Return name and value of a --set."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--set is {text!r}, but must be NAME=VALUE", "Example: --set size=128")
    try:
        # People write True as well, JSON does not know it
        return name, json.loads(value.lower() if value.lower() in ("true", "false") else value)
    except ValueError:
        return name, value


def _print_job(job: TrainJob) -> None:
    shown = {name: value for name, value in job.to_dict().items() if value not in ("", {})}
    console.print("  ".join(f"{name}={value}" for name, value in shown.items()), soft_wrap=True)


def _print_report(report: TrainReport) -> None:
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in report.metrics.items())
    say(f"{report.model}: epoch {report.run['epoch']}, {metrics} ({report.run['seconds']:.1f} s)")
    say(f"next: dbinfer convert {report.model} -o {report.model.with_suffix('.xml')}")
