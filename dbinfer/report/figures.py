"""Figures of classes and embeddings: counts, scores, mistakes, calibration, a map, and where two versions differ."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dbinfer.base.errors import DataError
from dbinfer.report.tables import Key, Row

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


# A vector of 2048 numbers is 8 kB, and the map takes all of them at once
MOST = 2000
# Width and height of a picture as a share of the map's, with a gap, see templates/pieces.html
PICTURE = (0.064, 0.104)


class Point(NamedTuple):
    """One embedding on the map: x and y from 0 to 1, y downwards; whether its image is shown there."""

    key: Key
    x: float
    y: float
    label: str | None
    shown: bool


@dataclass(frozen=True)
class Map:
    """Embeddings in two dimensions.

    Attributes:
        size: of the vectors; explained: share of their variance that the map shows.
        labels: those that get a colour, the most frequent first.
    """

    points: tuple[Point, ...]
    size: int
    explained: float
    labels: tuple[str, ...]


def lay_out(rows: Sequence[Row], colours: int) -> Map | None:
    """Return the map of the embeddings (principal components); None where there are none.

    Raises:
        DataError: the embeddings differ in size.
    """
    found = [row for row in rows if row.result[0] and None not in row.result[0]]
    sizes = sorted({len(row.result[0]) for row in found})
    if len(sizes) > 1:
        raise DataError(
            f"the embeddings have {sizes[0]} to {sizes[-1]} numbers", "Show one model with --model."
        )
    found = [row for row in found if np.isfinite(row.result[0]).all()]
    if not found:
        return None
    places, explained = components(np.array([row.result[0] for row in found], np.float64))
    shown = _spread(places)
    points = tuple(
        Point(row.key, float(x), float(y), row.label, number in shown)
        for number, (row, (x, y)) in enumerate(zip(found, places, strict=True))
    )
    labels = [row.label for row in found if row.label]
    order = sorted(set(labels), key=lambda label: (-labels.count(label), label))
    return Map(points, sizes[0], explained, tuple(order[:colours]))


def components(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """Return each vector's first two principal components, scaled to 0..1, and their share of the variance."""
    centred = vectors - vectors.mean(axis=0)
    directions, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(vectors), 2))
    for n in range(min(2, len(sizes))):
        column = directions[:, n] * sizes[n]
        # A component's sign means nothing: the same data always give the same map
        column = column * (1 if column[np.abs(column).argmax()] >= 0 else -1)
        reach = column.max() - column.min()
        places[:, n] = (column - column.min()) / reach if reach > 0 else 0.5
    if len(sizes) < 2:
        places[:, 1] = 0.5
    total = float((sizes**2).sum())
    return places, float((sizes[:2] ** 2).sum() / total) if total > 0 else 1.0


def _spread(places: np.ndarray) -> set[int]:
    """Return the numbers of points whose pictures do not cover each other."""
    shown: list[int] = []
    for number, place in enumerate(places):
        apart = np.abs(places[shown] - place) > PICTURE
        if apart.any(axis=1).all():
            shown.append(number)
    return set(shown)
