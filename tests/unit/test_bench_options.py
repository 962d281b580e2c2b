"""Which cases and methods a run measures, and which words it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from dbinfer.base.errors import UsageError
from dbinfer.bench.report import CASES, METHODS, BenchOptions


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"networks": ("lenet",)}, "lenet"),
        ({"precisions": ("f64",)}, "f64"),
        ({"methods": ("magic",)}, "magic"),
        ({"rows": 0}, "rows"),
        ({"seconds": -1.0}, "seconds"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        BenchOptions(**values)


def test_all_cases_without_words() -> None:
    assert BenchOptions().cases(can_bf16=True) == list(CASES)


def test_no_bf16_where_the_processor_has_none() -> None:
    assert {case.precision for case in BenchOptions().cases(can_bf16=False)} == {"f32", "int8"}


def test_quick_is_resnet50_and_digits() -> None:
    cases = BenchOptions(quick=True).cases(can_bf16=True)
    assert {(c.network, c.precision) for c in cases} == {
        ("resnet50", "f32"),
        ("resnet50", "int8"),
        ("digits", "f32"),
        ("digits", "int8"),
    }
    methods = {c.network: set(BenchOptions(quick=True).methods_of(c)) for c in cases}
    assert methods["resnet50"] == {"benchmark_app", "bare", "sql"}
    assert methods["digits"] == {"benchmark_app", "bare", "sql", "batch"}


def test_named_networks_win_over_quick() -> None:
    cases = BenchOptions(quick=True, networks=("unet",), precisions=("f32",)).cases(can_bf16=True)
    assert [case.network for case in cases] == ["unet"]


def test_every_method_is_measured_somewhere() -> None:
    assert {name for case in CASES for name in BenchOptions().methods_of(case)} == set(METHODS)


def test_batches_are_measured_for_each_function() -> None:
    assert {case.function for case in CASES if "batch" in case.methods} == {case.function for case in CASES}


def test_slow_methods_are_left_to_the_case_that_has_them() -> None:
    digits = next(c for c in CASES if c.network == "digits" and c.precision == "f32")
    assert BenchOptions(methods=("sql", "naive")).methods_of(digits) == ["sql"]
