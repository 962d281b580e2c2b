"""The learning rate at each step: warm-up to lr x ranks (Goyal et al. 2017, arXiv:1706.02677), then as wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of the step.

    Attributes:
        lr: rate of one rank.
        ranks: the rate grows to `lr` x `ranks`: the batch is that much larger.
        warmup: steps of that growth, from `lr` on in equal parts; none with one rank.
        total: steps of the whole run.
        kind: constant, or cosine (from the end of the warm-up down to 0).
    """

    lr: float
    ranks: int
    warmup: int
    total: int
    kind: str = "constant"

    def at(self, step: int) -> float:
        """Return the rate of one step, counted from 0 over the whole run."""
        warmup = self.warmup if self.ranks > 1 else 0
        full = self.lr * self.ranks
        if step < warmup:
            return self.lr + (full - self.lr) * step / warmup
        if self.kind == "cosine":
            done = (step - warmup) / max(1, self.total - warmup)
            return full * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        return full
