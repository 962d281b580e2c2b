"""A rank that is spoilt or watched, for the tests: `python train_probe.py MODE OPTIONS`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbinfer.train import ranks as train_ranks
from dbinfer.train import worker


def unaveraged() -> None:
    """Every rank applies its own gradients."""

    def own(self: Any, tensors: Sequence[Any]) -> Sequence[Any]:
        return tensors

    train_ranks.Horovod.average = own  # type: ignore[method-assign]


def killed() -> None:
    """Rank 1 is killed in the middle of the second epoch."""
    import horovod.tensorflow as hvd

    from dbinfer.train.model import Meter

    go_on = Meter.on_train_batch_end

    def stop(self: Any, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch, hvd.rank()) == (2, 1, 1):
            os.kill(os.getpid(), signal.SIGKILL)
        go_on(self, batch, logs)

    Meter.on_train_batch_end = stop


def lost_stage() -> None:
    """The second stage of a pipeline is killed in the middle of the second epoch."""
    import horovod.tensorflow as hvd

    from dbinfer.train.stage import Stage

    epoch = Stage.epoch

    def stop(self: Any, number: int, on_event: Any) -> Any:
        def killed(event: Any) -> None:
            if hvd.rank() == 1 and number == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        return epoch(self, number, killed)

    Stage.epoch = stop  # type: ignore[method-assign]


def watched() -> None:
    """Each rank leaves its weights at the end in rank-N.npz."""
    from dbinfer.train import course

    finish = course.finish

    def leave(training: Any, *more: Any) -> None:
        rank, weights = training.trainer._ranks.rank, training.trainer.model.weights
        named = {weight.path.replace("/", "."): np.asarray(weight) for weight in weights}
        np.savez(training.job.folder / f"rank-{rank}.npz", **named)
        finish(training, *more)

    course.finish = leave


def fileless() -> None:
    """Rank 1 has no file of the network, as on another host."""
    from dbinfer.train import own

    def absent(network: str) -> bytes:
        raise FileNotFoundError(network)

    if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("HOROVOD_RANK")) == "1":
        own.read_file = absent
        there = os.path.exists
        own.os.path.exists = lambda path: not str(path).endswith("net.py") and there(path)  # type: ignore[assignment]


def reading() -> None:
    """Each rank leaves the numbers of its images in rank-N.npz (16 pixels of the first line), and ends."""
    from dbinfer.train.setup import Setup

    check = Setup.check_alike

    def numbers(pipeline: Any) -> list[int]:
        images = [pipeline.loader.load(index)[0] for index in range(len(pipeline.loader.samples))]
        return [sum(int(image[0, bit, 0] > 0) << bit for bit in range(16)) for image in images]

    def leave(setup: Any, share: Any, gather: Any) -> None:
        check(setup, share, gather)
        ranks = share.__self__
        parts = {
            "train": numbers(setup.training(ranks.rank, ranks.size)),
            "val": numbers(setup.validation(ranks.rank, ranks.size)),
        }
        np.savez(setup.job.folder / f"rank-{ranks.rank}.npz", **parts)
        ranks.gather(None)
        os._exit(0)

    Setup.check_alike = leave  # type: ignore[method-assign]


def alone() -> None:
    """Horovod makes groups of one, as a build without MPI does under mpirun."""
    import horovod.tensorflow as hvd

    hvd.size = lambda: 1


MODES = (unaveraged, killed, lost_stage, watched, alone, reading, fileless)

if __name__ == "__main__":
    {mode.__name__: mode for mode in MODES}[sys.argv[1]]()
    worker.main(sys.argv[2:])
