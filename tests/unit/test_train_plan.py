"""The learning rate over the steps of a run, which rows each rank gets, and which are held out."""

from __future__ import annotations

import pytest

from dbinfer.base.errors import TrainError
from dbinfer.train.course import Schedule
from dbinfer.train.setup import check_enough, hold_out, shard


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


def test_5000_rows_over_10_ranks() -> None:
    shards = [shard(range(5000), rank, 10) for rank in range(10)]
    assert (shards[0][0], shards[0][-1]) == (0, 499)
    assert (shards[9][0], shards[9][-1]) == (4500, 4999)
    assert {len(rows) for rows in shards} == {500}


def test_the_remainder_goes_to_the_first_ranks() -> None:
    assert [list(shard(range(7), rank, 3)) for rank in range(3)] == [[0, 1, 2], [3, 4], [5, 6]]


def test_each_row_belongs_to_exactly_one_rank(subtests: pytest.Subtests) -> None:
    for count, size in [(1, 1), (9, 4), (100, 7), (3, 5)]:
        with subtests.test(count=count, size=size):
            assert [row for rank in range(size) for row in shard(range(count), rank, size)] == list(
                range(count)
            )


def test_more_ranks_than_images() -> None:
    check_enough(3, 3)
    with pytest.raises(TrainError, match="4 ranks are more than the 3 training images"):
        check_enough(3, 4)


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_held_out_rows_are_the_asked_share_and_apart(fraction: float) -> None:
    train, held = hold_out(1000, fraction)
    assert len(held) == pytest.approx(1000 * fraction, abs=3)
    assert sorted([*train, *held]) == list(range(1000))


def test_held_out_rows_have_no_period() -> None:
    """In data that repeats its 10 classes in turn, each class has held-out rows."""
    _, held = hold_out(1000, 0.1)
    assert {row % 10 for row in held} == set(range(10))


def test_nothing_is_held_out_of_nothing() -> None:
    assert hold_out(5, 0.0) == (range(5), [])
