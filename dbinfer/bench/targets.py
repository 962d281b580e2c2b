"""What the project promises of its speed, and what a run measured of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dbinfer.bench.report import Row, case_name


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


def check_targets(rows: Sequence[Row]) -> list[tuple[str, float, float | None, str]]:
    """Return (what, limit, measured, verdict) of every target."""
    measured = [(target, target.value(rows)) for target in TARGETS]
    return [(target.what, target.limit, value, target.verdict(value)) for target, value in measured]


def find(rows: Sequence[Row], case: str, method: str = "sql") -> Row:
    """Return the row of a case (see `case_name`) and a method; an empty one where it was not measured."""
    return next((r for r in rows if case_name(r) == case and r["method"] == method), {})


def _field(case: str, name: str, method: str = "sql") -> Callable[[Sequence[Row]], float | None]:
    return lambda rows: find(rows, case, method).get(name)


def _against(
    first: tuple[str, str], second: tuple[str, str], field: str = "images_per_s"
) -> Callable[[Sequence[Row]], float | None]:
    """Return the quotient of the images per second of two (case, method)."""

    def value(rows: Sequence[Row]) -> float | None:
        a, b = find(rows, *first).get(field), find(rows, *second).get(field)
        return a / b if a and b else None

    return value


def _job(case: str) -> Callable[[Sequence[Row]], float | None]:
    """Return a job's rate / that of CREATE TABLE AS, both with what comes before the first row and after the last."""
    return _against((case, "job"), (case, "ctas"), "images_per_s_whole")


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
    Target("ResNet-50 int8 / f32", 2.5, _against((RESNET_INT8, "sql"), (RESNET, "sql"))),
    Target("digits int8, agreement with f32", 0.99, _field(DIGITS_INT8, "agreement")),
    Target("ResNet-50 first row, fresh session (ms)", 250, _field(RESNET, "first_row_ms"), at_most=True),
    Target("digits first row, beside an engine (ms)", 120, _field(DIGITS, "first_row_warm_ms"), at_most=True),
    Target("ResNet-50 / naive UDF, OpenVINO", 10.0, _against((RESNET, "sql"), (RESNET, "naive"))),
    Target("ResNet-50 / naive UDF, Keras", 10.0, _against((RESNET, "sql"), (RESNET, "keras_naive"))),
    Target("ResNet-50 / Keras in the UDF", 3.0, _against((RESNET, "sql"), (RESNET, "keras"))),
    Target("dbinfer score / CREATE TABLE AS, digits", 0.95, _job(DIGITS)),
    Target("dbinfer score / CREATE TABLE AS, MobileNetV2", 0.95, _job(MOBILE.format("classify"))),
    Target("dbinfer load / raw binary COPY", 0.8, _field(RESNET, "ratio_load")),
)
