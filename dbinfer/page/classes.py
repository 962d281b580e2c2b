"""Figures of a classification: counts, scores, what was taken for what, and how true the scores are."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dbinfer.errors import DataError
from dbinfer.page.rows import Key, Row

BINS, CALIBRATION_BINS = 20, 10
# More classes than a table can show on a page; the rest become one
SHOWN_CLASSES = 20
OTHERS = "(others)"


class Answer(NamedTuple):
    """What a version said of one image, by the names of classes; truth is None without a label."""

    key: Key
    name: str
    score: float
    truth: str | None

    @property
    def wrong(self) -> bool:
        """Return whether the label says something else."""
        return self.truth is not None and self.truth != self.name


class Bin(NamedTuple):
    """Values from `low` to `high`, the step `place` of all: how many, how many of them wrong, their mean."""

    place: int
    low: float
    high: float
    number: int
    wrong: int = 0
    mean: float = 0.0

    @property
    def right(self) -> float:
        """Return the share that is right."""
        return 1 - self.wrong / self.number


class Count(NamedTuple):
    """How often a class was found, and how often it is the label (None without labels)."""

    name: str
    found: int
    true: int | None


@dataclass
class Cell:
    """Images of one class that were taken for one class."""

    truth: str
    name: str
    keys: list[Key] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Return whether that is what they are."""
        return self.truth == self.name != OTHERS


@dataclass(frozen=True)
class Calibration:
    """Scores beside the share of right answers; `error` is the mean distance, weighted by the answers (ECE)."""

    bins: tuple[Bin, ...]
    error: float


def answers(rows: Iterable[Row], labels: Sequence[str]) -> list[Answer]:
    """Return the results by the names of their classes; rows without a result are left out.

    A label may be a class's name or its number.

    Raises:
        DataError: no label is a class.
    """
    said = [row for row in rows if row.result[0] is not None]
    known = set(labels) | {_name(row, labels) for row in said}
    numbers = dict(enumerate(labels)) | {row.result[0]: _name(row, labels) for row in said}
    names = {str(number): name for number, name in numbers.items()} | {name: name for name in known}
    given = {row.label for row in said if row.label}
    if given and not given & set(names):
        some = ", ".join(repr(label) for label in sorted(given)[:3])
        raise DataError(
            f"no label of the images is a class of the model: {some}",
            "Name the column with the true class with --label, or leave labels out with --label ''.",
        )
    truths = {label: names.get(label, label) for label in given}
    return [
        Answer(row.key, _name(row, labels), _score(row), truths.get(row.label) if row.label else None)
        for row in said
    ]


def _name(row: Row, labels: Sequence[str]) -> str:
    number, label = row.result[:2]
    if label is not None:
        return str(label)
    return labels[number] if 0 <= number < len(labels) else str(number)


def _score(row: Row) -> float:
    return math.nan if row.result[2] is None else float(row.result[2])


def accuracy(found: Sequence[Answer]) -> float | None:
    """Return the share of labelled answers that are right; None without labels."""
    labelled = [answer for answer in found if answer.truth is not None]
    return 1 - sum(answer.wrong for answer in labelled) / len(labelled) if labelled else None


def counts(found: Sequence[Answer], labels: Sequence[str]) -> list[Count]:
    """Return how often each class was found, in the model's order, else the most frequent first."""
    names = Counter(answer.name for answer in found)
    truths = Counter(answer.truth for answer in found if answer.truth is not None)
    order = list(labels) if 0 < len(labels) <= SHOWN_CLASSES else []
    order += [name for name, _ in (names + truths).most_common() if name not in order]
    return [Count(name, names[name], truths[name] if truths else None) for name in order]


def histogram(values: Sequence[float], wrong: Sequence[bool] = (), bins: int = BINS) -> list[Bin]:
    """Return how many values lie in each of equal steps: of 0 to 1 where all do, else of what there is.

    Args:
        wrong: says for each value whether it is one of a wrong answer.
    """
    numbers = np.array(values, float)
    use = np.isfinite(numbers)
    bad = np.array(wrong or [False] * len(numbers), bool)[use]
    numbers = numbers[use]
    if not len(numbers):
        return []
    low, high = float(numbers.min()), float(numbers.max())
    low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high if high > low else low + 1)
    found, edges = np.histogram(numbers, bins, (low, high))
    lost, _ = np.histogram(numbers[bad], bins, (low, high))
    return [
        Bin(n, float(edges[n]), float(edges[n + 1]), int(found[n]), int(lost[n])) for n in range(len(found))
    ]


def peaks(bins: Sequence[Bin]) -> set[int]:
    """Return the places of bins whose numbers have room above them on a phone: no bin within two steps is higher."""
    return {
        one.place
        for one in bins
        if all(
            (other.number, -other.place) <= (one.number, -one.place)
            for other in bins
            if abs(other.place - one.place) <= 2
        )
    }


def confusion(found: Sequence[Answer], labels: Sequence[str]) -> list[list[Cell]]:
    """Return a line for each true class with a cell for each class found; beyond 20 classes the rest is one."""
    labelled = [answer for answer in found if answer.truth is not None]
    names = [count.name for count in counts(labelled, labels)]
    if len(names) > SHOWN_CLASSES:
        mistakes = Counter(name for a in labelled if a.wrong for name in (a.truth, a.name))
        ranked = dict.fromkeys([*(name for name, _ in mistakes.most_common()), *names])
        shown = set(list(ranked)[: SHOWN_CLASSES - 1])
        names = [*(name for name in names if name in shown), OTHERS]
    keys: defaultdict[tuple[str, str], list[Key]] = defaultdict(list)
    place = {name: name for name in names}
    for answer in labelled:
        keys[place.get(str(answer.truth), OTHERS), place.get(answer.name, OTHERS)].append(answer.key)
    return [[Cell(truth, name, keys[truth, name]) for name in names] for truth in names]


def calibration(found: Sequence[Answer]) -> Calibration | None:
    """Return scores beside the share of right answers; None without labels, or where scores are no probabilities.

    The error is the expected calibration error of Naeini et al. (AAAI 2015), with ten bins of one width.
    """
    labelled = [a for a in found if a.truth is not None and math.isfinite(a.score)]
    if not labelled or not all(0 <= answer.score <= 1 for answer in labelled):
        return None
    scores = np.array([answer.score for answer in labelled])
    wrong = np.array([answer.wrong for answer in labelled])
    place = np.minimum((scores * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    bins = []
    for number in sorted(set(place.tolist())):
        inside = place == number
        edges = number / CALIBRATION_BINS, (number + 1) / CALIBRATION_BINS
        mean = float(scores[inside].mean())
        bins.append(Bin(number, *edges, int(inside.sum()), int(wrong[inside].sum()), mean))
    error = sum(one.number * abs(one.mean - one.right) for one in bins) / len(labelled)
    return Calibration(tuple(bins), error)
