"""One result per cell and way, with its ratios; the report as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from dbinfer.bench.options import Cell
from dbinfer.bench.ways.context import Sample


@dataclass(frozen=True)
class Result:
    """Images per second of one way.

    Attributes:
        images: width x height.
        ratio_bare, ratio_benchmark_app: to those ways of the same cell, as the median over the rounds.
        lowest, highest: images per second of single rounds.
        images_per_s_whole: with the start of the statement's processes; start_ms: what that costs.
        more: what belongs to `sql` alone: microseconds, first row, memory, agreement, ... (see Facts).
    """

    network: str
    precision: str
    images: str
    function: str
    way: str
    images_per_s: float
    ratio_bare: float | None = None
    ratio_benchmark_app: float | None = None
    rows: int = 0
    rounds: int = 0
    lowest: float = 0.0
    highest: float = 0.0
    images_per_s_whole: float | None = None
    start_ms: float | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values without what is not known; `more` beside the rest."""
        values = asdict(self)
        more = values.pop("more")
        return {key: value for key, value in {**values, **more}.items() if value is not None}


@dataclass
class Report:
    """What a run measured: the machine, and all results."""

    machine: dict[str, Any]
    results: list[Result]

    def to_dict(self) -> dict[str, Any]:
        """Return {"machine": ..., "results": [...]}."""
        return {"machine": self.machine, "results": [result.to_dict() for result in self.results]}

    def write(self, path: Path) -> None:
        """Write the JSON file."""
        path.write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _significant(value: float) -> float:
    return float(f"{value:.4g}")


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _significant(median(known)) if known else None


def ratio(samples: Sequence[Sample], against: Sequence[Sample]) -> float | None:
    """Return the median over the rounds of one way's rate / another's in the same round."""
    pairs = zip(samples, against, strict=False)
    return _middle(a.images_per_s / b.images_per_s for a, b in pairs if b.images_per_s)


def results(cell: Cell, rows: int, samples: dict[str, list[Sample]]) -> list[Result]:
    """Return the results of a cell; `samples` holds every way's rounds, in turns."""
    bare, app = samples.get("bare", []), samples.get("benchmark_app", [])
    made = []
    for way, taken in samples.items():
        rates = [sample.images_per_s for sample in taken]
        start = _middle(sample.start for sample in taken)
        made.append(
            Result(
                cell.network,
                cell.precision,
                cell.images,
                cell.function,
                way,
                _significant(median(rates)),
                ratio(taken, bare),
                ratio(taken, app),
                rows,
                len(taken),
                _significant(min(rates)),
                _significant(max(rates)),
                _middle(sample.whole for sample in taken),
                None if start is None else _significant(start * 1000),
            )
        )
    return made


def with_facts(made: list[Result], facts: dict[str, Any]) -> list[Result]:
    """Return the results with these facts at the way `sql`."""
    return [replace(r, more={**r.more, **facts}) if r.way == "sql" else r for r in made]
