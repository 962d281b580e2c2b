"""Commands of the group 'tune'."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbinfer.cli._options import Dsn, Json, print_json, say
from dbinfer.cli._progress import progress_bar
from dbinfer.cli.train import setting

if TYPE_CHECKING:
    from dbinfer.tune import TuneReport

HELP = """Workers read the data once and train one trial after the other; poor trials are stopped early. The view
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


def register(app: typer.Typer) -> None:
    """Add this group's commands to the application."""
    app.command("tune", help=HELP)(_tune)


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
    from dbinfer.progress import silent
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
