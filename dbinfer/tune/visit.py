"""What a worker does with the weights that visit its shard: it trains them, or judges them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from dbinfer.train import model as models
from dbinfer.train.loader import Seed
from dbinfer.train.plan import Plan, shard
from dbinfer.train.ranks import Alone, hosts_of
from dbinfer.train.steps import Meter, Schedule, evaluate, one_epoch
from dbinfer.tune.route import Hop, Route


class Visitor:
    """A trial's network at one shard; dbinfer.train.course writes its files as those of any training.

    Args:
        plan: of the trial; the images of the shard are read already.
        number: of the shard.
        shards: how many there are.
    """

    first = True

    def __init__(self, plan: Plan, number: int, shards: int) -> None:
        import keras

        # The same on every worker: whichever the trial begins at, it begins with these weights
        keras.utils.set_random_seed(plan.job.seed)
        self.plan = plan
        self.plain, _ = models.build(plan.network, plan.options)
        self.model = models.distributed(self.plain, Alone())
        models.compile_model(self.model, plan.network, plan.job)
        self._train, self._val = plan.visited(number, shards)
        rows = [len(shard(plan.train.rows, one, shards)) for one in range(shards)]
        self._each = [-(-count // plan.job.batch) for count in rows]
        total = plan.job.epochs * sum(self._each)
        self._schedule = Schedule(plan.job.lr, 1, 0, total, plan.job.schedule)

    def train(self, route: Route) -> Hop:
        """Train one pass over the shard, at the learning rates of the trial's next steps."""
        pipeline, epoch = self._train, route.epoch
        models.reseed(self.model, Seed(self.plan.job.seed, pipeline.rank, epoch))
        done = (epoch - 1) * sum(self._each) + sum(self._each[number] for number in route.visited)
        # Meter counts from the epoch's number and this shard's steps, as if there were no other shards
        schedule = replace(self._schedule, done=done - (epoch - 1) * pipeline.steps)
        meter = Meter(self.model, schedule, _nobody, epoch, pipeline.steps)
        started = time.monotonic()
        values = one_epoch(self.model, pipeline, meter, Alone())
        return Hop(pipeline.rank, pipeline.length, time.monotonic() - started, values, meter.rate)

    def validate(self) -> Hop:
        """Evaluate the weights on the shard's validation images."""
        if self._val is None:
            return Hop(self._train.rank, 0, 0.0)
        started = time.monotonic()
        values = evaluate(self.model, self._val, Alone())
        return Hop(self._train.rank, self._val.length, time.monotonic() - started, values)

    def about(self) -> dict[str, Any]:
        """Return what run.json says of the host."""
        return {"hosts": hosts_of(Alone())}


def _nobody(event: dict[str, Any]) -> None:
    pass
