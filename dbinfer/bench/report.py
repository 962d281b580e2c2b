"""What a run measures and what it returns: samples of every round become results with their ratios, and these tables
beside what the project promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.options import documented, option
from dbinfer.base.report import Report

# sql, batch, ctas, job and worker are ours; the others are what they are compared with
METHODS = ("benchmark_app", "bare", "sql", "batch", "ctas", "job", "worker")
# of 0.1.0
MOVED = ("client", "naive", "naive_parallel", "keras", "keras_naive", "spark")
CORE = ("benchmark_app", "bare", "sql")
QUICK = (*CORE, "batch")
NETWORKS = ("detector", "digits", "mobilenet_v2", "resnet50", "unet")
PRECISIONS = ("f32", "bf16", "int8")
SECONDS, QUICK_SECONDS = 5.0, 3.0
QUICK_NETWORKS = ("resnet50", "digits")


@dataclass(frozen=True)
class Case:
    """One network at one precision, on images of one size, through one SQL function.

    Attributes:
        images: `28x28`, `500x375` or `4000x3000` (width x height in pixels).
        methods: that are measured here; a run may ask for fewer.
    """

    network: str
    precision: str
    images: str
    function: str
    methods: tuple[str, ...] = CORE

    @property
    def model(self) -> str:
        """Name of the model in the database."""
        return f"dbinfer_bench_{self.network}_{self.precision}"

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the images."""
        width, height = self.images.split("x")
        return int(width), int(height)

    @property
    def title(self) -> str:
        """Name for people."""
        return f"{self.network} {self.precision} {self.function} {self.images}"


COMMON = (*CORE, "ctas", "job", "batch")
OUTSIDE = (*COMMON, "worker")
CASES = (
    Case("resnet50", "f32", "500x375", "predict", OUTSIDE),
    Case("resnet50", "bf16", "500x375", "predict"),
    Case("resnet50", "int8", "500x375", "predict"),
    Case("digits", "f32", "28x28", "classify", OUTSIDE),
    Case("digits", "f32", "28x28", "predict", QUICK),
    Case("digits", "int8", "28x28", "classify", QUICK),
    Case("mobilenet_v2", "f32", "500x375", "classify", COMMON),
    Case("mobilenet_v2", "f32", "500x375", "predict"),
    Case("mobilenet_v2", "f32", "4000x3000", "classify"),
    Case("mobilenet_v2", "int8", "500x375", "classify"),
    Case("unet", "f32", "500x375", "segment", COMMON),
    Case("unet", "bf16", "500x375", "segment"),
    Case("unet", "int8", "500x375", "segment"),
    Case("detector", "f32", "500x375", "detect", QUICK),
    Case("detector", "bf16", "500x375", "detect"),
)


def words(_: str, text: str) -> tuple[str, ...]:
    """Return the words of `a,b,c`."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


@documented
@dataclass(frozen=True)
class BenchOptions:
    """How to measure. Of networks, precisions and methods an empty tuple stands for all that this machine can run."""

    networks: tuple[str, ...] = option(
        (), f"Comma-separated: {','.join(NETWORKS)}. Default: all.", "--network", read=words
    )
    precisions: tuple[str, ...] = option(
        (), "Comma-separated: f32,bf16,int8. Default: what the CPU supports.", "--precision", read=words
    )
    methods: tuple[str, ...] = option((), f"Comma-separated: {','.join(METHODS)}. Default: all.", read=words)
    rows: int | None = option(None, "Rows to score. Default: as many as take the seconds.")
    seconds: float | None = option(
        None, "About how long one measurement takes. Default: 5; 3 in quick runs and for the engine."
    )
    rounds: int = option(3, "How many times to run every method, by turns; the median counts.")
    quick: bool = option(False, "Only ResNet-50 and digits, in about 3 minutes.")
    keep: bool = option(False, "Keep images and models in the database.")

    def __post_init__(self) -> None:
        for name, allowed in (("networks", NETWORKS), ("precisions", PRECISIONS), ("methods", METHODS)):
            for word in getattr(self, name):
                if word not in allowed:
                    gone = "Other ways are compared in a clone: make bench" if word in MOVED else ""
                    raise UsageError(f"{name} is {word!r}, but must be one of {', '.join(allowed)}", gone)
        for name in ("rows", "seconds", "rounds"):
            value: Any = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name} is {value}, but must be greater than 0")

    @property
    def measured_seconds(self) -> float:
        """Return how long one measurement of one method takes, about."""
        return self.seconds or (QUICK_SECONDS if self.quick else SECONDS)

    def cases(self, can_bf16: bool) -> list[Case]:
        """Return what to measure; bf16 only on a CPU that computes in it."""
        networks = self.networks or (QUICK_NETWORKS if self.quick else NETWORKS)
        precisions = self.precisions or (("f32", "int8") if self.quick else PRECISIONS)
        chosen = [c for c in CASES if c.network in networks and c.precision in precisions]
        return [c for c in chosen if can_bf16 or c.precision != "bf16"]

    def methods_of(self, case: Case) -> list[str]:
        """Return the methods to measure for a case."""
        if self.methods:
            return [name for name in self.methods if name in case.methods or name in COMMON]
        return [name for name in case.methods if not self.quick or name in QUICK]


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
        more: what belongs to `sql` alone: microseconds, first row, memory, agreement, ... (see dbinfer.bench.measure).
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


@dataclass(frozen=True)
class Target:
    """One promise.

    Attributes:
        what: in words; limit: the least value (the largest where `at_most`).
        value: takes the rows (JSON of results) and returns what was measured, None where it was not.
    """

    what: str
    limit: float
    value: Callable[[Sequence[Row]], float | None]
    at_most: bool = False

    def verdict(self, value: float | None) -> str:
        """Return ok, below, above or not measured."""
        if value is None:
            return "not measured"
        met = value <= self.limit if self.at_most else value >= self.limit
        return "ok" if met else "above" if self.at_most else "below"


def check_targets(
    rows: Sequence[Row], targets: Sequence[Target] = ()
) -> list[tuple[str, float, float | None, str]]:
    """Return (what, limit, measured, verdict) of every target; other ones than TARGETS where some are given."""
    measured = [(target, target.value(rows)) for target in targets or TARGETS]
    return [(target.what, target.limit, value, target.verdict(value)) for target, value in measured]


def find(rows: Sequence[Row], case: str, method: str = "sql") -> Row:
    """Return the row of a case (see `case_name`) and a method; an empty one where it was not measured."""
    return next((r for r in rows if case_name(r) == case and r["method"] == method), {})


def _field(case: str, name: str, method: str = "sql") -> Callable[[Sequence[Row]], float | None]:
    return lambda rows: find(rows, case, method).get(name)


def against(
    first: tuple[str, str], second: tuple[str, str], field: str = "images_per_s"
) -> Callable[[Sequence[Row]], float | None]:
    """Return the quotient of the images per second of two (case, method)."""

    def value(rows: Sequence[Row]) -> float | None:
        a, b = find(rows, *first).get(field), find(rows, *second).get(field)
        return a / b if a and b else None

    return value


def _job(case: str) -> Callable[[Sequence[Row]], float | None]:
    """Return a job's rate / that of CREATE TABLE AS, both with what comes before the first row and after the last."""
    return against((case, "job"), (case, "ctas"), "images_per_s_whole")


RESNET, RESNET_INT8 = "resnet50 f32 predict 500x375", "resnet50 int8 predict 500x375"
MOBILE = "mobilenet_v2 f32 {} 500x375"
MOBILE_LARGE = "mobilenet_v2 f32 classify 4000x3000"
DIGITS, DIGITS_INT8 = "digits f32 classify 28x28", "digits int8 classify 28x28"
MOBILE_INT8 = "mobilenet_v2 int8 classify 500x375"
UNET = "unet f32 segment 500x375"
DETECTOR = "detector f32 detect 500x375"

TARGETS = (
    Target("ResNet-50 predict / bare loop", 0.97, _field(RESNET, "ratio_bare")),
    Target("ResNet-50 predict / benchmark_app", 0.92, _field(RESNET, "ratio_benchmark_app")),
    Target("MobileNetV2 classify / bare loop", 0.95, _field(MOBILE.format("classify"), "ratio_bare")),
    Target("MobileNetV2 predict / bare loop", 0.90, _field(MOBILE.format("predict"), "ratio_bare")),
    Target("512 U-Net segment / bare loop", 0.95, _field(UNET, "ratio_bare")),
    Target("ResNet-50 int8 predict / benchmark_app", 0.9, _field(RESNET_INT8, "ratio_benchmark_app")),
    Target("MobileNetV2 int8 classify / benchmark_app", 0.75, _field(MOBILE_INT8, "ratio_benchmark_app")),
    Target("digits classify / bare loop, per row", 0.85, _field(DIGITS, "ratio_bare")),
    Target("320 px detector, detect / bare loop", 0.95, _field(DETECTOR, "ratio_bare")),
    Target("digits classify / bare loop, in batches", 0.9, _field(DIGITS, "ratio_bare", "batch")),
    Target(
        "12 megapixels, MobileNetV2 / full decode and resize", 5.0, _field(MOBILE_LARGE, "ratio_full_decode")
    ),
    Target("ResNet-50 int8 / f32", 2.5, against((RESNET_INT8, "sql"), (RESNET, "sql"))),
    Target("digits int8, agreement with f32", 0.99, _field(DIGITS_INT8, "agreement")),
    Target("ResNet-50 first row, fresh session (ms)", 250, _field(RESNET, "first_row_ms"), at_most=True),
    Target("digits first row, beside an engine (ms)", 120, _field(DIGITS, "first_row_warm_ms"), at_most=True),
    Target("dbinfer score / CREATE TABLE AS, digits", 0.95, _job(DIGITS)),
    Target("dbinfer score / CREATE TABLE AS, MobileNetV2", 0.95, _job(MOBILE.format("classify"))),
    Target("dbinfer worker / bare loop, digits", 0.95, _field(DIGITS, "ratio_bare", "worker")),
    Target("dbinfer worker / bare loop, ResNet-50", 0.95, _field(RESNET, "ratio_bare", "worker")),
    Target("dbinfer load / raw binary COPY", 0.8, _field(RESNET, "ratio_load")),
)


METHOD_COLUMNS = ("method", "images/s", "/ bare", "/ app", "whole", "start ms", "rounds")
PROFILE_FIELDS = (
    ("decode_us", "decode us"),
    ("preprocess_us", "preprocess us"),
    ("infer_us", "infer us"),
    ("postprocess_us", "postprocess us"),
    ("overhead_us", "overhead us"),
    ("first_row_ms", "first row ms"),
    ("first_row_warm_ms", "beside an engine"),
    ("pss_mb", "PSS MB"),
    ("private_mb", "private MB"),
    ("processes", "processes"),
)


def number(value: Any) -> str:
    """Return a number as people read it: three or four digits."""
    if value is None:
        return ""
    if isinstance(value, str | int):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _ratio(value: Any) -> str:
    return "" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def speed_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: one line for each result."""
    lines = []
    for row in rows:
        spread = f"{row['rounds']}x {number(row['lowest'])}..{number(row['highest'])}"
        rates = [
            number(row["images_per_s"]),
            _ratio(row.get("ratio_bare")),
            _ratio(row.get("ratio_benchmark_app")),
        ]
        whole = [number(row.get("images_per_s_whole")), number(row.get("start_ms"))]
        lines.append([case_name(row), row["method"], *rates, *whole, spread])
    return ["model", *METHOD_COLUMNS], lines


def profile_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: steps, first row and memory of SQL in each case."""
    known = [row for row in rows if row["method"] == "sql" and "first_row_ms" in row]
    cells = []
    for row in known:
        values = {**row, "overhead_us": overhead(row, rows)}
        cells.append([case_name(row), *(number(values.get(key)) for key, _title in PROFILE_FIELDS)])
        if "full_decode_us" in row:
            steps = [number(row.get(f"full_{key}")) for key, _title in PROFILE_FIELDS]
            cells.append([f"{case_name(row)}, full decode and resize", *steps])
    return ["model", *(title for _key, title in PROFILE_FIELDS)], cells


def overhead(row: Row, rows: Sequence[Row]) -> float | None:
    """Return the microseconds of one core that a row takes in SQL beyond the bare loop."""
    bare = find(rows, case_name(row), "bare")
    if not bare or not row.get("cores"):
        return None
    return float(row["cores"] * (1 / row["images_per_s"] - 1 / bare["images_per_s"]) * 1e6)


def target_table(rows: Sequence[Row], targets: Sequence[Target] = ()) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: each promise with what was measured."""
    cells = [
        [what, number(limit), number(value), verdict]
        for what, limit, value, verdict in check_targets(rows, targets)
    ]
    return ["must hold", "limit", "measured", ""], cells


def machine_line(about: Row) -> str:
    """Return processor, cores, memory and abilities in a line."""
    return f"{about['cpu']}, {about['cores']} cores, {about['memory_mb'] / 1024:.0f} GB, {' '.join(about['flags'])}"


def environment_lines(about: Row) -> list[str]:
    """Return what was measured on, in a few lines."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    segments = f", {about['segments']} segments" if about["segments"] else ""
    return [
        f"{about['date']}: {machine_line(about)}",
        f"{about['server']}{segments}; Python {about['python']}, dbinfer {about['dbinfer']}, {versions}",
        *(f"note: {sentence}" for sentence in about["notes"]),
    ]


def isolation_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: each line with both sides, its value, limit and verdict."""
    return list(rows[0]), [[number(value) for value in row.values()] for row in rows]
