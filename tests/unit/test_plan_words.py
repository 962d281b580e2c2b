"""What a plan is asked on the command line: numbers as people write them, and one clear sentence for others."""

from __future__ import annotations

import pytest

from dbinfer.base.errors import UsageError
from dbinfer.cli.plan import count_text, time_text
from dbinfer.plan import PlanOptions, count, hours


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("50M", 50e6),
        ("1.5k", 1500),
        ("2000000", 2e6),
        ("3G", 3e9),
        ("1b", 1e9),
        (" 7 ", 7),
        (".5M", 5e5),
        ("1e6", 1e6),
        ("2.5E6", 2.5e6),
        ("1e3k", 1e6),
        (".5e-1M", 5e4),
        ("2t", 2e12),
    ],
)
def test_counts(text: str, number: float) -> None:
    assert count("images", text) == number


@pytest.mark.parametrize(
    "text", ["", "0", "0M", "-5", "50 Mio", "e6", "1e", "1e-999", "M", "1,5k", "nan", "inf", "五"]
)
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(UsageError, match=r"--images is .*must be a number above 0"):
        count("images", text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("6", 6), ("6h", 6), ("90m", 1.5), ("90min", 1.5), ("36s", 0.01), ("1.5H", 1.5), ("1e1", 10)],
)
def test_hours(text: str, number: float) -> None:
    assert hours("hours", text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "0", "-6", "6d", "six", "6:30", "1e"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match=r"--hours is .*must be a time above 0"):
        hours("hours", text)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"images": 0.0}, "images is 0, but must be greater than 0"),
        ({"images": -1.0}, "images is -1"),
        ({"images": float("nan")}, "images is nan"),
        ({"images": 1e30}, "images is 1e+30, but must be greater than 0 and at most 1e+15"),
        ({"images": float("inf")}, "images is inf"),
        ({"images": 1.0, "hours": -6.0}, "hours is -6"),
        ({"images": 1.0, "hours": 25.0}, "hours is 25, but must be at most 24"),
        ({"images": 1.0, "host_count": 0}, "host_count is 0"),
        ({"images": 1.0, "host_count": 2, "hours": 2.0}, "hours and host_count are both given"),
        (
            {"images": 1.0, "host_count": 10**8},
            "host_count is 1e+08, but must be greater than 0 and at most 1e+07",
        ),
        ({"images": 1.0, "cores": 0}, "cores is 0"),
        ({"images": 1.0, "cores": 10**9}, "cores is 1e+09, but must be greater than 0 and at most 10000"),
        ({"images": 1.0, "segments": -4}, "segments is -4"),
        ({"images": 1.0, "kilobytes": 0.0}, "kilobytes is 0"),
        ({"images": 1.0, "column": "img"}, "a column is given, but no table"),
        ({"table": "t", "kilobytes": 5.0}, "table and kilobytes are both given"),
        ({"images": 1.0, "table": "t", "hours": 25.0}, "hours is 25, but must be at most 24"),
        ({}, "neither images nor a table is given"),
    ],
)
def test_options_that_make_no_sense(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        PlanOptions(**values)  # type: ignore[arg-type]
    assert words in raised.value.message


def test_rows_of_a_table_are_of_no_day() -> None:
    assert PlanOptions(table="t", hours=72.0).hours == 72


def test_numbers_as_people_read_them() -> None:
    assert [count_text(n) for n in (5e7, 1500, 12, 2.5e9, 1e15)] == ["50M", "1.5k", "12", "2.5G", "1000T"]
    found = [time_text(h) for h in (6, 1, 1.5, 0.5, 0.001, 72)]
    assert found == ["6 hours", "1 hour", "1.5 hours", "30 minutes", "3.6 seconds", "3 days"]
