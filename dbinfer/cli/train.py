"""train and tune."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dbinfer.base.errors import UsageError
from dbinfer.base.progress import silent
from dbinfer.cli.options import Dsn, Json, console, print_json, say
from dbinfer.cli.progress import progress_bar
from dbinfer.train.options import LAYOUTS, STRATEGIES
from dbinfer.train.strategies import explained

if TYPE_CHECKING:
    from dbinfer.train import TrainJob, TrainReport
    from dbinfer.tune import TuneReport


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
    """Add this module's commands to the application."""
    app.command("train", help=HELP.format(strategies=explained()), cls=_Resumable)(_train)
    app.command("tune", help=TUNE_HELP)(_tune)


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


TUNE_HELP = """Workers read the data once and train one trial after the other; poor trials are stopped early. The view
dbinfer.trials shows each trial's values and the score of each epoch. A worker that dies loses nothing: another one
trains its trial again. The folder of the search gets the best trial's NETWORK.keras with its provenance, and
tuning.png.

With --hop each worker reads only its shard of the images, and the weights of the trials travel from shard to shard:
for data that is too large for every worker.

**Examples**

    dbinfer tune digits --data digits --search lr=1e-4..1e-1:log --search batch=32,64 --trials 20 --workers 2

    dbinfer tune digits --data "SELECT img, label, id FROM scans" --search dropout=0.1..0.5 --hosts a:2,b:2 --workers 4

    dbinfer tune unet --data "SELECT img, mask, id FROM cars" --search lr=1e-4..1e-1:log --workers 4 --hop

    dbinfer tune digits --data digits --search lr=1e-4..1e-1:log --search batch=32,64 --trials 40 --resume
"""
OWN = ("study", "trials", "workers", "hosts", "pruner", "hop", "resume", "out")


def _tune(
    *,
    network: Annotated[str, typer.Argument(help="digits, unet, finder, vgg19bn, vgg19bn_cifar or alexnet.")],
    data: Annotated[str, typer.Option(help="Images to train on, as for `dbinfer train`.")],
    search: Annotated[
        list[str] | None,
        typer.Option(help="Option and values: lr=1e-4..1e-1:log, batch=32,64, or the network's. Repeatable."),
    ] = None,
    trials: Annotated[int, typer.Option(help="How many trials must have ended.")] = 20,
    workers: Annotated[int, typer.Option(help="Processes that train trials at the same time.")] = 1,
    hosts: Annotated[str, typer.Option(help="Where the workers run: a:2,b:2; else all here.")] = "",
    pruner: Annotated[
        str, typer.Option(help="What stops poor trials: hyperband, median or none.")
    ] = "hyperband",
    hop: Annotated[
        bool,
        typer.Option("--hop", help="Each worker keeps its shard of the images; the weights travel."),
    ] = False,
    study: Annotated[str, typer.Option(help="Name of the search in dbinfer.trials; the network's.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a study that has begun.")] = False,
    out: Annotated[str, typer.Option(help="Folder of the search; tuning/STUDY.")] = "",
    epochs: Annotated[int, typer.Option(help="Epochs of a trial, at most.")] = 10,
    batch: Annotated[int, typer.Option(help="Images per step, where it is not searched.")] = 32,
    lr: Annotated[float, typer.Option(help="Learning rate, where it is not searched.")] = 1e-3,
    optimizer: Annotated[str, typer.Option(help="adam, sgd, rmsprop or adagrad.")] = "adam",
    schedule: Annotated[str, typer.Option(help="constant or cosine.")] = "constant",
    augment: Annotated[bool, typer.Option("--augment", help="Small random changes of the images.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the network: size=128. Repeatable.")
    ] = None,
    val: Annotated[str, typer.Option(help="Validation data, like --data.")] = "",
    val_fraction: Annotated[
        float, typer.Option(help="Share held out where data has no part of its own.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the search, and of weights and order in each trial.")] = 0,
    dsn: Dsn = None,
    as_json: Json = False,
) -> None:
    given = dict(locals())
    from dbinfer.train import TrainOptions
    from dbinfer.tune import TuneOptions, tune

    shared = {entry.name for entry in fields(TrainOptions)} - set(OWN)
    values: dict[str, Any] = {name: value for name, value in given.items() if name in shared}
    train = TrainOptions(**values, network_options=dict(setting(text) for text in settings or []))
    options = TuneOptions(**{name: given[name] for name in OWN}, train=train)
    with progress_bar() as progress:
        report = tune(network, data, search or [], options, dsn, silent if as_json else progress)
    if as_json:
        print_json(report.to_dict())
    else:
        _print(report)


def _print(report: TuneReport) -> None:
    say(f"best: {report.best.line(report.metric)}")
    say(f"{report.epochs} of {report.full_epochs} epochs were trained ({report.epoch_share:.2f})")
    if report.taken_up:
        numbers = ", ".join(map(str, report.taken_up))
        say(f"trained again, because their workers had died: trials {numbers}")
    say(f"{report.model}; picture: {report.figure}")
    say(f"next: dbinfer convert {report.model} -o {Path(report.model).with_suffix('.xml')}")
