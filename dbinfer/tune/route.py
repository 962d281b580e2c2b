"""The way of a trial's weights from shard to shard: what has been done, and which shards are left; without Optuna.

In each epoch the weights visit every shard once to be trained there, and then every shard once to be judged by its
validation images. Any order will do, so a trial goes wherever a worker is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dbinfer.train.history import Epoch

PREFIX = "hop-"  # of the attributes of a trial that tell its hops


@dataclass(frozen=True)
class Hop:
    """One visit that is done.

    Attributes:
        shard: from 0 on.
        images: that were trained on, or judged by.
        seconds: that took.
        values: loss and metrics over these images.
        lr: of the last step; 0 where the weights were judged.
    """

    shard: int
    images: int
    seconds: float
    values: dict[str, float] = field(default_factory=dict)
    lr: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Route:
    """The hops of a trial so far, and what comes next.

    Attributes:
        shards: how many there are.
        hops: in their order; in each epoch `shards` that train, then `shards` that judge.
    """

    shards: int
    hops: tuple[Hop, ...] = ()

    @classmethod
    def of(cls, attributes: Mapping[str, Any], shards: int) -> Route:
        """Read it from a trial's attributes."""
        numbers = sorted(int(name.removeprefix(PREFIX)) for name in attributes if name.startswith(PREFIX))
        return cls(shards, tuple(Hop(**attributes[f"{PREFIX}{number}"]) for number in numbers))

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next hop belongs to, from 1 on."""
        return len(self.hops) // (2 * self.shards) + 1

    @property
    def judging(self) -> bool:
        """Whether the next hop judges the weights."""
        return self._within >= self.shards

    @property
    def trained(self) -> int:
        """How many hops have changed the weights."""
        return (self.epoch - 1) * self.shards + min(self._within, self.shards)

    @property
    def visited(self) -> list[int]:
        """The shards that the weights have visited in this round, in their order."""
        return [hop.shard for hop in self.hops[len(self.hops) - self._within % self.shards :]]

    @property
    def left(self) -> set[int]:
        """The shards that the next hop may go to."""
        return set(range(self.shards)) - set(self.visited)

    @property
    def orders(self) -> list[list[int]]:
        """The order of the shards in the training of each epoch that has begun."""
        each = 2 * self.shards
        starts = range(0, len(self.hops), each)
        return [[hop.shard for hop in self.hops[start : start + self.shards]] for start in starts]

    def history(self) -> list[Epoch]:
        """Return the epochs that are done: means over the images of all shards."""
        each = 2 * self.shards
        ends = range(each, len(self.hops) + 1, each)
        return [_epoch(number, self.hops[end - each : end]) for number, end in enumerate(ends, start=1)]

    def after(self, hop: Hop) -> Route:
        """Return the route with one hop more."""
        return Route(self.shards, (*self.hops, hop))

    @property
    def _within(self) -> int:
        return len(self.hops) % (2 * self.shards)


def _epoch(number: int, hops: Sequence[Hop]) -> Epoch:
    half = len(hops) // 2
    train, judged = hops[:half], hops[half:]
    seconds = [sum(hop.seconds for hop in part) for part in (train, judged)]
    values = {**_means(train), **_means(judged)}
    images = sum(hop.images for hop in train)
    return Epoch(number, seconds[0], seconds[1], images, train[-1].lr, values)


def _means(hops: Sequence[Hop]) -> dict[str, float]:
    """Return the means over all images; a shard without validation images counts nothing."""
    counted = [hop for hop in hops if hop.images]
    weights = [hop.images for hop in counted]
    names = sorted(counted[0].values) if counted else []
    return {name: float(np.average([hop.values[name] for hop in counted], weights=weights)) for name in names}
