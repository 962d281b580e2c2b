"""What a plan makes of a speed: hosts and hours answer each other, within the spread of such forecasts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dbinfer.base.errors import UsageError
from dbinfer.plan import SPREAD, Hosts, PlanOptions, PlanReport, Speed, Version, by_trial, forecast

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "planning.md"
VERSION = Version("net", 3, "classify", 4.0, {})
HOSTS = Hosts(2, 16, 16)
SPEED = Speed(100.0, "job", "job 7 scored 9 rows in 9 s")
OPTIONS = PlanOptions(images=50e6, hours=6.0)


def found(
    hosts: Hosts = HOSTS, version: Version = VERSION, speed: Speed = SPEED, **changes: object
) -> PlanReport:
    options = replace(OPTIONS, **changes)  # type: ignore[arg-type]
    return forecast(options.images or 0, version, hosts, speed, options)


def test_seconds_are_images_by_hosts_cores_and_speed() -> None:
    report = found(hours=None, host_count=4)
    assert report.hours * 3600 == pytest.approx(50e6 / (4 * 16 * 100))
    assert (report.images_per_second, report.images_per_second_host) == (6400, 1600)
    assert (report.model, report.source, report.hosts_between) == ("net@3", "job", (4, 4))


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"images": 5e6}, {"images": 50e6}),
        ({"hours": 12.0}, {"hours": 3.0}),
        ({"cores": 32}, {"cores": 8}),
        ({"segments": 16}, {"segments": 4}),
    ],
)
def test_what_is_more_needs_more_hosts(less: dict[str, object], more: dict[str, object]) -> None:
    assert found(**less).hosts < found(**more).hosts


def test_the_hosts_are_enough_and_one_less_is_not() -> None:
    needed = found()
    assert needed.hours <= 6
    assert found(hours=None, host_count=needed.hosts).hours == needed.hours
    assert found(hours=None, host_count=needed.hosts - 1).hours > 6
    assert found(hours=None).hosts == found(hours=24.0).hosts


@pytest.mark.parametrize("source", SPREAD)
def test_the_spread_is_that_of_the_source(source: str) -> None:
    report, spread = found(images=5e9, speed=replace(SPEED, source=source)), SPREAD[source]
    least, most = report.hosts_between
    assert most / report.hosts == pytest.approx(spread, rel=0.01)
    assert least / report.hosts == pytest.approx(1 / spread, rel=0.01)
    assert report.hours_between == pytest.approx((report.hours / spread, report.hours * spread))


@pytest.mark.parametrize(
    ("cores", "segments", "workers"),
    # two threads pay, four do not; cores that are given have a segment each
    [(16, 16, 16), (16, 32, 16), (16, 8, 16), (16, 4, 8), (32, None, 32), (None, 4, 8)],
)
def test_as_many_cores_are_at_work_as_segments_keep_busy(
    cores: int | None, segments: int | None, workers: int
) -> None:
    version = replace(VERSION, by_threads={"1": 8.0, "2": 4.2, "4": 3.9})
    assert found(version=version, cores=cores, segments=segments).workers == workers


def test_a_trial_counts_with_what_the_files_cost() -> None:
    small, large = (by_trial(VERSION, size).rate for size in (50, 1000))
    assert small == pytest.approx(0.82 * 1e3 / (4.0 + 0.02 + 1.0))
    assert large < small
    assert "files of 50 kB (--kilobytes)" in by_trial(VERSION, 50).notes


def test_more_hosts_than_there_are() -> None:
    with pytest.raises(UsageError, match=r"^1,000,000,000,000,000 images in 36 seconds need more than"):
        found(images=1e15, hours=0.01)


def test_the_page_has_what_the_formula_says_of_measured_statements() -> None:
    lines = re.findall(
        r"^\| .*, (\S+) ms \| .*, (\S+) kB \| .* \| (\S+) \| (\S+) \| (\S+)% \|$",
        PAGE.read_text(),
        re.MULTILINE,
    )
    assert len(lines) == 13
    for line in lines:
        milliseconds, size, measured, told, off = (float(cell.replace(",", "")) for cell in line)
        rate = 2 * by_trial(replace(VERSION, milliseconds=milliseconds), size).rate
        assert rate == pytest.approx(told, rel=0.01)
        assert rate / measured - 1 == pytest.approx(off / 100, abs=0.01)
        assert 1 / SPREAD["trial"] < rate / measured < SPREAD["trial"]
