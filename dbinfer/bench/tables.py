"""The report for people: tables on the terminal, and the same ones as Markdown for docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbinfer.bench.report import Row, case_name
from dbinfer.bench.targets import check_targets, find

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
