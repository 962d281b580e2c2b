"""How many rows a batch of a job has, and how often one that watches looks for rows below the highest key."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from dbinfer.score import workers
from dbinfer.score.workers import EDGE, FIRST, MOST, Feeder, Pace


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


def test_a_long_time_of_scoring_does_not_put_off_the_next_look_among_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, lows = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(workers, "sql", MagicMock())

    def takes(seconds: float) -> None:
        clock.now += seconds

    def look(low: Any, *_: Any) -> None:
        lows.append(low)
        takes(0.01)

    options = SimpleNamespace(retry_errors=False, follow=False, exact=False, watch=1.0, channel="images")
    plan: Any = SimpleNamespace(
        boundary=look, ordered=False, exact=False, queue=None, platform=MagicMock(), options=options
    )
    conn = MagicMock()
    # nothing at first, then each pass finds a row and looks once more
    conn.cursor().__enter__().fetchone.side_effect = [None] + [(1, "9"), None] * 20
    monkeypatch.setattr(Feeder, "_wait", lambda _, seconds: takes(seconds))
    watching = Feeder(conn, plan, Pace(None, 0, 1), lambda: False, settle=lambda: takes(100))
    assert len(list(islice(watching.batches(), 10))) == 10
    assert lows[1:] == ([None, ("9",)] * 10)[:-1]
