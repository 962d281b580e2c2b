"""What doctor says of uneven tables and of hosts with more threads than cores."""

from __future__ import annotations

import pytest

from dbinfer.balance.crowding import Host
from dbinfer.balance.crowding import check as crowding
from dbinfer.balance.skew import Spread
from dbinfer.balance.skew import check as skew

MB = 1_000_000


def spread(*megabytes: float, table: str = "public.images") -> Spread:
    return Spread(table, {segment: int(size * MB) for segment, size in enumerate(megabytes)})


def test_a_table_on_one_segment_is_named_with_its_cure() -> None:
    found = skew([spread(0, 60, 0), spread(20, 20, 20, table="public.even")])
    assert not found.ok
    assert found.detail == "public.images: segment 1 has 100% of 60.0 MB, 3.0 times its share"
    assert found.hint.startswith("ALTER TABLE public.images SET DISTRIBUTED BY")


@pytest.mark.parametrize(
    "sizes",
    [
        (20, 22, 18),  # as hashing leaves it
        (0.1, 3.0, 0.1),  # uneven, but scored in a moment
        (1400, 1000, 1000),  # under the threshold of 1.5
        (0, 0, 0),
    ],
)
def test_tables_that_cost_nothing_are_even(sizes: tuple[float, ...]) -> None:
    found = skew([spread(*sizes)])
    assert (found.ok, found.detail, found.hint) == (True, "1 tables of images, none of them uneven", "")


def test_the_worst_come_first_and_the_rest_are_counted() -> None:
    found = skew([spread(100 + number, 10, 10, table=f"t{number}") for number in range(5)])
    assert found.detail.startswith("t4: segment 0")
    assert found.detail.endswith("; and 2 more")
    assert "ALTER TABLE t4" in found.hint


@pytest.mark.parametrize(
    ("processes", "threads", "cores", "ok", "named"),
    [
        (3, 2, 8, True, False),
        (4, 2, 8, True, False),
        (3, 1, 2, True, True),  # more than cores: named, not wrong
        (16, 1, 8, True, True),
        (17, 1, 8, False, True),
        (16, 1, 2, False, True),
        (3, 8, 8, False, True),
    ],
)
def test_threads_are_counted_against_cores(
    processes: int, threads: int, cores: int, ok: bool, named: bool
) -> None:
    found = crowding([Host("sdw1", processes, threads, cores), Host("sdw2", 1, 1, 8)], "have fewer", {})
    assert (found.ok, found.hint) == (ok, "have fewer" if named else "")
    assert found.detail.startswith(f"sdw1: {processes} processes score at once, ")
    assert "sdw2" not in found.detail


def test_the_engine_keeps_within_the_cores() -> None:
    found = crowding([Host("sdw1", 16, 1, 2)], "have fewer", {"isolation": "always"})
    assert (found.ok, found.hint) == (True, "")
    assert "the engine keeps within the cores" in found.detail
