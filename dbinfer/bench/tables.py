"""The report for people: tables on the terminal and as Markdown, what the project promises, and a picture of every
method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbinfer.base.errors import DataError
from dbinfer.bench.report import Row, case_name
from dbinfer.database.pins import install


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


def naive_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: where a call of the naive function spends its time, and ours beside it."""
    known = [row for row in rows if "naive_compile_ms" in row]
    steps = ("naive_read_ms", "naive_compile_ms", "naive_infer_ms")
    ours = [row.get("infer_us", 0) / 1000 for row in known]
    cells = [
        [case_name(row), *(number(row[key]) for key in steps), number(infer)]
        for row, infer in zip(known, ours, strict=True)
    ]
    return [
        "model",
        "read ms",
        "compile ms",
        "first inference ms, all cores",
        "ours: inference ms, one core",
    ], cells


def target_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: each promise with what was measured."""
    cells = [
        [what, number(limit), number(value), verdict] for what, limit, value, verdict in check_targets(rows)
    ]
    return ["must hold", "limit", "measured", ""], cells


def environment_lines(about: Row) -> list[str]:
    """Return what was measured on, in a few lines."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    segments = f", {about['segments']} segments" if about["segments"] else ""
    return [
        f"{about['date']}: {about['cpu']}, {about['cores']} cores, {about['memory_mb'] / 1024:.0f} GB, "
        f"{' '.join(about['flags'])}",
        f"{about['server']}{segments}; Python {about['python']}, dbinfer {about['dbinfer']}, {versions}",
        *(f"note: {sentence}" for sentence in about["notes"]),
    ]


def markdown_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(line) + " |" for line in cells)])


def markdown(report: Row) -> str:
    """Return the report as Markdown; `report` is what Report.to_dict or the JSON file gives."""
    rows = report["results"]
    parts = ["\n".join(f"- {line}" for line in environment_lines(report["environment"]))]
    for title, (headings, cells) in (
        ("Must hold", target_table(rows)),
        ("Images per second", speed_table(rows)),
        ("One row in a backend", profile_table(rows)),
        ("One call of the naive function", naive_table(rows)),
    ):
        if not cells:
            continue
        parts.append(f"### {title}\n\n{markdown_table(headings, cells)}")
    return "\n\n".join(parts) + "\n"


def scaling_markdown(report: Row) -> str:
    """Return the scaling report as Markdown."""
    parts = ["\n".join(f"- {line}" for line in environment_lines(report["environment"]))]
    for title, rows in report["scaling"].items():
        headings = list(rows[0]) if rows else []
        parts.append(
            f"### {title}\n\n{markdown_table(headings, [[number(v) for v in row.values()] for row in rows])}"
        )
    return "\n\n".join(parts) + "\n"


def isolation_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells: each line with both sides, its value, limit and verdict."""
    return list(rows[0]), [[number(value) for value in row.values()] for row in rows]


def isolation_markdown(report: Row) -> str:
    """Return the comparison of the engine with in-process scoring as Markdown."""
    facts = "\n".join(f"- {line}" for line in environment_lines(report["environment"]))
    return f"{facts}\n\n{markdown_table(*isolation_table(report['isolation']))}\n"


def put_between(text: str, name: str, content: str) -> str:
    """Return a document with what is between `<!-- NAME -->` and `<!-- /NAME -->` replaced, or added at the end."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    block = f"{start}\n{content}{end}"
    if start in text and end in text:
        return text[: text.index(start)] + block + text[text.index(end) + len(end) :]
    return f"{text.rstrip()}\n\n{block}\n".lstrip()


COLORS = {
    "sql": "#1f6f8b",
    "batch": "#144a5c",
    "ctas": "#5aa9c4",
    "job": "#3d8fae",
    "bare": "#8a8a8a",
    "benchmark_app": "#c9c9c9",
    "client": "#e0a458",
    "naive": "#b5484b",
    "naive_parallel": "#d17f81",
    "keras": "#c98b8d",
    "keras_naive": "#8f2f33",
    "spark": "#8d6a9f",
}
COLUMNS = 3


def pyplot() -> Any:
    """Return matplotlib.pyplot, drawing into files."""
    try:
        import matplotlib
    except ImportError as err:
        raise DataError("plotting needs matplotlib, which is not installed", install("bench")) from err
    # A host that measures may have no display
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _panels(count: int) -> tuple[Any, list[Any]]:
    plt = pyplot()
    columns = min(COLUMNS, count)
    lines = -(-count // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(5 * columns, 2.8 * lines), squeeze=False)
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.axis("off")
    return figure, flat


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write the picture of a report's results (.png, .svg, .pdf)."""
    cases = list(dict.fromkeys(case_name(row) for row in rows))
    if not cases:
        raise DataError("there are no results to plot")
    figure, axes = _panels(len(cases))
    for axis, case in zip(axes, cases, strict=False):
        mine = [row for row in rows if case_name(row) == case]
        _bars(axis, case, mine)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _bars(axis: Any, title: str, rows: Sequence[Row]) -> None:
    names, rates = [row["method"] for row in rows], [row["images_per_s"] for row in rows]
    bars = axis.barh(names, rates, color=[COLORS.get(name, "#777777") for name in names])
    axis.bar_label(bars, [number(rate) for rate in rates], padding=3, fontsize=8)
    axis.set_title(title, fontsize=9)
    axis.set_xlim(0, max(rates) * 1.2)
    axis.invert_yaxis()
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def plot_scaling(scaling: dict[str, Sequence[Row]], path: Path) -> None:
    """Write the picture of how cost grows: one panel for each series, the first column across, images/s up."""
    figure, axes = _panels(len(scaling))
    for axis, (title, rows) in zip(axes, scaling.items(), strict=False):
        across = next(iter(rows[0]))
        axis.plot([row[across] for row in rows], [row["images/s"] for row in rows], "o-", color=COLORS["sql"])
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(across, fontsize=8)
        axis.set_ylabel("images/s", fontsize=8)
        if len(rows) > 1 and rows[-1][across] > 50 * max(rows[0][across], 1e-9):
            axis.set_xscale("log")
        rates = [row["images/s"] for row in rows]
        if max(rates) > 50 * min(rates):
            axis.set_yscale("log")
        else:
            axis.set_ylim(0, max(rates) * 1.1)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
