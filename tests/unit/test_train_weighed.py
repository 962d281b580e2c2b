"""How sure it is that one version is better than another, from the measure of each image."""

from __future__ import annotations

import math

import pytest

from dbinfer.train.comparison import WAYS, weighed

ACCURACY, ERROR, F1 = (WAYS[name] for name in ("classification", "regression", "multilabel"))


def pairs(both: int, only_new: int, only_old: int, none: int) -> list[tuple[float, float]]:
    return [(1.0, 1.0)] * both + [(1.0, 0.0)] * only_new + [(0.0, 1.0)] * only_old + [(0.0, 0.0)] * none


def test_mcnemar() -> None:
    """A coin that falls 40 times."""
    found = weighed("digits@2", "digits@1", ACCURACY, pairs(930, 31, 9, 30))
    assert (found.new, found.old, found.new_better, found.old_better) == (0.961, 0.939, 31, 9)
    chance = 2 * sum(math.comb(40, heads) for heads in range(10)) / 2**40
    assert found.confidence == pytest.approx(1 - chance, abs=1e-6)
    assert found.verdict == (
        "Of 1000 images digits@2 gets right 96.1 %, the active digits@1 93.9 %; of 40 images that only one gets right, "
        "digits@2 has 31: better with 99.9 % confidence (McNemar)."
    )


def test_what_may_be_chance() -> None:
    for answers, end in [
        (pairs(90, 4, 3, 3), "that may be chance, 0.0 % confidence (McNemar)."),
        (pairs(90, 2, 8, 0), "that may be chance, 89.0 % confidence (McNemar)."),
        (pairs(90, 0, 8, 2), "worse with 99.2 % confidence (McNemar)."),
        (pairs(9, 0, 0, 1), "that may be chance, 0.0 % confidence (McNemar)."),
    ]:
        assert weighed("a@2", "a@1", ACCURACY, answers).verdict.endswith(end)


def test_bootstrap() -> None:
    """Errors are better when they are small, F1 when it is large; who is always better is surely better."""
    values = [(0.1 + number % 7 / 100, 0.2 + number % 5 / 100) for number in range(50)]
    less, more = (weighed("a@2", "a@1", way, values) for way in (ERROR, F1))
    assert (less.new_better, less.old_better) == (50, 0)
    assert less.verdict.endswith(
        "on 50 images, a@1 on 0: better with more than 99.9 % confidence (bootstrap)."
    )
    assert more.verdict.endswith("worse with more than 99.9 % confidence (bootstrap).")
    even = [(0.1, 0.2), (0.2, 0.1)] * 25
    assert weighed("a@2", "a@1", ERROR, even).confidence < 0.5
    assert weighed("a@2", "a@1", ERROR, [(0.1, 0.1)] * 9).confidence == 0
