"""Two versions of a model on the same images: where they agree, which one won."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dbinfer.page.classes import Answer, accuracy

Pair = tuple[Answer, Answer]


@dataclass(frozen=True)
class Comparison:
    """What changed from the older answers to the newer ones, over the images that both have.

    Attributes:
        images: that both versions answered; agreed: with the same class.
        changed: pairs (newer, older) of different classes; won: those where only the newer is right; lost: the reverse.
        newer, older: accuracy; None without labels.
        chance: probability of won and lost lying so far apart if both were equally good (McNemar's exact test).
    """

    images: int
    agreed: int
    changed: tuple[Pair, ...]
    won: tuple[Pair, ...]
    lost: tuple[Pair, ...]
    newer: float | None
    older: float | None
    chance: float | None

    @property
    def agreement(self) -> float | None:
        """Return the share of images with the same class."""
        return self.agreed / self.images if self.images else None


def compare(newer: Sequence[Answer], older: Sequence[Answer]) -> Comparison:
    """Compare answers on the keys that both have."""
    before = {answer.key: answer for answer in older}
    pairs = [(answer, before[answer.key]) for answer in newer if answer.key in before]
    changed = [pair for pair in pairs if pair[0].name != pair[1].name]
    labelled = [pair for pair in changed if pair[0].truth is not None]
    won = tuple(pair for pair in labelled if not pair[0].wrong)
    lost = tuple(pair for pair in labelled if not pair[1].wrong)
    rates = accuracy([pair[0] for pair in pairs]), accuracy([pair[1] for pair in pairs])
    chance = mcnemar(len(won), len(lost)) if rates[0] is not None else None
    agreed = len(pairs) - len(changed)
    return Comparison(len(pairs), agreed, tuple(changed), won, lost, *rates, chance)


def mcnemar(won: int, lost: int) -> float:
    """Return the two-sided probability of a fair coin falling so unevenly: McNemar's exact test."""
    tosses, few = won + lost, min(won, lost)
    if won == lost:
        return 1.0
    # By logarithms: 2 ** 20000 is no float
    terms = (
        math.lgamma(tosses + 1) - math.lgamma(n + 1) - math.lgamma(tosses - n + 1) - tosses * math.log(2)
        for n in range(few + 1)
    )
    return min(1.0, 2 * sum(map(math.exp, terms)))
