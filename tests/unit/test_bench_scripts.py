"""The scripts of tests/bench find what they take of the package, and say what they measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from others import others

from dbinfer.bench.report import CASES

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.parametrize("script", sorted(path.name for path in BENCH.glob("*.py")))
@pytest.mark.wide
def test_they_can_be_imported(script: str) -> None:
    # in a process of its own: matplotlib and TensorFlow stay out of this one
    done = subprocess.run(
        [sys.executable, "-c", f"import {Path(script).stem}"],
        cwd=BENCH, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_other_methods_are_measured_where_people_would_compare() -> None:
    names = {case.title: list(others(case)) for case in CASES if others(case)}
    assert names["digits f32 classify 28x28"] == ["client"]
    assert names["resnet50 f32 predict 500x375"] == [
        "client",
        "naive",
        "naive_parallel",
        "keras",
        "keras_naive",
    ]
