"""Cases of a parametrized test that are variants of the others: only `make test-all` runs them, or only LONG=1."""

from __future__ import annotations

import os
from typing import Any

import pytest

# For a whole test, too
at_length = pytest.mark.skipif(not os.environ.get("LONG"), reason="takes some minutes: only with LONG=1")


def wide(*cases: Any) -> list[Any]:
    """Return these cases, marked as wide; a case of several values is a tuple."""
    return _marked(cases, pytest.mark.wide)


def further(*cases: Any) -> list[Any]:
    """Return these cases, which only LONG=1 runs."""
    return _marked(cases, pytest.mark.wide, at_length)


def _marked(cases: tuple[Any, ...], *marks: pytest.MarkDecorator) -> list[Any]:
    values = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*each, marks=marks) for each in values]
