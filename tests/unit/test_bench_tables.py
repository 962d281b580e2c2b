"""The tables of a report: rates, steps, and what is overhead."""

from __future__ import annotations

import pytest

from dbinfer.bench.report import (
    BenchReport,
    Case,
    Sample,
    environment_lines,
    number,
    overhead,
    profile_table,
    results,
    speed_table,
    target_table,
)

ENVIRONMENT = {
    "date": "2026-01-01",
    "cpu": "a processor",
    "cores": 2,
    "memory_mb": 8192,
    "flags": ["avx2"],
    "server": "postgresql 15",
    "segments": 0,
    "python": "3.11",
    "dbinfer": "0",
    "versions": {"openvino": "2026"},
    "notes": ["spark: not installed."],
}


def report() -> BenchReport:
    taken = {"sql": [Sample(87.654, 80.0, 0.25)], "bare": [Sample(100.0)]}
    return BenchReport(ENVIRONMENT, results(Case("resnet50", "f32", "500x375", "predict"), 500, taken))


def test_tables_hold_what_was_measured_and_what_was_not() -> None:
    rows = report().to_dict()["results"]
    assert ["resnet50 f32 predict 500x375", "sql", "87.7", "0.88"] in [
        cells[:4] for cells in speed_table(rows)[1]
    ]
    assert "note: spark: not installed." in environment_lines(ENVIRONMENT)
    assert ["ResNet-50 predict / bare loop", "0.97", "0.876", "below"] in target_table(rows)[1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (3, "3"),
        ("x", "x"),
        (0.12345, "0.123"),
        (12.345, "12.3"),
        (123.45, "123"),
        (12345.6, "12,346"),
    ],
)
def test_numbers_have_three_digits(value: object, text: str) -> None:
    assert number(value) == text


def test_overhead_is_what_sql_takes_beyond_the_bare_loop() -> None:
    case = {"network": "digits", "precision": "f32", "function": "classify", "images": "28x28"}
    sql = {**case, "method": "sql", "images_per_s": 40_000.0, "cores": 2}
    bare = {**case, "method": "bare", "images_per_s": 50_000.0}
    assert overhead(sql, [sql, bare]) == pytest.approx(10.0)
    assert overhead(sql, [sql]) is None


def test_full_decode_is_a_line_below_ours() -> None:
    case = {"network": "mobilenet_v2", "precision": "f32", "function": "classify", "images": "4000x3000"}
    row = {
        **case,
        "method": "sql",
        "images_per_s": 80.0,
        "first_row_ms": 200.0,
        "decode_us": 13.0,
        "infer_us": 7000.0,
    }
    row |= {"full_decode_us": 50.0}
    headings, cells = profile_table([row])
    assert [line[headings.index("decode us")] for line in cells] == ["13.0", "50.0"]
    assert all(len(line) == len(headings) for line in cells)
