"""Data parallel with Horovod: each rank has a part of the images, and all apply the mean of their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbinfer.train.libraries import import_tensorflow
from dbinfer.train.options import TrainJob
from dbinfer.train.strategies._strategy import Strategy, Tell

if TYPE_CHECKING:
    from dbinfer.train.plan import Plan

WHEN = (
    "the default, on one core or many hosts. Each of --ranks processes trains on its own part of the images, and after "
    "each step all apply the mean of their gradients. Use it when the network fits into each process and the hosts are "
    "alike: all wait for the slowest."
)


def _check(job: TrainJob) -> None:
    """Horovod trains every network of the zoo; hosts and launcher are checked when they start."""


def _train(plan: Plan, tell: Tell) -> None:
    if plan.job.ranks > 1:
        from dbinfer.train.launch import launch

        plan.close()  # the ranks read a snapshot of their own, all the same one
        launch(plan.job, tell)
        return
    # First: the modules below import Keras, whose noise would not be silenced
    import_tensorflow()
    from dbinfer.train.one_rank import train_rank
    from dbinfer.train.ranks import Alone

    train_rank(plan, Alone(), tell)


STRATEGY = Strategy("horovod", WHEN, _check, _train)
