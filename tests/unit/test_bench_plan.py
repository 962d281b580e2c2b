"""`dbinfer bench plan`: its table, its picture, and how it takes out what slows the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbinfer.plan.calibration import Timed, best, coefficients, errors, row
from dbinfer.plan.cost import Coefficients, Network, Picture, row_seconds
from dbinfer.plan.points import FITTED, HELD, SEGMENTS, STEPS, Kind, Point
from dbinfer.plan.shown import measured, plan_markdown, plan_table, plot_plan
from dbinfer_udf.image.header import read_header

NET = Network("net", "f32", "classification", 224, 224, 3, milliseconds=5.0)
FAST = Network("fast", "f32", "classification", 28, 28, 1, milliseconds=0.05)


def point(seconds: float, rows: tuple[float, ...] = (100.0,), held: bool = True, **values: Any) -> Point:
    known = {
        "kind": "500x375 JPEG",
        "cores": 2,
        "fresh": 0,
        "spread": 1.1,
        "server": "postgresql 15",
    }
    picture = values.pop("picture", Picture("JPEG", 500, 375, 50_000))
    network = values.pop("network", NET)
    return Point(
        picture=picture, network=network, rows=rows, seconds=seconds, held=held, **{**known, **values}
    )


FOUND = Coefficients({}, {"infer": 1.0}, {"infer": 1.2}, {"engine": 0.0}, {})


def test_the_table_tells_predicted_and_measured() -> None:
    shown = [row(each, FOUND) for each in (point(0.5), point(1.0, (30.0, 90.0), held=False))]
    headings, (first, second) = plan_table(shown)
    cells = dict(zip(headings, first, strict=True))
    assert (cells["measured s"], cells["predicted s"], cells["error"]) == ("0.5", "0.5", "+0.0%")
    assert (cells["used for"], cells["rows"]) == ("check", "100")
    assert dict(zip(headings, second, strict=True))["processes"] == "2 on 2 cores, 75% of the rows in one"
    assert second[-1] == "fit"


def test_errors_are_those_of_all_points() -> None:
    found = errors(FOUND, [point(0.5), point(0.4), point(1.0)])
    assert found == {"largest": 0.5, "median": 0.25, "points": 3}


def test_the_picture_is_written(tmp_path: Path) -> None:
    shown = [row(each, FOUND) for each in (point(0.5), point(0.6, held=False))]
    plot_plan(shown, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    environment = {
        "date": "today",
        "cpu": "a processor",
        "cores": 2,
        "memory_mb": 1,
        "flags": [],
        "server": "x",
    }
    more = {"segments": 0, "python": "3", "dbinfer": "0", "versions": {}, "notes": []}
    assert "| net f32 | 500x375 JPEG |" in plan_markdown(
        {"environment": {**environment, **more}, "points": shown}
    )


def test_reports_of_one_machine_have_the_networks_of_the_first() -> None:
    again = replace(NET, milliseconds=NET.milliseconds * 2)
    reports = [{"points": [point(1.0, network=one).to_dict()]} for one in (NET, again)]
    assert [each.network.milliseconds for each in measured(reports)] == [NET.milliseconds] * 2


def test_the_least_of_rounds_counts_alone_and_together() -> None:
    def steps(decode: float, infer: float) -> dict[str, float]:
        return {"decode": decode, "infer": infer}

    rounds = [(steps(2, 2), steps(1, 5)), (steps(1, 2.5), steps(2, 6)), (steps(3, 1), steps(2, 3))]
    # whole rows: the least of each step would be a row that no round had
    assert best(rounds) == (steps(1, 2.5), steps(2, 3))


def test_a_fit_finds_what_the_steps_and_statements_were_made_of() -> None:
    true = {"infer": 1.1, "jpeg_byte": 8e-9, "fit_sample": 7e-10, "classification": 5e-6}
    sizes = [(224, 224), (500, 375), (2000, 1500), (4000, 3000)]
    pictures = [Picture("JPEG", w, h, w * h * 0.2 + 9_000) for w, h in sizes]
    known = Coefficients({}, {**true, "row_engine": 2e-4}, {}, {}, {})
    timed = [Timed("net", each, _steps(known, each), _steps(known, each, 1.25)) for each in pictures]
    fitted = [point(100 * row_seconds(known, (each,), NET), picture=each, held=False) for each in pictures]
    found = coefficients(timed, {"net": NET}, fitted, {})
    assert found.crowded["infer"] == 1.25
    for each in pictures:
        assert row_seconds(found, (each,), NET) == pytest.approx(row_seconds(known, (each,), NET), rel=0.01)


def _steps(known: Coefficients, picture: Picture, crowded: float = 1.0) -> dict[str, float]:
    from dbinfer.plan.cost import group_seconds

    found = group_seconds(known, picture, NET)
    return {group: max(1e-9, crowded * found[group]) for group in ("decode", "fit", "infer", "finish")}


def test_the_cases_hold_out_what_they_promise() -> None:
    assert all(case.processes == 1 and not case.held for case in FITTED)
    assert all(case.held for case in (*HELD, *SEGMENTS))
    assert not {(case.network, case.kind) for case in FITTED} & {
        (case.network, case.kind) for case in HELD if case.processes == 1 and case.precision == "f32"
    }
    assert {case.network for case in HELD} >= {"resnet50", "detector"}
    assert {name for name, _ in STEPS} == {case.network for case in FITTED} | {"unet"}


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WebP", "BMP", "TIFF"])
def test_pictures_are_files_of_their_kind(name: str) -> None:
    kind = Kind(160, 120, name)
    files = kind.files()
    header = read_header(files[0])
    assert (header.format, *header.size) == (name, 160, 120)
    assert kind.picture(files).bytes == sum(map(len, files)) / len(files)
    assert len(set(files)) == len(files)
    assert len(Kind(160, 120, "JPEG", 60).files()[0]) < len(Kind(160, 120).files()[0])
