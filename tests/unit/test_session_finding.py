"""A search reaches the recall and precision that it promises, whatever the proxy, and costs less where that is good."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drawn_tables import Found, find
from scipy.stats import betabinom, hypergeom
from variants import wide

from dbinfer_udf.session.finding import Test as Bound
from dbinfer_udf.session.finding import next_round

ROWS = 100_000
RUNS = 200 if os.environ.get("LONG") else 6
PROXIES: dict[str, Callable[[Any, np.ndarray], np.ndarray]] = {
    "good": lambda rng, truth: 3 * truth + rng.normal(size=len(truth)),
    "very good": lambda rng, truth: 4.5 * truth + rng.normal(size=len(truth)),
    "useless": lambda rng, truth: rng.normal(size=len(truth)),
    # the other way round for most, and something else for a tenth
    "misleading": lambda rng, truth: (
        rng.normal(size=len(truth)) - 0.7 * truth + 3 * (rng.random(len(truth)) < 0.1)
    ),
    # a good one that knows nothing of one true row in 17
    "blind": lambda rng, truth: (
        np.where(rng.random(len(truth)) < 0.06, -9, 3 * truth) + rng.normal(size=len(truth))
    ),
    "none": lambda rng, truth: np.zeros(len(truth)),
}


def runs(rate: float, proxy: str, precision: float) -> list[Found]:
    found = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        truth = rng.random(ROWS) < rate
        found.append(find(rng, truth, PROXIES[proxy](rng, truth), 0.95, precision))
    return found


# rate, proxy, precision, and the part of the rows that may be scored, on average
CASES = [
    (0.05, "good", 1, 0.34),
    (0.05, "useless", 1, 1),
    (0.05, "blind", 1, 1),
    (0.5, "good", 0.9, 0.15),
    *wide(
        (0.05, "very good", 1, 0.15),
        (0.05, "misleading", 1, 1),
        (0.05, "none", 1, 1),
        (0.5, "good", 1, 0.65),
        (0.5, "useless", 0.9, 1),
        (0.5, "blind", 0.9, 1),
        (0.005, "good", 1, 0.65),
        (0.005, "very good", 1, 0.45),
        (0.005, "useless", 1, 1),
        (0.005, "blind", 1, 1),
    ),
]


@pytest.mark.parametrize(("rate", "proxy", "precision", "cost"), CASES)
def test_what_is_promised_is_reached(rate: float, proxy: str, precision: float, cost: float) -> None:
    """At a confidence of 95 %: 190 of 200 runs, and of fewer as many as chance allows."""
    found = runs(rate, proxy, precision)
    reached = sum(one.recall >= 0.95 and one.precision >= precision for one in found)
    scored, most = np.mean([one.scored for one in found]), max(one.scored for one in found)
    print(
        f"{rate} {proxy}, precision {precision}: {reached} of {RUNS} reach it, "
        f"recall {np.mean([one.recall for one in found]):.3f}, "
        f"precision {np.mean([one.precision for one in found]):.3f}, "
        f"scored {scored:.3f}, at most {most:.3f}"
    )
    assert reached >= 0.95 * RUNS - 1
    assert scored < cost
    assert all(one.explained["recall"] >= 0.95 and one.explained["precision"] >= precision for one in found)


def test_a_useless_proxy_costs_more() -> None:
    assert np.mean([one.scored for one in runs(0.05, "useless", 1)]) > 0.9


def test_the_bound_is_the_ratio_that_it_is_said_to_be() -> None:
    """A sample's likelihood with a beta prior, against that with so many wrong rows (scipy)."""
    for taken, wrong, left in ((50, 0, 40), (50, 3, 60), (200, 10, 45), (400, 0, 8)):
        test = Bound(1000, (1.0, 99.0), 0.05, taken, wrong)
        ratio = betabinom.logpmf(wrong, taken, 1, 99) - hypergeom.logpmf(wrong, 1000, left + wrong, taken)
        assert test.excludes(left) == (ratio + np.log(0.05) >= 0)


@pytest.mark.parametrize("wrong", [1, 20, 200])
def test_the_bound_holds_at_any_moment(wrong: int) -> None:
    """The worst moment of each of many samples, for priors that are right and that are not."""
    rng, rows = np.random.default_rng(1), 1000
    for expected in (0.001, 0.02, 0.2):
        missed = 0
        for _ in range(300):
            seen = np.cumsum(rng.permutation(rows) < wrong)
            missed += any(
                Bound(rows, (1.0, 1 / expected - 1), 0.05, taken, float(seen[taken - 1])).excludes(
                    wrong - seen[taken - 1]
                )
                for taken in range(5, rows, 20)
            )
        assert missed / 300 < 0.05 + 4 * (0.05 * 0.95 / 300) ** 0.5


def test_few_rows_and_none() -> None:
    rng = np.random.default_rng(1)
    for rows in (0, 1, 5, 30):
        truth = np.arange(rows) % 5 == 1
        found = find(rng, truth, np.arange(rows) * 1.0 if rows else np.zeros(0), 0.95) if rows else None
        assert found is None or (found.scored == 1 and found.recall == (1 if truth.any() else 0))
    state = json.loads(
        next_round(json.dumps([{"recall": 0.9, "precision": 1, "confidence": 0.95, "cells": []}, []]))
    )
    assert not state["more"]


def test_a_recall_of_one_scores_all_that_may_fulfil_it() -> None:
    rng = np.random.default_rng(1)
    truth = rng.random(3000) < 0.1
    assert find(rng, truth, PROXIES["good"](rng, truth), 1.0).recall == 1


def test_rows_that_have_gone_end_no_search() -> None:
    """A round that finds fewer rows than there were: where all were asked for, no more are waited for."""
    state: dict[str, Any] = {
        "recall": 0.9,
        "precision": 1,
        "confidence": 0.95,
        "cells": [{"stratum": 0, "rows": 50}],
    }
    for _ in range(110):
        state = json.loads(next_round(json.dumps([state, []])))
        if not state["more"]:
            return
    raise AssertionError("goes on for ever")
