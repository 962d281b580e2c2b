"""Every verb's report gives itself as plain JSON values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbinfer.base.progress import Progress, silent
from dbinfer.base.report import Report, plain


class Colour(str, Enum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    path: Path
    when: datetime


class Foreign:
    def to_dict(self) -> dict[str, Any]:
        return {"size": (1, 2)}


@dataclass(frozen=True)
class Done(Report):
    derived = ("per_second",)

    parts: tuple[Part, ...]
    colour: Colour = Colour.RED
    counts: dict[int, float] = field(default_factory=lambda: {1: float("nan"), 2: 0.5})
    foreign: Foreign = field(default_factory=Foreign)

    @property
    def per_second(self) -> float:
        return 2.0


def test_nested_values_become_json() -> None:
    done = Done((Part(Path("/a/b"), datetime(2026, 1, 2)),))
    expected = {
        "parts": [{"path": "/a/b", "when": "2026-01-02T00:00:00"}],
        "colour": "red",
        "counts": {"1": None, "2": 0.5},
        "foreign": {"size": [1, 2]},
        "per_second": 2.0,
    }
    assert done.to_dict() == expected
    assert json.loads(json.dumps(done.to_dict(), allow_nan=False)) == expected
    assert type(done.to_dict()["colour"]) is str


def test_bytes_become_base64_and_numpy_values_numbers() -> None:
    assert plain(b"raw") == "cmF3"
    assert plain({"mean": np.float32(0.5), "shape": np.array([1, 2])}) == {"mean": 0.5, "shape": [1, 2]}


def test_a_value_without_a_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="a object has no form in JSON"):
        plain(object())


def test_progress_may_be_ignored() -> None:
    silent(Progress("loading", 1, 2, "images"))
