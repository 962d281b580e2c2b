"""Ratios come from the same round, medians from all; the JSON has the promised keys and no empty values."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dbinfer.base.progress import silent
from dbinfer.bench import environment
from dbinfer.bench.environment import load_note
from dbinfer.bench.measure import measure_rounds
from dbinfer.bench.methods import Skip, slope
from dbinfer.bench.report import BenchReport, Case, Sample, ratio, results, with_profile

CASE = Case("digits", "f32", "28x28", "classify")


def samples(*rates: float) -> list[Sample]:
    return [Sample(rate) for rate in rates]


def test_a_ratio_compares_round_by_round() -> None:
    # The machine was half as fast in the second round, for both
    assert ratio(samples(90, 45, 99), samples(100, 50, 100)) == 0.9


def test_results_have_medians_and_both_ratios() -> None:
    made = results(
        CASE,
        1000,
        {"sql": samples(80, 90, 70), "bare": samples(100, 100, 100), "benchmark_app": samples(200, 200, 200)},
    )
    sql = next(r for r in made if r.method == "sql")
    assert (sql.images_per_s, sql.ratio_bare, sql.ratio_benchmark_app) == (80, 0.8, 0.4)
    assert (sql.lowest, sql.highest, sql.rows, sql.rounds) == (70, 90, 1000, 3)


def test_without_the_bare_loop_there_is_no_ratio() -> None:
    made = results(CASE, 10, {"sql": samples(80)})
    assert made[0].ratio_bare is None
    assert "ratio_bare" not in made[0].to_dict()


def test_the_start_of_the_processes_is_taken_out_of_the_rate() -> None:
    context: Any = SimpleNamespace(rows=1000, small=100)
    # 0.5 s to start, then 200 images/s
    sample = slope(context, small=1.0, big=5.5)
    assert sample.images_per_s == pytest.approx(200)
    assert sample.start == pytest.approx(0.5)
    assert sample.whole == pytest.approx(1000 / 5.5)


def test_a_disturbed_pair_counts_as_the_whole_statement() -> None:
    context: Any = SimpleNamespace(rows=1000, small=100)
    assert slope(context, small=5.0, big=5.5) == Sample(1000 / 5.5, 1000 / 5.5)
    assert slope(context, small=6.0, big=5.5) == Sample(1000 / 5.5, 1000 / 5.5)


def test_the_report_is_environment_and_results() -> None:
    made = with_profile(results(CASE, 10, {"sql": samples(80), "bare": samples(90)}), {"first_row_ms": 12.5})
    read = json.loads(json.dumps(BenchReport({"cpu": "x"}, made).to_dict()))
    assert set(read) == {"environment", "results"}
    sql, bare = read["results"]
    assert sql["first_row_ms"] == 12.5
    assert "first_row_ms" not in bare
    assert {"network", "precision", "function", "method", "images_per_s", "ratio_bare"} <= set(sql)
    assert None not in sql.values()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The share of the machine that others use, look by look; without more of them it is quiet."""
    shares: list[float] = []
    monkeypatch.setattr(environment, "_used_share", lambda: shares.pop(0) if shares else 0.0)
    return shares


class _Counting:
    def __init__(self, log: list[str], name: str, fails: bool = False) -> None:
        self.log, self.name, self.fails = log, name, fails

    def measure(self) -> Sample:
        if self.fails:
            raise Skip(f"{self.name} cannot")
        self.log.append(self.name)
        return Sample(1.0)


def test_rounds_take_turns_and_each_starts_with_another_method(looks: list[float]) -> None:
    log: list[str] = []
    taken = measure_rounds({n: _Counting(log, n) for n in "abc"}, 3, silent, "")
    assert "".join(log) == "abcbcacab"
    assert all(len(kept) == 3 for kept in taken.samples.values())
    assert taken.notes == []


def test_a_method_that_fails_is_reported_once_and_the_others_go_on(looks: list[float]) -> None:
    log: list[str] = []
    methods = {"a": _Counting(log, "a"), "b": _Counting(log, "b", fails=True)}
    taken = measure_rounds(methods, 2, silent, "")
    assert taken.notes == ["b cannot"]
    assert list(taken.samples) == ["a"]
    assert log == ["a", "a"]


def test_no_method_left_ends_the_rounds(looks: list[float]) -> None:
    taken = measure_rounds({"a": _Counting([], "a", fails=True)}, 3, silent, "")
    assert taken.samples == {}
    assert taken.notes == ["a cannot"]


def test_every_round_waits_for_a_quiet_machine_and_says_where_it_was_not(looks: list[float]) -> None:
    looks += [0.5, 0.01]  # the first round waits for one look, and starts quietly
    looks += [0.4] * 14 + [0.3]  # the second round gives up waiting
    taken = measure_rounds({"a": _Counting([], "a")}, 3, silent, "")
    assert taken.loads == [0.01, 0.3, 0.0]
    assert load_note(taken.loads) == ["other programs used the machine: 30% before round 2."]
