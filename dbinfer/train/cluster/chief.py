"""The chief: has the images and the plan, deals the work out, and leaves the files of the run."""

from __future__ import annotations

import tensorflow as tf

from dbinfer.errors import TrainError
from dbinfer.train import events
from dbinfer.train.cluster.base import Cluster
from dbinfer.train.cluster.listening import check_listening
from dbinfer.train.course import Trainer, follow
from dbinfer.train.plan import Plan


def lead(plan: Plan, cluster: Cluster, address: str) -> None:
    """Train on the cluster.

    Raises:
        TrainError: a parameter server was lost.
        DbinferError: as dbinfer.train.course.follow.
    """
    trainer = _trainer(plan, cluster)
    check_listening(address)
    try:
        follow(trainer, events.send)
    except tf.errors.OpError as err:
        raise TrainError(
            f"a parameter server was lost: {(err.message or '').splitlines()[0]}",
            events.how_to_go_on(plan.job),
        ) from err


def _trainer(plan: Plan, cluster: Cluster) -> Trainer:
    from dbinfer.train.cluster.downpour import Downpour
    from dbinfer.train.cluster.sandblaster import Sandblaster

    kinds: dict[str, type[Downpour | Sandblaster]] = {"downpour": Downpour, "sandblaster": Sandblaster}
    return kinds[plan.job.strategy](plan, cluster)
