"""Which rows each rank gets, and which are held out."""

from __future__ import annotations

import pytest

from dbinfer.base.errors import TrainError
from dbinfer.train.plan import check_enough, hold_out, shard


def test_5000_rows_over_10_ranks() -> None:
    shards = [shard(range(5000), rank, 10) for rank in range(10)]
    assert (shards[0][0], shards[0][-1]) == (0, 499)
    assert (shards[9][0], shards[9][-1]) == (4500, 4999)
    assert {len(rows) for rows in shards} == {500}


def test_the_remainder_goes_to_the_first_ranks() -> None:
    assert [list(shard(range(7), rank, 3)) for rank in range(3)] == [[0, 1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(("count", "size"), [(1, 1), (9, 4), (100, 7), (3, 5)])
def test_each_row_belongs_to_exactly_one_rank(count: int, size: int) -> None:
    assert [row for rank in range(size) for row in shard(range(count), rank, size)] == list(range(count))


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
