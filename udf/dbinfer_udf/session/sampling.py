"""How many rows of which stratum to score next for an estimate of a whole table, and what those scored so far say.

Stratified sampling without replacement (Cochran, Sampling Techniques, 1977, chapters 5 and 5A), in rounds. Each round
spreads its rows as Neyman's allocation wants it by the variances seen so far; the last one has made the interval as
narrow as was asked for (Chow and Robbins 1965). Only the standard library: nothing here is more than a few sums.

Three things would make such an estimate lie. A stratum that has shown no variance does not have none, so each borrows
some from all. Rows that decide how many more of their stratum are taken pull its mean towards what stops the sampling,
so a stratum has two halves, made by chance, and each decides for the other. And a variance that few rows tell may be
too small, so the interval is Student's.

A mean is that of the rows with a number. How many of each stratum have one is a matter of chance, too, so its variance
is that of a ratio (Cochran, chapter 6): of each row's distance from the mean, which is 0 where there is no number.
Where a condition decides which rows have one, Neyman's allocation by it is ABae's (Kang et al. 2021).
"""

from __future__ import annotations

import json
import math
from statistics import NormalDist

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Tuple

PILOT = 200  # rows of the first round, of each group
LEAST = 6  # of them in each half of a stratum
GROWTH = 3  # a round brings the rows to at most so many times those before it: the first variances are rough
SLOWEST = 1.05  # and to at least so many
EVENTS = 0.5  # of the rarer answer, and
ROWS = 6.0  # of numbers, that each stratum borrows from all
NUMBERS = 30  # that a mean needs at least: fewer do not tell their variance


class Half:
    """Half of a stratum's rows, by chance, and what those taken so far have answered.

    Attributes:
        place: of its cell.
        rows: of the table.
        taken: rows of the sample.
        total, squares: sums of the answers and of their squares.
    """

    __slots__ = ("place", "rows", "squares", "taken", "total")

    def __init__(self, place: int, rows: float, taken: float, total: float, squares: float) -> None:
        self.place, self.rows, self.taken, self.total, self.squares = place, rows, taken, total, squares

    @property
    def mean(self) -> float:
        """The mean of the answers."""
        return self.total / self.taken

    def scatter(self) -> float:
        """Return the sum of squared deviations from the mean."""
        return max(0.0, self.squares - self.total * self.mean)


class Sample:
    """A stratified sample of one group's rows.

    Args:
        strata: their halves, of each of which rows were taken.
        share: answers are 0 or 1.
        confidence: that the truth lies within the interval.
        known: rows that have an answer.
    """

    def __init__(
        self, strata: Sequence[Sequence[Half]], share: bool, confidence: float, known: float
    ) -> None:
        self._strata, self._share, self._known = strata, share, known
        self._halves = [half for halves in strata for half in halves]
        self._rows = sum(half.rows for half in self._halves)
        self._taken = sum(half.taken for half in self._halves)
        self.mean = sum(half.rows * half.mean for half in self._halves) / self._rows
        self._common = self._usual_variance()
        self._z = self._quantile(confidence)
        self.interval = self._interval()

    def _usual_variance(self) -> float:
        """Return the variance that a stratum is taken to have before its own rows say more."""
        if self._share:
            rate = (self.mean * self._taken + 1) / (self._taken + 2)
            return rate * (1 - rate)
        free = self._taken - len(self._halves)
        return sum(half.scatter() for half in self._halves) / free if free > 0 else 0.0

    def _quantile(self, confidence: float) -> float:
        """Return that of Student's distribution (the first terms of its expansion by Cornish and Fisher)."""
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        total = sum(half.total for half in self._halves)
        # a rare answer tells the variance by how often it was seen
        known = (min(total, self._taken - total) + 1) if self._share else self._known - len(self._halves)
        return z + (z**3 + z) / (4 * max(1.0, known))

    def _variance(self, halves: Sequence[Half]) -> float:
        """Return the variance of one row, by these halves of a stratum."""
        taken = sum(half.taken for half in halves)
        if not self._share:
            scatter = sum(half.scatter() for half in halves)
            # so many with a number: where few rows have one, none seen is no evidence either
            borrowed = ROWS * self._taken / self._known
            return (scatter + borrowed * self._common) / (taken - len(halves) + borrowed)
        # of the rarer answer: 50 rows without one are no evidence that one in 200 is too many
        total = sum(half.total for half in halves)
        usual = (1 - math.sqrt(1 - 4 * self._common)) / 2
        rate = (min(total, taken - total) + EVENTS) / (taken + EVENTS / usual)
        return rate * (1 - rate)

    def _interval(self) -> Tuple[float, float]:
        """Return the bounds of the mean of all rows: Wilson's for a share, else those of Student's distribution."""
        z = self._z
        variance = sum(
            (half.rows / self._rows) ** 2 * max(0.0, 1 - half.taken / half.rows) * own / half.taken
            for halves in self._strata
            for own in [self._variance(halves)]
            for half in halves
        )
        if not self._share or variance == 0:
            half = z * math.sqrt(variance)
            return self.mean - half, self.mean + half
        # a simple random sample of so many rows would say as much
        worth = self._common / variance
        middle = (self.mean + z * z / (2 * worth)) / (1 + z * z / worth)
        half = z / (1 + z * z / worth) * math.sqrt(self._common / worth + (z / (2 * worth)) ** 2)
        return max(0.0, min(self.mean, middle - half)), min(1.0, max(self.mean, middle + half))

    def half_width(self) -> float:
        """Return half of the interval's width."""
        low, high = self.interval
        return (high - low) / 2

    def needed(self, within: float) -> Dict[int, float]:
        """Return how many rows of each half give an interval of +- `within`, by what is known now."""
        # the other half decides; a stratum of one row has no other
        own = [self._variance([other]) for halves in self._strata for other in reversed(halves)]
        weights = [half.rows / self._rows * math.sqrt(one) for half, one in zip(self._halves, own)]
        correction = sum(half.rows * one for half, one in zip(self._halves, own)) / self._rows**2
        total = sum(weights) ** 2 / ((within / self._z) ** 2 + correction)
        return {half.place: total * one / (sum(weights) or 1) for half, one in zip(self._halves, weights)}


class Group:
    """The rows of one group, and what is known of them.

    Args:
        cells: of each half of each stratum: stratum, rows, taken, known (with an answer), total, squares, and upto, the
            part of its rows that was to be taken.
        asked: share, within and confidence.
    """

    def __init__(self, cells: Sequence[Dict[str, Any]], asked: Dict[str, Any]) -> None:
        self._cells, self._share, self._within = cells, asked["share"], asked["within"]
        self._rows, self._taken = sum(cell["rows"] for cell in cells), sum(cell["taken"] for cell in cells)
        self._known = sum(cell["known"] for cell in cells)
        self._least = self._most = None
        # what is sampled, from where, in which unit: a share as it is, of numbers the distance from their mean
        self._origin, self._unit = 0.0, 1.0
        if all(cell["taken"] for cell in cells) and any(cell["known"] for cell in cells):
            if not self._share:
                self._unit = 1 / self._mean("known")
                self._origin = self._mean("total") * self._unit
            self._least = self._sample(0, asked["confidence"])
            # rows without an answer may all be true
            self._most = self._sample(1, asked["confidence"]) if self._share else self._least

    def _mean(self, key: str) -> float:
        """Return the mean of a sum over all rows."""
        return float(sum(cell["rows"] * cell[key] / cell["taken"] for cell in self._cells) / self._rows)

    def _sample(self, unknown: int, confidence: float) -> Sample:
        """Return the sample in which rows without an answer have this one; of numbers, that of their distances."""
        strata: Dict[int, List[Half]] = {}
        for place, cell in enumerate(self._cells):
            more = unknown * (cell["taken"] - cell["known"])
            total = cell["total"] - self._origin * cell["known"]
            squares = cell["squares"] - self._origin * (cell["total"] + total)
            half = Half(place, cell["rows"], cell["taken"], total + more, squares + more)
            strata.setdefault(cell["stratum"], []).append(half)
        return Sample(list(strata.values()), self._share, confidence, self._known)

    def go_on(self) -> bool:
        """Let each cell say which part of its rows comes next, from `from` up to `upto`; return whether any does."""
        for cell in self._cells:
            cell["from"] = cell["upto"]
        for cell, more in zip(self._cells, self._wanted()):
            cell["upto"] = min(1.0, cell["upto"] + more / cell["rows"])
        return any(cell["upto"] > cell["from"] for cell in self._cells)

    def _wanted(self) -> List[float]:
        """Return how many rows more each cell should give."""
        if self._least is None or self._most is None:
            # nothing yet; later on, only where chance has given a cell none
            some = [0 if cell["taken"] else PILOT * cell["rows"] / self._rows for cell in self._cells]
            return [max(LEAST, one) if one else 0.0 for one in some] if any(some) else self._at_least(GROWTH)
        sample = max(self._least, self._most, key=Sample.half_width)
        few = not self._share and self._known < NUMBERS
        if self._taken >= self._rows or (not few and sample.half_width() * self._unit <= self._within):
            return [0.0] * len(self._cells)
        if few:
            return self._at_least(GROWTH)
        needed = sample.needed(self._within / self._unit)
        more = [max(0.0, needed.get(place, 0.0) - cell["taken"]) for place, cell in enumerate(self._cells)]
        if sum(more) < (SLOWEST - 1) * self._taken:
            return self._at_least(SLOWEST)
        return [one * min(1.0, (GROWTH - 1) * self._taken / sum(more)) for one in more]

    def _at_least(self, times: float) -> List[float]:
        return [(times - 1) * cell["taken"] + 1 for cell in self._cells]

    def found(self) -> Dict[str, Any]:
        """Return estimate, low, high, unknown (the share without an answer), scored and rows."""
        found = {"part": self._cells[0]["part"], "scored": self._taken, "rows": self._rows}
        if not all(cell["taken"] for cell in self._cells):
            return found
        known = self._mean("known")
        found["unknown"] = 1 - known
        if self._least is None or self._most is None:
            return found
        estimate = self._least.mean / known if self._share else self._origin
        low, high = (
            self._origin + self._unit * bound for bound in (self._least.interval[0], self._most.interval[1])
        )
        return dict(found, estimate=estimate, low=low, high=high)


def next_round(asked: str) -> str:
    """Return what to score next, and what is known now, as JSON: cells, groups, and whether to go on.

    Args:
        asked: JSON: what is known: share, within, confidence, and cells (see Group; with part, the group's name, and
            half); and what the last round has found in some of them: taken, known, total and squares.
    """
    state, found = json.loads(asked)
    cells = {(cell["part"], cell["stratum"], cell["half"]): cell for cell in state["cells"]}
    for new in found:
        cell = cells[new["part"], new["stratum"], new["half"]]
        for key in ("taken", "known", "total", "squares"):
            cell[key] += new[key]
    parts: Dict[Any, List[Dict[str, Any]]] = {}
    for cell in state["cells"]:
        parts.setdefault(cell["part"], []).append(cell)
    groups = [Group(of_part, state) for of_part in parts.values()]
    state["groups"] = [group.found() for group in groups]
    # all of them, because each sets its cells
    state["more"] = max([group.go_on() for group in groups], default=False)
    return json.dumps(state)
