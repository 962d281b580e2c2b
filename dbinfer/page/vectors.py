"""A map of embeddings: their two directions of greatest variance, and which images can be shown on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dbinfer.errors import DataError
from dbinfer.page.rows import Key, Row

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
