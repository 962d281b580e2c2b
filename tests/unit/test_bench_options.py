"""Which cells and ways a run measures, and which words it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from dbinfer.bench.options import CELLS, WAYS, BenchOptions
from dbinfer.errors import UsageError


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"networks": ("lenet",)}, "lenet"),
        ({"precisions": ("f64",)}, "f64"),
        ({"ways": ("magic",)}, "magic"),
        ({"rows": 0}, "rows"),
        ({"seconds": -1.0}, "seconds"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        BenchOptions(**values)


def test_all_cells_without_words() -> None:
    assert BenchOptions().cells(can_bf16=True) == list(CELLS)


def test_no_bf16_where_the_processor_has_none() -> None:
    assert {cell.precision for cell in BenchOptions().cells(can_bf16=False)} == {"f32", "int8"}


def test_quick_is_resnet50_and_digits() -> None:
    cells = BenchOptions(quick=True).cells(can_bf16=True)
    assert {(c.network, c.precision) for c in cells} == {
        ("resnet50", "f32"),
        ("resnet50", "int8"),
        ("digits", "f32"),
        ("digits", "int8"),
    }
    ways = {c.network: set(BenchOptions(quick=True).ways_of(c)) for c in cells}
    assert ways["resnet50"] == {"benchmark_app", "bare", "sql"}
    assert ways["digits"] == {"benchmark_app", "bare", "sql", "batch"}


def test_named_networks_win_over_quick() -> None:
    cells = BenchOptions(quick=True, networks=("unet",), precisions=("f32",)).cells(can_bf16=True)
    assert [cell.network for cell in cells] == ["unet"]


def test_every_way_is_measured_somewhere() -> None:
    assert {way for cell in CELLS for way in BenchOptions().ways_of(cell)} == set(WAYS)


def test_batches_are_for_classify() -> None:
    assert {cell.function for cell in CELLS if "batch" in cell.ways} == {"classify"}


def test_slow_ways_are_left_to_the_cell_that_has_them() -> None:
    digits = next(c for c in CELLS if c.network == "digits" and c.precision == "f32")
    assert BenchOptions(ways=("sql", "naive")).ways_of(digits) == ["sql"]
