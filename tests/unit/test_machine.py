"""Cores and memory of this machine, within container limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbinfer import machine


@pytest.mark.parametrize(
    ("quota", "expected"), [("50000 100000", 1), ("100000 100000", 1), ("10000 100000", 1)]
)
def test_a_cpu_quota_bounds_the_cores(tmp_path: Path, quota: str, expected: int) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    assert machine.cores(tmp_path) == expected


@pytest.mark.parametrize("content", ["max 100000", "6400000 100000", ""])
def test_without_a_smaller_quota_all_cores_count(tmp_path: Path, content: str) -> None:
    (tmp_path / "cpu.max").write_text(content)
    assert machine.cores(tmp_path) == len(os.sched_getaffinity(0))


def test_a_memory_limit_bounds_the_memory(tmp_path: Path) -> None:
    free = machine.memory_mb(tmp_path)
    (tmp_path / "memory.max").write_text(str(64 << 20))
    assert machine.memory_mb(tmp_path) == 64 < free
