"""Measures what docs/explanation/performance.md tells, and writes its tables and pictures; under 40 minutes.

python tests/bench/publish.py [bench] [scaling] [engine] [--dsn DSN]    all three parts without words; in a clone
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

# a host that measures may have no display
matplotlib.use("Agg")

import matplotlib.pyplot as plt
from others import others
from scaling import run_scaling

from dbinfer.base.progress import Progress
from dbinfer.bench import BenchOptions, bench_isolation
from dbinfer.bench.measure import run_benchmark
from dbinfer.bench.report import (
    RESNET,
    TARGETS,
    Row,
    Target,
    against,
    case_name,
    environment_lines,
    isolation_table,
    number,
    profile_table,
    speed_table,
    target_table,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "explanation"
# What dbinfer promises against what people would use instead
OTHERS = (
    Target("ResNet-50 / naive UDF, OpenVINO", 10.0, against((RESNET, "sql"), (RESNET, "naive"))),
    Target("ResNet-50 / naive UDF, Keras", 10.0, against((RESNET, "sql"), (RESNET, "keras_naive"))),
    Target("ResNet-50 / Keras in the UDF", 3.0, against((RESNET, "sql"), (RESNET, "keras"))),
)
PAGE, BUILD = DOCS / "performance.md", ROOT / "build"


def tell(progress: Progress) -> None:
    """Print what is measured now."""
    print(progress.step, flush=True)


def bench(dsn: str | None) -> None:
    """Measure every method in every case."""
    report = run_benchmark(BenchOptions(), dsn, tell, others).to_dict()
    keep("bench", report)
    put("bench", markdown(report))
    plot(report["results"], DOCS / "performance.png")


def scaling(dsn: str | None) -> None:
    """Measure how cost grows."""
    about, series = run_scaling(dsn, tell)
    keep("scaling", {"environment": about, "scaling": series})
    put("scaling", scaling_markdown({"environment": about, "scaling": series}))
    plot_scaling(series, DOCS / "scaling.png")


def engine(dsn: str | None) -> None:
    """Measure the engine beside in-process scoring."""
    report = bench_isolation(BenchOptions(), dsn, tell).to_dict()
    keep("isolation", report)
    put("isolation", isolation_markdown(report))


def keep(name: str, report: Row) -> None:
    """Write a report to build/NAME.json."""
    BUILD.mkdir(exist_ok=True)
    (BUILD / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def put(name: str, content: str) -> None:
    """Put a section into the page; the others stay."""
    PAGE.write_text(put_between(PAGE.read_text(encoding="utf-8"), name, content), encoding="utf-8")


def markdown_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(line) + " |" for line in cells)])


def markdown(report: Row) -> str:
    """Return the report as Markdown; `report` is what Report.to_dict or the JSON file gives."""
    rows = report["results"]
    parts = ["\n".join(f"- {line}" for line in environment_lines(report["environment"]))]
    for title, (headings, cells) in (
        ("Must hold", target_table(rows, (*TARGETS, *OTHERS))),
        ("Images per second", speed_table(rows)),
        ("One row in a backend", profile_table(rows)),
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
}
COLUMNS = 3


def _panels(count: int) -> tuple[Any, list[Any]]:
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


PARTS = {one.__name__: one for one in (bench, scaling, engine)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--dsn")
    said = parser.parse_args()
    for part in said.parts or PARTS:
        PARTS[part](said.dsn)
