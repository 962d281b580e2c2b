"""Estimates of a table's share or mean from a sample: intervals cover the truth as often as they promise, and cost what
the normal approximation says."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from drawn_tables import by_proxy, cells, estimate
from variants import wide

ROWS = 100_000
RUNS = 1000 if os.environ.get("LONG") else 60
PROXIES: dict[str, Callable[[Any, np.ndarray], np.ndarray]] = {
    "good": lambda rng, truth: 3 * truth + rng.normal(size=len(truth)),
    "useless": lambda rng, truth: rng.normal(size=len(truth)),
    # the other way round for most, and something else for a tenth
    "misleading": lambda rng, truth: (
        rng.normal(size=len(truth)) - 0.7 * truth + 3 * (rng.random(len(truth)) < 0.1)
    ),
}


def normal_rows(rate: float, within: float) -> float:
    """How many rows the normal approximation wants, without replacement."""
    rows = 1.96**2 * rate * (1 - rate) / within**2
    return rows / (1 + rows / ROWS)


@dataclass
class Runs:
    covered: int
    rows: float
    error: float


def runs(rate: float, within: float, proxy: str) -> Runs:
    covered, rows, errors = 0, [], []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        truth = (rng.random(ROWS) < rate).astype(float)
        strata = by_proxy(PROXIES[proxy](rng, truth)) if proxy in PROXIES else np.zeros(ROWS, int)
        (found,) = estimate(cells(rng, truth, strata), within)
        covered += found["low"] <= truth.mean() <= found["high"]
        assert (found["high"] - found["low"]) / 2 <= within
        assert found["low"] <= found["estimate"] <= found["high"]
        rows.append(found["scored"])
        errors.append(found["estimate"] - truth.mean())
    return Runs(covered, float(np.mean(rows)), float(np.mean(errors)))


@pytest.mark.parametrize("proxy", ["good", "misleading", *wide("no proxy", "useless")])
@pytest.mark.parametrize(("rate", "within"), [(0.05, 0.01), *wide((0.5, 0.02), (0.005, 0.003))])
def test_intervals_cover_the_truth(rate: float, within: float, proxy: str) -> None:
    """95 % of them should; the bounds leave room for chance: four standard deviations of so many runs."""
    found, normal = runs(rate, within, proxy), normal_rows(rate, within)
    print(
        f"{rate} +-{within} {proxy}: {found.covered / RUNS:.3f} covered, {found.rows:.0f} rows, "
        f"{found.rows / normal:.2f} of the normal approximation's, bias {found.error:+.5f}"
    )
    spread = 4 * (0.95 * 0.05 / RUNS) ** 0.5
    assert 0.93 - spread < found.covered / RUNS < 0.985 + spread


@pytest.mark.wide
def test_what_an_estimate_costs() -> None:
    """Within 2 % of 100,000 rows: what the normal approximation says and 15 %, and a third of it with a good proxy."""
    normal = normal_rows(0.5, 0.02)
    assert runs(0.5, 0.02, "no proxy").rows < 1.15 * normal
    assert runs(0.5, 0.02, "good").rows < normal / 3


def test_means_of_numbers() -> None:
    covered = 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        answers = rng.gamma(2.0, 3.0, ROWS)
        answers[rng.random(ROWS) < 0.1] = np.nan
        (found,) = estimate(cells(rng, answers, np.zeros(ROWS, int)), 0.3, share=False)
        covered += found["low"] <= np.nanmean(answers) <= found["high"]
        assert abs(found["unknown"] - 0.1) < 0.06
    assert covered / RUNS > 0.93 - 4 * (0.95 * 0.05 / RUNS) ** 0.5


def test_each_group_ends_when_it_is_known() -> None:
    rng = np.random.default_rng(1)
    halves, few = (rng.random(20_000) < 0.5).astype(float), np.ones(30)
    table = cells(rng, halves, np.zeros(len(halves), int), "halves") + cells(
        rng, few, np.zeros(30, int), "few"
    )
    first, second = estimate(table, 0.05)
    assert 300 < first["scored"] < 600
    assert (second["scored"], second["low"], second["high"]) == (30, 1, 1)


def test_a_higher_confidence_costs_more_rows() -> None:
    rng = np.random.default_rng(1)
    table = cells(rng, (rng.random(ROWS) < 0.3).astype(float), np.zeros(ROWS, int))
    scored = [estimate(table, 0.02, confidence=one)[0]["scored"] for one in (0.8, 0.95, 0.99)]
    assert scored == sorted(scored)
    assert scored[2] > 2 * scored[0]
