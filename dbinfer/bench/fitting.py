"""Coefficients from measured steps and statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from dbinfer.bench import networks
from dbinfer.bench.plan_cases import STEPS
from dbinfer.bench.point import Point
from dbinfer.bench.steps import Crew, Job, Steps, best
from dbinfer.cost import Coefficients, Network, Picture
from dbinfer.cost.fit import Sample, fit
from dbinfer.cost.row import row_seconds
from dbinfer.cost.terms import FINISH, GROUPS, row_terms, terms

SECONDS = 0.4


@dataclass(frozen=True)
class Timed:
    """The steps of one network on one kind of image.

    Attributes:
        alone, together: seconds of each step, in one process and in as many as cores.
    """

    network: str
    picture: Picture
    alone: Steps
    together: Steps


class StepRounds:
    """Times the steps of all networks and images of STEPS, round by round."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._files = [kind.files() for _, kind in STEPS]
        self._jobs = [
            Job(networks.model_files(name, "f32"), images, SECONDS)
            for (name, _), images in zip(STEPS, self._files, strict=True)
        ]
        self._taken: list[list[tuple[Steps, Steps]]] = []

    def round(self) -> None:
        """Time each of them once."""
        self._taken.append([self._crew.steps(job) for job in self._jobs])

    def best(self) -> list[Timed]:
        """Return the best round of each."""
        return [
            Timed(name, kind.picture(images), *best(taken))
            for (name, kind), images, taken in zip(
                STEPS, self._files, zip(*self._taken, strict=True), strict=True
            )
        ]


def coefficients(
    timed: Sequence[Timed], known: Mapping[str, Network], fitted: Sequence[Point], start: dict[str, float]
) -> Coefficients:
    """Return what fits the steps, and then the statements of one process.

    Args:
        known: the networks of `timed`.
    """
    seconds: dict[str, float] = {}
    crowded: dict[str, float] = {}
    for group in GROUPS[:-1]:
        # a result costs what it costs in the shortest row, where it counts most
        wholes = [sum(one.alone.values()) for one in timed] if group == FINISH else []
        samples = [(terms(one.picture, known[one.network])[group], one.alone[group]) for one in timed]
        seconds |= fit(samples, wholes)
        # at least one: where others work nothing gets faster
        crowded[group] = max(1.0, round(median(one.together[group] / one.alone[group] for one in timed), 3))
    without = Coefficients({}, seconds, crowded, start, {})
    seconds |= fit(*_rows(without, fitted))
    return replace(without, seconds=seconds, models=dict(known))


def _rows(without: Coefficients, fitted: Sequence[Point]) -> tuple[list[Sample], list[float]]:
    """Return what a row takes beyond its steps, and the whole that its error counts against."""
    samples: list[Sample] = []
    wholes = []
    for point in fitted:
        whole = point.seconds / sum(point.rows)
        rest = whole - row_seconds(without, (point.picture,), point.network)
        samples.append((row_terms(point.picture, point.network), rest))
        wholes.append(whole)
    return samples, wholes
