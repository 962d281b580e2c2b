"""How many rows a batch of a job has."""

from __future__ import annotations

from dbinfer.score.feeder import EDGE, FIRST, MOST, Pace


def test_batches_grow_to_two_seconds_and_shrink_towards_the_end() -> None:
    pace, sizes, ahead = Pace(None, 0, 100_000, 2), [], 100_000
    while ahead > 0:
        sizes.append(min(pace.size, ahead))
        pace.fed(sizes[-1])
        ahead -= sizes[-1]
        pace.measured(sizes[-1], sizes[-1] / 5000)
    largest = sizes.index(max(sizes))
    assert sizes[0] == FIRST
    assert sizes[: largest + 1] == sorted(sizes[: largest + 1])
    # five thousand rows a second, two seconds a batch
    assert 9_000 < sizes[largest] <= 10_000
    assert sizes[largest:] == sorted(sizes[largest:], reverse=True)
    assert max(sizes[-2:]) <= EDGE


def test_without_an_index_each_batch_has_its_part_of_the_table() -> None:
    pace = Pace(None, 2500, 100_000, 2)
    pace.fed(99_000)
    assert pace.size == 2500


def test_rows_that_came_meanwhile_come_in_whole_batches() -> None:
    pace = Pace(None, 0, 1000, 2)
    pace.fed(1000)
    pace.measured(20_000, 0.1)
    assert pace.size == MOST
