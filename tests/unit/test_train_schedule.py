"""The learning rate over the steps of a run."""

from __future__ import annotations

import pytest

from dbinfer.train.plan import Schedule


def test_warm_up_from_one_ranks_rate_to_that_of_all() -> None:
    rates = [Schedule(lr=0.1, ranks=4, warmup=6, total=20).at(step) for step in range(20)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[3] == pytest.approx(0.25)
    assert rates[6:] == pytest.approx([0.4] * 14)
    assert rates == sorted(rates)


def test_one_rank_does_not_warm_up() -> None:
    assert Schedule(lr=0.1, ranks=1, warmup=6, total=20).at(0) == pytest.approx(0.1)


def test_cosine_falls_from_the_end_of_the_warm_up_to_nearly_nothing() -> None:
    schedule = Schedule(lr=0.1, ranks=2, warmup=4, total=24, kind="cosine")
    assert schedule.at(4) == pytest.approx(0.2)
    assert schedule.at(14) == pytest.approx(0.1)
    assert 0 < schedule.at(23) < 0.01
    assert schedule.at(24) == pytest.approx(0)
