"""Cases of a parametrized test that are further variants of the others: only `make test-all` runs them."""

from __future__ import annotations

from typing import Any

import pytest


def wide(*cases: Any) -> list[Any]:
    """Return these cases, marked as wide; a case of several values is a tuple."""
    values = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*each, marks=pytest.mark.wide) for each in values]
