"""The strategies of training by name, when to use which, and the start of a training; choosing one imports neither
TensorFlow nor numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dbinfer.base.errors import DataError, TrainError, UsageError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.database.pins import install
from dbinfer.train.device import check_installed, import_tensorflow
from dbinfer.train.hosts import check_network, check_reachable, hosts_of
from dbinfer.train.options import STRATEGIES, TrainJob, TrainOptions, own_name
from dbinfer.train.report import RUN, Epoch, OnEvent, TrainReport, line, read_report

if TYPE_CHECKING:
    from dbinfer.train.setup import Setup


@dataclass(frozen=True)
class Strategy:
    """A way to train one network with several processes or devices.

    Attributes:
        name: its name on the command line.
        when: a paragraph that says when to use it; --help shows it.
        check: raises where it cannot train with these options, before any data is read.
        train: trains and leaves the run's folder (dbinfer.train.course does that); it closes the setup's snapshot
            when the rows have been read, or before other processes read theirs.
    """

    name: str
    when: str
    check: Callable[[TrainJob], None]
    train: Callable[[Setup, OnEvent], None]


WHEN_HOROVOD = (
    "the default, on one core or many hosts. Each of --ranks processes trains on its own part of the images, and "
    "after each step all of them apply the mean of their gradients. Use it when the network fits into each process "
    "and the hosts are alike, because all wait for the slowest."
)


def _check_later(job: TrainJob) -> None:
    """Nothing is refused before the data is known; hosts and launcher are checked when they start."""


def _launch(setup: Setup, on_event: OnEvent) -> None:
    from dbinfer.train.processes import launch

    setup.close()  # the ranks read a snapshot that they share
    launch(setup.job, on_event)


def _train_horovod(setup: Setup, on_event: OnEvent) -> None:
    if setup.job.ranks > 1:
        _launch(setup, on_event)
        return
    # First: the modules below import Keras, which would not be silent
    import_tensorflow()
    from dbinfer.train.one_rank import train_rank
    from dbinfer.train.ranks import Alone

    train_rank(setup, Alone(), on_event)


HOROVOD = Strategy("horovod", WHEN_HOROVOD, _check_later, _train_horovod)


WHEN_MIRRORED = (
    "for several GPUs of one host. One process divides each batch among --ranks devices, which all hold the weights "
    "and add up their gradients after each step. Use it instead of horovod if MPI and Horovod are not installed; "
    "without GPUs it works, but is no faster than one process."
)


def check_mirrored(job: TrainJob) -> None:
    """Raise UsageError for options that make no sense with several devices of one process."""
    if job.hosts:
        raise UsageError(
            f"the strategy {job.strategy} uses the devices of this host, but hosts is {job.hosts!r}",
            "Use --strategy horovod to train on several hosts.",
        )
    if job.sharding != "split":
        raise UsageError(
            f"the strategy {job.strategy} deals every batch out to its devices, but sharding is {job.sharding!r}",
            "Leave out --sharding.",
        )


def train_replicas(setup: Setup, on_event: OnEvent) -> None:
    """Train in a process of its own: TensorFlow's number of devices is fixed before it computes."""
    from dbinfer.train.processes import train_in_process

    setup.close()  # that process reads the rows
    train_in_process(setup.job, on_event)


MIRRORED = Strategy("mirrored", WHEN_MIRRORED, check_mirrored, train_replicas)


WHEN_CENTRAL = (
    "like mirrored, but the host's memory holds the only copy of the weights and the optimizer's state, and each "
    "device fetches the weights for each step. Use it when a GPU has too little memory for the optimizer's state; "
    "otherwise mirrored is faster."
)

CENTRAL = Strategy("central", WHEN_CENTRAL, check_mirrored, train_replicas)


WHEN_DOWNPOUR = (
    "for workers that differ in speed or may be lost. Servers (--servers) hold the weights; each of --ranks workers "
    "fetches them and sends its gradient as soon as it is computed, without waiting for others. A lost worker "
    "costs no update. Updates apply to weights that others have changed meanwhile, so on hosts that are alike "
    "horovod learns more per step. TensorFlow's protocol has no authentication: the processes listen on this host's "
    "loopback or, with --hosts, in the --private-network that you name."
)


def check_servers(job: TrainJob) -> None:
    """Raise UsageError for options that do not fit a cluster of workers, or would open it to strangers."""
    check_network(job)
    if job.sharding != "split":
        raise UsageError(
            f"the strategy {job.strategy} hands every batch to one worker, but sharding is {job.sharding!r}",
            "Leave out --sharding.",
        )
    if job.port + job.ranks + job.servers > 65535:
        raise UsageError(
            f"port is {job.port}, but {job.ranks + job.servers + 1} processes need one each, and 65535 is the last"
        )


def train_servers(setup: Setup, on_event: OnEvent) -> None:
    """Train with a chief, servers and workers, which this process starts."""
    from dbinfer.train.cluster import train_together

    setup.close()  # the chief reads the rows
    train_together(setup.job, on_event)


DOWNPOUR = Strategy("downpour", WHEN_DOWNPOUR, check_servers, train_servers)


WHEN_SANDBLASTER = (
    "for few images and a network without dropout and batch normalisation; there is no learning rate to choose. The "
    "chief runs L-BFGS over all images, which workers evaluate in pieces of --batch images; slow workers get fewer "
    "pieces, and those of a lost worker go to another. An epoch is 10 iterations. Processes listen as with "
    "downpour."
)


def _check_sandblaster(job: TrainJob) -> None:
    check_servers(job)
    if job.augment:
        raise UsageError(
            "the strategy sandblaster needs the same images in every evaluation, but augment changes them",
            "Leave out --augment.",
        )
    _check_f32(job, "L-BFGS compares losses to more digits than bf16 has")


def _check_f32(job: TrainJob, reason: str) -> None:
    if job.precision != "f32":
        raise UsageError(
            f"precision is {job.precision}, but the strategy {job.strategy} computes in f32: {reason}",
            "Leave out --precision.",
        )


SANDBLASTER = Strategy("sandblaster", WHEN_SANDBLASTER, _check_sandblaster, train_servers)


WHEN_SPLIT = (
    "for a network that does not fit into one device. Each of --ranks processes holds a part of it: --layout "
    "dense-by-outputs splits the dense layers (most of AlexNet and VGG), dense-in-pairs lets two of them share one "
    "exchange, and all-by-outputs splits convolutions too. --mesh 2x2 trains two such networks of two parts, each "
    "on its share of the images. If the network fits into one device, horovod is faster. It needs the package jax."
)


def _check_split(job: TrainJob) -> None:
    from dbinfer.train.mesh import Mesh

    if find_spec("jax") is None:
        raise TrainError("the strategy split needs JAX, which is not installed", install("split"))
    _check_f32(job, "only TensorFlow is told to multiply so")
    Mesh.of(job)
    check_network(job)
    check_reachable(hosts_of(job))


def _train_split(setup: Setup, on_event: OnEvent) -> None:
    from dbinfer.train.processes import train_in_process

    setup.close()  # the processes read a snapshot that they share
    train_in_process(setup.job, on_event, {"KERAS_BACKEND": "jax"})


SPLIT = Strategy("split", WHEN_SPLIT, _check_split, _train_split)


WHEN_PIPELINE = (
    "for a network that does not fit into one device and whose layers follow one another. Each of --ranks processes "
    "computes some consecutive layers and passes on what they make; a batch goes through in --micro-batches parts, so "
    "that all processes have work. --cuts says where a stage ends; by itself it is where measured times make the "
    "slowest one quickest. --mesh 2x2 trains two such networks of two stages, each on its share of the images. With "
    "--ranks 1 a batch takes the memory of one of its parts."
)


def _check_pipeline(job: TrainJob) -> None:
    from dbinfer.train.mesh import Mesh

    Mesh.of(job)
    if job.micro_batches > job.batch:
        raise UsageError(
            f"micro_batches is {job.micro_batches}, but a batch has {job.batch} images",
            "Set --batch to a multiple of --micro-batches.",
        )


PIPELINE = Strategy("pipeline", WHEN_PIPELINE, _check_pipeline, _launch)


WHEN_AVERAGING = (
    "like horovod, but each rank makes --block steps alone before all take the mean of their weights, and go on in its "
    "direction (--block-momentum). Use it where the network between hosts is so slow that horovod waits for it. The "
    "learning rate is not multiplied, and networks that find boxes are not trained so."
)


AVERAGING = Strategy("averaging", WHEN_AVERAGING, _check_later, _launch)


ALL: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (HOROVOD, MIRRORED, CENTRAL, DOWNPOUR, SANDBLASTER, SPLIT, PIPELINE, AVERAGING)
}
assert tuple(ALL) == STRATEGIES


def explained() -> str:
    """Return a paragraph for each strategy, for --help."""
    return "\n\n".join(f"{entry.name}: {entry.when}" for entry in ALL.values())


def train(
    network: Any,
    data: str,
    options: TrainOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> TrainReport:
    """Train a network, ready for `dbinfer.convert`.

    Args:
        network: digits, unet, finder, vgg19bn, vgg19bn_cifar or alexnet; one of your own: FILE.py, FILE.py:NAME,
            FILE.keras, MODULE:FUNCTION or keras:NAME, whose code runs; NAME@VERSION, a version in the database that
            was deployed with its Keras file; or a Keras model, which is saved in the folder of the run and trained
            from there. The model in this process stays as it is.
        data: digits, strokes, strokes:COUNT, written, written:COUNT, a folder, or a SQL query with two columns (image;
            mask, boxes, label, array of labels, enum or real number).
        options: epochs, ranks, folder of the run, ...
        dsn: the server of a query.
        progress: is told of each step, and with a note of each epoch.

    Raises:
        UsageError, DataError, TrainError: one sentence each; what can be checked is checked before any long work.
        DbinferError: of --deploy, as dbinfer.convert and dbinfer.deploy; the run's folder is complete then.
    """
    options = options or TrainOptions()
    from dbinfer.train.versions import deploy_trained

    if not isinstance(network, str):
        from dbinfer.train.own import saved

        network = saved(network, options.out)
    job = TrainJob.of(network, data, options, dsn)
    report, setup = _run(job, shown_as_progress(job, progress))
    try:
        return deploy_trained(report, job, setup, progress)
    finally:
        setup.close()  # the comparison may have opened it again


def run(job: TrainJob, on_event: OnEvent = lambda event: None) -> TrainReport:
    """Train as `job` says; `on_event` gets the events start, step and epoch of dbinfer.train.course.

    A network of the user's own is looked at first, and what follows from it is told (event `network`, with a text).
    A fine-tuning is two trainings in a row; the report is that of the second one.
    """
    return _run(job, on_event)[0]


def _run(job: TrainJob, on_event: OnEvent) -> tuple[TrainReport, Setup]:
    """Train, and return also the setup of the last training, whose snapshot is closed."""
    from dbinfer.train.finetuning import stages
    from dbinfer.train.own import find_network
    from dbinfer.train.setup import make_setup

    setup = _settled(job, on_event)
    if complete(setup):
        setup.close()
        on_event({"event": "network", "text": f"the run in {job.folder} is complete"})
        return read_report(setup.job), setup
    labels = setup.manifest.labels
    for number, stage in enumerate(stages(setup.job)):
        # The first one has its rows already; a later one reads them anew
        setup = make_setup(stage) if number else replace(setup, job=stage, network=find_network(stage))
        if setup.manifest.labels != labels:
            raise DataError("the labels of the data have changed while the head was trained", "Start again.")
        _check_folder(stage)
        ALL[stage.strategy].train(setup, on_event)
    return read_report(setup.job), setup


def complete(setup: Setup) -> bool:
    """Return whether --resume finds nothing left to train: the run has ended, and with these options."""
    from dbinfer.train.checkpoint import difference
    from dbinfer.train.course import is_over
    from dbinfer.train.finetuning import plan

    job = setup.job
    if job.resume != "last" or not (job.folder / RUN).is_file():
        return False
    report, last = read_report(job), plan(job)[-1]
    same = difference(report.run["config"], last) is None
    return same and is_over(job, report.history, setup.network.metrics[0])


def dry_run(job: TrainJob) -> list[str]:
    """Return what `run` would do, a line for each step; a network of the user's own is looked at, nothing is trained.

    Raises:
        UsageError, DataError, TrainError: as `run`.
    """
    lines: list[str] = []
    setup = _settled(job, lambda event: lines.append(event["text"]))
    setup.close()
    held = len(setup.val.rows) if setup.val else 0
    labels = f"; {len(setup.manifest.labels)} labels" if setup.manifest.labels else ""
    told = f"{len(setup.train.rows):,} images to train on, {held:,} to validate{labels}"
    epochs = f"{job.epochs} epochs with lr {setup.job.rate:g}" if job.fine_tune is None else ""
    return [line for line in (*lines, told, epochs, f"into {job.folder}") if line]


def _settled(job: TrainJob, on_event: OnEvent) -> Setup:
    """Return all that follows from a job once everything that can be is checked; tell it of the user's own network."""
    from dbinfer.train.described import told
    from dbinfer.train.finetuning import told_stages
    from dbinfer.train.setup import check_images, make_setup
    from dbinfer.train.versions import check_deploy, fetched

    # First: reading the images may need packages, too, and its hint would name those alone
    check_installed()
    ALL[job.strategy].check(job)
    check_deploy(job)
    job = fetched(job)
    if own_name(job.network):
        on_event({"event": "network", "text": ""})
    setup = make_setup(job)
    check_images(setup)
    if setup.job.described:
        for text in (told(setup.job), *told_stages(setup.job)):
            on_event({"event": "network", "text": text})
    return setup


def shown_as_progress(job: TrainJob, progress: OnProgress) -> OnEvent:
    """Return a listener that passes the events of a run on as `Progress`."""
    from dbinfer.train.mesh import Mesh

    epochs = job.epochs

    def tell(event: dict[str, Any]) -> None:
        nonlocal epochs
        values = dict(event)
        kind = values.pop("event")
        if kind in ("start", "listening"):
            epochs = values.get("epochs", epochs)
            progress(Progress("training" if kind == "start" else "starting"))
            return
        if kind == "network":
            progress(Progress(f"looking at {job.network}", note=event["text"]))
            return
        title = f"epoch {event['epoch']}/{epochs}"
        if kind == "step":
            # The processes of one group see the same images
            alike = job.strategy in ("split", "pipeline")
            batch = job.batch * (Mesh.of(job).groups if alike else job.ranks)
            progress(Progress(title, event["step"] * batch, event["steps"] * batch, "images"))
        elif kind == "epoch":
            images = event["images"]
            progress(Progress(title, images, images, "images", line(Epoch.from_dict(values), epochs)))

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
