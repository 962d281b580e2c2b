"""train and tune."""

from __future__ import annotations

import re
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import dbinfer
from dbinfer.base.errors import UsageError
from dbinfer.cli.models import print_deployed
from dbinfer.cli.options import Dsn, Json, Only
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import console, print_json, print_report, say
from dbinfer.train.options import TrainJob, make_job, read_options
from dbinfer.train.strategies import dry_run as steps_of
from dbinfer.train.strategies import explained
from dbinfer_models import NETWORKS

Network = Annotated[str, typer.Argument(help=f"{', '.join(NETWORKS)}.")]
AnyNetwork = Annotated[
    str | None,
    typer.Argument(
        help=f"{', '.join(NETWORKS)}; or your own: FILE.py, FILE.py:NAME, FILE.keras, keras:NAME or MODULE:FUNCTION."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    app.command(help=cleandoc(train.__doc__ or "").format(strategies=explained()), cls=_Resumable)(train)
    app.command()(tune)


class _Resumable(TyperCommand):
    """A command whose --resume may stand without a value, which then is `last`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        full: list[str] = []
        for place, word in enumerate(args, 1):
            full.append(word)
            if word == "--resume" and not re.fullmatch(r"\d+|last", args[place] if args[place:] else ""):
                full.append("last")
        return list(super().parse_args(ctx, full))


def train(
    *,
    network: AnyNetwork = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="NAME@VERSION",
            help="Instead of NETWORK: a version in the database that was deployed with its Keras file (--source).",
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Images to train on; see above.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML or JSON file with options, named as here but with _ for -. The command line overrides it."
        ),
    ] = None,
    options: Annotated[dict[str, Any], dbinfer.TrainOptions],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be trained, step by step, and train nothing.")
    ] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """--data is `digits`, `strokes`, `written`, `mnist`, `cifar10:ARCHIVE`, a folder with CLASS/IMAGE files, a folder
    with NAME.jpg and NAME_mask.gif, or a SQL query that returns an image, what it shows (a mask, boxes, a label, an
    array of labels or a real number), and a unique key. The run's folder gets NETWORK.keras, manifest.json,
    history.csv, curves.png, run.json and checkpoints. Convert NETWORK.keras with `dbinfer convert`, or let --deploy
    bring it into the database.

    NETWORK is one of the zoo, or any Keras network of one image. Of FILE.py the function `build` or the variable
    `model` is used, or NAME, and of the file what that needs. This is your code, and it runs in every process: train
    only files that you trust. FILE.keras runs no code; its loss and optimizer count. --from lets a version go on that
    lies in the database: with its labels, or with --fine-tune also with new ones.

    Strategies:

    {strategies}

    Examples:

        $ dbinfer train digits --data digits --epochs 15 --augment --out runs/digits

        $ dbinfer train unet --data strokes --set size=128 --set depth=3 --ranks 2 --batch 4 --out runs/strokes

        $ dbinfer train digits --data "SELECT img, label, id FROM scans" --deploy digits --activate
        ...
        deployed digits@1 (classification, 441.4 kB, 2 of 2 parts new, active)
        ...

        $ dbinfer train finder --data "SELECT img, boxes, id FROM written" --epochs 20 --augment --out runs/finder

        $ dbinfer train unet --data "SELECT img, mask, id FROM cars" --ranks 4 --hosts a:2,b:2 --out runs/cars

        $ dbinfer train my_network.py --data "SELECT img, label, id FROM scans" --set filters=16 --out runs/mine

        $ dbinfer train keras:MobileNetV2 --fine-tune 0.3 --set input_shape=[224,224,3] --data photos --dry-run

        $ dbinfer train keras:MobileNetV2 --set weights=none --set input_shape=[96,96,3] --data photos

        $ dbinfer train --from flowers@3 --data "SELECT img, label, id FROM newer" --lr 0.0001

        $ dbinfer train unet --data strokes --config run.toml --resume --out runs/strokes
    """
    if network and version:
        raise UsageError(f"the network is {network!r}, and --from {version!r}: give one of them")
    values = read_options(config) if config else {}
    settings = {**values.get("network_options", {}), **options.pop("network_options", {})}
    named = {"network": version or network, "data": data, "dsn": dsn, **options, "network_options": settings}
    job = make_job({**values, **{name: value for name, value in named.items() if value is not None}})
    if not json:
        _print_job(job)
    if dry_run:
        _print_steps(job, json)
        return
    with progress_bar() as progress:
        report = dbinfer.train(job.network, job.data, job, job.dsn, dbinfer.silent if json else progress)
    print_report(report, json, _print_report)


def _print_job(job: TrainJob) -> None:
    shown = {name: value for name, value in job.to_dict().items() if value not in ("", {}, [], None)}
    console.print("  ".join(f"{name}={value}" for name, value in shown.items()), soft_wrap=True)


def _print_steps(job: TrainJob, json: bool) -> None:
    lines = steps_of(job)
    if json:
        print_json({"steps": lines})
        return
    for line in lines:
        say(line)
    say("--dry-run: nothing was trained")


def _print_report(report: dbinfer.TrainReport) -> None:
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in report.metrics.items())
    say(f"{report.model}: epoch {report.run['epoch']}, {metrics} ({report.run['seconds']:.1f} s)")
    if report.deployed:
        print_deployed(report.deployed)
        if report.comparison:
            say(f"  {report.comparison.verdict}")
        return
    say(f"next: dbinfer convert {report.model} -o {report.model.with_suffix('.xml')}")


# What all trials share; the rest of a training's options is not for a search
SHARED = Only(
    [
        "epochs",
        "batch",
        "lr",
        "optimizer",
        "schedule",
        "augment",
        "network_options",
        "val",
        "val_fraction",
        "seed",
    ]
)


def tune(
    *,
    network: Network,
    data: Annotated[str, typer.Option(help="Images to train on, as for `dbinfer train`.")],
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="Option and its values: lr=1e-4..1e-1:log, batch=32,64, or an option of the network. Repeatable."
        ),
    ] = None,
    options: dbinfer.TuneOptions,
    shared: Annotated[dbinfer.TrainOptions, SHARED],
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Each worker reads the data once and trains one trial after the other; poor trials are stopped early. The
    view dbinfer.trials shows each trial's values and the score of each epoch. If a worker dies, another one trains its
    trial again. The folder of the search gets the best trial's NETWORK.keras with its provenance, and tuning.png.

    With --hop, each worker reads only its shard of the images, and the weights of the trials travel from shard to
    shard; use it when the data is too large for one worker.

    Examples:

        $ dbinfer tune digits --data digits --search lr=1e-4..1e-1:log --search batch=32,64 --trials 20 --workers 2

        $ dbinfer tune digits --data "SELECT img, label, id FROM scans" --search dropout=0.1..0.5 --hosts a:2,b:2 \\
            --workers 4

        $ dbinfer tune unet --data "SELECT img, mask, id FROM cars" --search lr=1e-4..1e-1:log --workers 4 --hop

        $ dbinfer tune digits --data digits --search lr=1e-4..1e-1:log --search batch=32,64 --trials 40 --resume
    """
    options = replace(options, train=shared)
    with progress_bar() as progress:
        report = dbinfer.tune(
            network,
            data,
            search=search or [],
            options=options,
            dsn=dsn,
            progress=dbinfer.silent if json else progress,
        )
    print_report(report, json, _print)


def _print(report: dbinfer.TuneReport) -> None:
    say(f"best: {report.best.line(report.metric)}")
    say(f"{report.epochs} of {report.full_epochs} epochs were trained ({report.epoch_share:.2f})")
    if report.taken_up:
        numbers = ", ".join(map(str, report.taken_up))
        say(f"trained again, because their workers had died: trials {numbers}")
    say(f"{report.model}; picture: {report.figure}")
    say(f"next: dbinfer convert {report.model} -o {Path(report.model).with_suffix('.xml')}")
