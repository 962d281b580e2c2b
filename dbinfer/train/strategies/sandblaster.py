"""L-BFGS with a coordinator that deals out small pieces of the data: Sandblaster of DistBelief."""

from __future__ import annotations

from dbinfer.errors import UsageError
from dbinfer.train.options import TrainJob
from dbinfer.train.strategies import downpour
from dbinfer.train.strategies._strategy import Strategy

WHEN = (
    "few images and a network without dropout and batch normalisation, where no learning rate is to be chosen. The "
    "chief runs L-BFGS over all images, which workers evaluate in pieces of --batch images; who is slow gets fewer "
    "pieces, and a lost worker's go to another. An epoch is 10 iterations. Processes listen as those of downpour."
)


def _check(job: TrainJob) -> None:
    downpour.check(job)
    if job.augment:
        raise UsageError(
            "the strategy sandblaster needs the same images in every evaluation, but augment changes them",
            "Leave out --augment.",
        )


STRATEGY = Strategy("sandblaster", WHEN, _check, downpour.train)
