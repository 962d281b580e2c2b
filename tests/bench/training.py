"""Measures what several ranks or devices bring to a training, beside as many processes that know nothing of each other.

python tests/bench/training.py compare [NETWORK DATA RANKS]          data distributed, all data on each rank, alone
python tests/bench/training.py width|batch|ranks [NETWORK DATA]      from which size on training together pays
python tests/bench/training.py cpu,gpu [NETWORK DATA RANKS]          one device of a kind against several
python tests/bench/training.py precision [NETWORK DATA]              f32 against bf16, on all cores

Every process has the same share of the machine's cores, so on one machine this shows what the exchange between ranks
costs, not what more machines would gain. Without further words it trains a small U-Net on strokes with two ranks.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import fmean

from dbinfer.base.apart import cores
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import launch
from dbinfer.train.report import Epoch, read_report
from dbinfer.train.setup import make_setup

SIZES = {"width": (2, 4, 8, 16, 32), "batch": (2, 4, 8, 16, 32), "ranks": range(2, max(2, cores()) + 1)}
STROKES = {"size": 128, "depth": 3, "base_width": 8}


def trained(job: TrainJob, name: str) -> list[Epoch]:
    """Train in a folder of its own, with a rank's share of the cores for each process; return the epochs."""
    job = replace(job, out=str(job.folder / name))
    job.folder.mkdir(parents=True, exist_ok=True)
    launch(job)
    return read_report(job).history


def fastest(history: Sequence[Epoch]) -> float:
    """Return images per second of the fastest epoch: the first builds graphs, and others disturb single ones."""
    return max(entry.images_per_second for entry in history)


def apart(job: TrainJob) -> float:
    """Return images per second of as many single processes as ranks, run at once."""
    single = replace(job, ranks=1, hosts="", epochs=min(job.epochs, 3), val="none")
    with ThreadPoolExecutor(job.ranks) as pool:
        return sum(pool.map(lambda n: fastest(trained(single, f"apart-{n}")), range(job.ranks)))


def compare(job: TrainJob) -> Iterator[Sequence[object]]:
    """Yield a line for each way to train, and for independent processes."""
    setup = make_setup(job)
    setup.close()
    metric = setup.network.metrics[0]
    yield "way", "images/s", "seconds of an epoch", f"val {metric}"
    rates = {}
    for name, way in (
        ("distributed", job),
        ("everything", replace(job, sharding="all")),
        ("alone", replace(job, ranks=1, hosts="")),
    ):
        history = trained(way, name)
        rates[name] = fastest(history)
        best = max(entry.values.get(f"val_{metric}", 0.0) for entry in history)
        seconds = min(entry.seconds for entry in history)
        yield name, f"{rates[name]:.1f}", f"{seconds:.1f}", f"{best:.4f}"
    independent = apart(job)
    yield f"{job.ranks} independent", f"{independent:.1f}"
    yield "speed-up against one", f"{rates['distributed'] / rates['alone']:.2f}"
    yield "efficiency against independent", f"{rates['distributed'] / independent:.2f}"


def sweep(job: TrainJob, kind: str) -> Iterator[Sequence[object]]:
    """Yield a line for each size: images per second together and apart; the efficiency is their quotient."""
    yield kind, "ranks", "together", "apart", "efficiency"
    for value in SIZES[kind]:
        if kind == "width":
            one = replace(job, network_options={**job.network_options, "base_width": value})
        else:
            one = replace(job, **{kind: value})
        one = replace(one, out=str(job.folder / f"{kind}-{value}"), threads=max(1, cores() // one.ranks))
        together, alone = fastest(trained(replace(one, val="none"), "together")), apart(one)
        yield value, one.ranks, f"{together:.1f}", f"{alone:.1f}", f"{together / alone:.2f}"


def devices(job: TrainJob, kinds: Sequence[str]) -> Iterator[Sequence[object]]:
    """Yield a line for one device of each kind, and for as many as ranks; independent ones exchange nothing."""
    yield "devices", "epoch s", "test s", "images/s", "share of the exchange"
    for kind in kinds:
        one = replace(job, device=kind, out=str(job.folder / kind))
        for ranks in (1, job.ranks):
            history = trained(replace(one, ranks=ranks), f"{ranks}")
            # without the first epoch, which builds graphs
            counted = history[1:] or history
            seconds = [fmean(getattr(e, name) for e in counted) for name in ("seconds", "val_seconds")]
            lost = f"{max(0.0, 1 - fastest(history) / apart(one)):.2f}" if ranks > 1 else "-"
            yield f"{ranks} x {kind}", *(f"{s:.2f}" for s in seconds), f"{fastest(history):.1f}", lost


def precisions(job: TrainJob) -> Iterator[Sequence[object]]:
    """Yield a line for each precision, of one process with all cores."""
    yield "precision", "images/s", "loss"
    for precision in ("f32", "bf16"):
        one = replace(job, ranks=1, threads=cores(), precision=precision, val="none")
        history = trained(one, precision)
        yield precision, f"{fastest(history):.1f}", f"{history[-1].values['loss']:.4f}"


def main(what: str = "compare", network: str = "unet", data: str = "strokes", ranks: str = "2") -> None:
    """Measure and print the lines as they come."""
    job = TrainJob(
        network,
        data,
        out=tempfile.mkdtemp(prefix="dbinfer-bench-train-"),
        network_options=dict(STROKES) if network == "unet" else {},
        epochs=4,
        batch=8 if network == "unet" else 32,
        lr=2.5e-3,
        ranks=int(ranks),
        launcher="mpi",
        threads=max(1, cores() // int(ranks)),
        warmup=1,
        momentum=0.9,
        optimizer="adam",
        keep=0,
        final="last",
    )
    if what in SIZES:
        lines = sweep(job, what)
    elif what == "precision":
        lines = precisions(job)
    elif what != "compare":
        lines = devices(job, what.split(","))
    else:
        lines = compare(job)
    for line in lines:
        print("| " + " | ".join(map(str, line)) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
