"""One rank's training from start to end; with one rank it is the whole run."""

from __future__ import annotations

from typing import Any

from dbinfer.errors import TrainError
from dbinfer.machine import cores
from dbinfer.train import course
from dbinfer.train import model as models
from dbinfer.train.course import Pass, Report
from dbinfer.train.detections import precision
from dbinfer.train.device import choose_device, limit_threads
from dbinfer.train.loader import Seed
from dbinfer.train.options import TrainJob
from dbinfer.train.plan import Plan
from dbinfer.train.ranks import Ranks, hosts_of
from dbinfer.train.steps import Meter, Schedule, evaluate, one_epoch


def train_rank(plan: Plan, ranks: Ranks, report: Report) -> None:
    """Train; rank 0 leaves the files of the run.

    Raises:
        DbinferError: an image is unreadable, a checkpoint does not fit, ...
    """
    course.follow(Rank(plan, ranks), report)


class Rank:
    """The network and the images of one rank, see dbinfer.train.course.Trainer."""

    def __init__(self, plan: Plan, ranks: Ranks) -> None:
        import keras

        job = plan.job
        choose_device(job.device, ranks.local_rank)
        _limit_threads(job, ranks)
        keras.utils.set_random_seed(job.seed + ranks.rank)  # dropout and the like differ from rank to rank
        self.plan, self.first, self._ranks = plan, ranks.rank == 0, ranks
        self.plain, _ = models.build(plan.network, plan.options)
        self.model = models.distributed(plan.network.learner(self.plain), ranks)
        models.compile_model(self.model, plan.network, job)
        self._train = plan.training(ranks.rank, ranks.size)
        # A rank that makes one step more would wait for ever for the others' gradients
        self.steps = ranks.share(self._train.steps)
        if self._train.steps != self.steps:
            raise TrainError(
                f"rank {ranks.rank} has {self._train.steps} steps an epoch, but rank 0 has {self.steps}"
            )
        self._schedule = Schedule(
            job.lr, ranks.size, job.warmup * self.steps, job.epochs * self.steps, job.schedule
        )
        self._val = plan.validation(ranks.rank, ranks.size)
        # All rows are read: no transaction stays open while the network trains
        plan.close()
        _check_alike(plan, ranks)

    def share(self, value: Any) -> Any:
        return self._ranks.share(value)

    def begin(self) -> None:
        models.synchronise(self.model, self._ranks)

    def epoch(self, number: int, report: Report) -> Pass:
        models.reseed(self.model, Seed(self.plan.job.seed, self._ranks.rank, number))
        meter = Meter(self.model, self._schedule, report, number, self._train.steps)
        values = one_epoch(self.model, self._train, meter, self._ranks)
        return Pass(values, meter.rate, self._train.length * self._ranks.size)

    def judge(self) -> dict[str, float]:
        # Before the validation, which is to judge the model that is saved
        if self.plan.job.average_batch_norm:
            models.average_batch_norm(self.model, self._ranks)
        if not self.plan.val:
            return {}
        values = evaluate(self.model, self._val, self._ranks)
        if self.plan.network.finds_boxes:
            values.update(precision(self.model, self._val, self.plan.manifest, self._ranks))
        return values

    def about(self) -> dict[str, Any]:
        return {"hosts": hosts_of(self._ranks)}


def _check_alike(plan: Plan, ranks: Ranks) -> None:
    """Wait until every rank has read its images, and stop where they saw other images or another order."""
    seen = ranks.gather((plan.fingerprint(), len(plan.train.rows)))
    for rank, one in enumerate(seen):
        if one != seen[0]:
            raise TrainError(
                f"rank {rank} sees other images than rank 0, or in another order ({one[1]} and {seen[0][1]} images)",
                "Put the same files on every host. A query needs a unique key as its third column or at the end of "
                "ORDER BY.",
            )


def _limit_threads(job: TrainJob, ranks: Ranks) -> None:
    """Share the host's cores among its ranks; TensorFlow takes all of them for each process."""
    if ranks.size > 1 or job.threads:
        limit_threads(job.threads or max(1, cores() // ranks.local_size))
