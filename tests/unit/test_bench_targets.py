"""The table of promises: ok, below, above, not measured."""

from __future__ import annotations

from typing import Any

from dbinfer.bench.report import TARGETS, check_targets


def row(network: str, function: str, method: str = "sql", **values: Any) -> dict[str, Any]:
    images = "28x28" if network == "digits" else "500x375"
    return {
        "network": network,
        "precision": "f32",
        "images": images,
        "function": function,
        "method": method,
    } | values


def verdict(rows: list[dict[str, Any]], what: str) -> str:
    return next(found for title, _limit, _value, found in check_targets(rows) if title.startswith(what))


def test_nothing_is_ok_that_was_not_measured() -> None:
    judged = check_targets([])
    assert len(judged) == len(TARGETS)
    assert {found for *_rest, found in judged} == {"not measured"}


def test_a_ratio_at_the_limit_is_ok_and_one_under_it_is_below() -> None:
    title = "digits classify / bare loop"
    assert verdict([row("digits", "classify", ratio_bare=0.85)], title) == "ok"
    assert verdict([row("digits", "classify", ratio_bare=0.849)], title) == "below"


def test_a_first_row_must_not_take_longer() -> None:
    title = "ResNet-50 first row"
    assert verdict([row("resnet50", "predict", first_row_ms=240.0)], title) == "ok"
    assert verdict([row("resnet50", "predict", first_row_ms=260.0)], title) == "above"


def test_methods_are_compared_by_their_rates() -> None:
    rows = [
        row("resnet50", "predict", images_per_s=60.0),
        row("resnet50", "predict", images_per_s=120.0) | {"precision": "int8"},
    ]
    assert verdict(rows, "ResNet-50 int8 / f32") == "below"


def test_a_job_is_compared_with_the_plain_statement_start_and_end_included() -> None:
    rows = [
        row("digits", "classify", "ctas", images_per_s=100.0, images_per_s_whole=90.0),
        row("digits", "classify", "job", images_per_s=150.0, images_per_s_whole=85.0),
    ]
    assert verdict(rows, "dbinfer score / CREATE TABLE AS, digits") == "below"
    assert verdict(rows, "dbinfer score / CREATE TABLE AS, MobileNetV2") == "not measured"
