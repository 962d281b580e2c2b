"""What a run returns: samples of every round become results with their ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from dbinfer.bench.options import Case
from dbinfer.report import Report

Row = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        images_per_s: once everything is loaded.
        whole: images / seconds of the whole statement, with the start of its processes; None where there is none.
        start: seconds before work is in full swing; None where nothing starts.
    """

    images_per_s: float
    whole: float | None = None
    start: float | None = None


@dataclass(frozen=True)
class Result:
    """Images per second of one method.

    Attributes:
        images: width x height.
        ratio_bare, ratio_benchmark_app: to those methods in the same case, as the median over the rounds.
        lowest, highest: images per second of single rounds.
        images_per_s_whole: with the start of the statement's processes; start_ms: what that costs.
        more: what belongs to `sql` alone: microseconds, first row, memory, agreement, ... (see dbinfer.bench.profile).
    """

    network: str
    precision: str
    images: str
    function: str
    method: str
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

    def to_dict(self) -> Row:
        """Return plain JSON values without what is not known; `more` beside the rest."""
        values = asdict(self)
        more = values.pop("more")
        return {key: value for key, value in {**values, **more}.items() if value is not None}


@dataclass(frozen=True)
class BenchReport(Report):
    """What a run measured: on what, and all results."""

    environment: dict[str, Any]
    results: list[Result]


@dataclass(frozen=True)
class ScalingReport(Report):
    """How cost grows: on what, and {title: rows}; each row's first key is what grows."""

    environment: dict[str, Any]
    scaling: dict[str, list[Row]]


@dataclass(frozen=True)
class IsolationReport(Report):
    """The engine beside in-process scoring: on what, and a row for each line of the table."""

    environment: dict[str, Any]
    isolation: list[Row]


def results(case: Case, rows: int, samples: dict[str, list[Sample]]) -> list[Result]:
    """Return the results of a case; `samples` holds every method's rounds, in turns."""
    bare, app = samples.get("bare", []), samples.get("benchmark_app", [])
    key = (case.network, case.precision, case.images, case.function)
    return [
        Result(*key, method, *_rates(taken, bare, app), **_spread(taken), rows=rows)
        for method, taken in samples.items()
    ]


def ratio(samples: Sequence[Sample], against: Sequence[Sample]) -> float | None:
    """Return the median over the rounds of one method's rate / another's in the same round."""
    pairs = zip(samples, against, strict=False)
    return _middle(a.images_per_s / b.images_per_s for a, b in pairs if b.images_per_s)


def with_profile(results: list[Result], more: Row) -> list[Result]:
    """Return the results with these values at the method `sql`."""
    return [replace(r, more={**r.more, **more}) if r.method == "sql" else r for r in results]


def _rates(
    taken: list[Sample], bare: list[Sample], app: list[Sample]
) -> tuple[float, float | None, float | None]:
    rate = median(sample.images_per_s for sample in taken)
    return _significant(rate), ratio(taken, bare), ratio(taken, app)


def _spread(taken: list[Sample]) -> dict[str, Any]:
    rates = [sample.images_per_s for sample in taken]
    return {
        "rounds": len(taken),
        "lowest": _significant(min(rates)),
        "highest": _significant(max(rates)),
        "images_per_s_whole": _middle(sample.whole for sample in taken),
        "start_ms": _middle(None if s.start is None else s.start * 1000 for s in taken),
    }


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _significant(median(known)) if known else None


def _significant(value: float) -> float:
    return float(f"{value:.4g}")


def case_name(row: Row) -> str:
    """Return `resnet50 f32 predict 500x375`."""
    return " ".join(str(row[key]) for key in ("network", "precision", "function", "images"))
