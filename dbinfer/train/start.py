"""Starts a training: checks first, then the strategy that was chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbinfer.base.errors import TrainError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.train import strategies
from dbinfer.train.options import TrainJob, TrainOptions
from dbinfer.train.report import Epoch, TrainReport, line, read_report
from dbinfer.train.split.layout import Mesh

Tell = Callable[[dict[str, Any]], None]


def train(
    network: str,
    data: str,
    options: TrainOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> TrainReport:
    """Train a network of the zoo, ready for `dbinfer.convert`.

    Args:
        network: digits, unet, finder, vgg19bn, vgg19bn_cifar or alexnet.
        data: digits, strokes, strokes:COUNT, written, written:COUNT, a folder, or a SQL query with two columns (image;
            mask, boxes or label).
        options: epochs, ranks, folder of the run, ...
        dsn: the server of a query.
        progress: is told of each step, and with a note of each epoch.

    Raises:
        UsageError, DataError, TrainError: one sentence each; what can be checked is checked before any long work.
    """
    job = TrainJob.of(network, data, options or TrainOptions(), dsn)
    return run(job, shown_as_progress(job, progress))


def run(job: TrainJob, tell: Tell = lambda event: None) -> TrainReport:
    """Train as `job` says; `tell` gets the events of dbinfer.train.course: start, step, epoch."""
    from dbinfer.train.device import check_installed
    from dbinfer.train.plan import check_images, make_plan

    # first: reading the images may want packages, too, and its cure would name those alone
    check_installed()
    strategy = strategies.ALL[job.strategy]
    strategy.check(job)
    plan = make_plan(job)
    check_images(plan)
    _check_folder(job)
    strategy.train(plan, tell)
    return read_report(job)


def shown_as_progress(job: TrainJob, progress: OnProgress) -> Tell:
    """Return a listener that passes the events of a run on as `Progress`."""

    def tell(event: dict[str, Any]) -> None:
        values = dict(event)
        kind = values.pop("event")
        if kind in ("start", "listening"):
            progress(Progress("training" if kind == "start" else "starting"))
            return
        title = f"epoch {event['epoch']}/{job.epochs}"
        if kind == "step":
            # The processes of one group of split see the same images
            batch = job.batch * (Mesh.of(job).groups if job.strategy == "split" else job.ranks)
            progress(Progress(title, event["step"] * batch, event["steps"] * batch, "images"))
        elif kind == "epoch":
            images = event["images"]
            progress(Progress(title, images, images, "images", line(Epoch.from_dict(values), job.epochs)))

    return tell


def _check_folder(job: TrainJob) -> None:
    from dbinfer.train import checkpoint

    if job.resume:
        epoch = checkpoint.choose(job.folder, job.resume)
        checkpoint.check_same(checkpoint.read(job.folder, epoch), job)
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise TrainError(f"cannot create the folder {job.folder}: {err.strerror}") from err
