"""Plans of the shipped coefficients, away from this machine's databases and its own coefficients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbinfer.plan import PlanOptions, PlanReport, plan

BASE = PlanOptions(images=50e6, hours=6.0)


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Name no database, and take a state folder without coefficients."""
    for name in ("DBINFER_DSN", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE", "PGPORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DBINFER_HOME", str(tmp_path))


def found(model: str = "resnet50", **changes: object) -> PlanReport:
    """Return the plan of BASE with these options changed."""
    return plan(model, replace(BASE, **changes))  # type: ignore[arg-type]
