"""Where the coefficients of a plan come from: a file, this machine, what is shipped; scaled, and measured anew."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from plan_shipped import found, nothing_named  # noqa: F401

from dbinfer.base.errors import DataError, UsageError
from dbinfer.plan import PlanOptions, PlanReport, plan
from dbinfer.plan.cost import Coefficients, from_dict, read_coefficients, scaled, shipped, write


def test_coefficients_go_to_a_file_and_back(tmp_path: Path) -> None:
    write(tmp_path / "own.json", shipped())
    assert read_coefficients(tmp_path / "own.json") == shipped()
    assert found(coefficients=tmp_path / "own.json") == found()


def test_this_machines_own_coefficients_count_before_the_shipped_ones(tmp_path: Path) -> None:
    slow = replace(shipped(), seconds={name: 3 * value for name, value in shipped().seconds.items()})
    write(tmp_path / "plan.json", slow)
    assert found().hosts > 2 * plan_of(shipped(), tmp_path).hosts


def plan_of(coefficients: Coefficients, folder: Path) -> PlanReport:
    write(folder / "given.json", coefficients)
    return found(coefficients=folder / "given.json")


def test_another_machine_is_scaled_by_what_its_probe_takes() -> None:
    there = shipped().machine["probe"]
    twice = scaled(shipped(), {"decode": 2 * there["decode"], "infer": 3 * there["infer"]})
    name = "resnet50 f32"
    assert twice.models[name].milliseconds == pytest.approx(3 * shipped().models[name].milliseconds)
    # it is multiplied by the milliseconds, which for a deployed network are the trial's, of another machine
    assert twice.seconds["infer"] == shipped().seconds["infer"]
    assert twice.seconds["jpeg_byte"] == pytest.approx(2 * shipped().seconds["jpeg_byte"])
    assert from_dict(twice.to_dict(), "x") == twice


def test_calibrate_keeps_what_it_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = replace(shipped(), seconds={name: 3 * value for name, value in shipped().seconds.items()})
    # not by name: `dbinfer.bench` is the function
    planning = import_module("dbinfer.plan.calibration")
    monkeypatch.setattr(planning, "run_planning", lambda *rest: SimpleNamespace(coefficients=slow.to_dict()))
    first = found(calibrate=True)
    assert read_coefficients(tmp_path / "plan.json") == slow
    assert found() == first
    assert first.hosts > 2 * plan_of(shipped(), tmp_path).hosts


def test_here_scales_by_a_probe_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    there = shipped().machine["probe"]
    twice = {name: 2 * value for name, value in there.items()}
    monkeypatch.setattr(import_module("dbinfer.plan.calibration"), "probe", lambda: twice)
    assert found(here=True).hours == pytest.approx(6, rel=0.2)
    note = "this machine's speed (--here): images take 2 and networks 2 times as long as on the measured one"
    assert note in found(here=True).notes
    assert not any("--here" in note for note in found().notes)
    assert found(here=True).hosts == pytest.approx(2 * found().hosts, abs=2)


def test_the_probe_times_a_photograph_and_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("dbinfer.plan.calibration")
    monkeypatch.setattr(module, "SECONDS", 0.0)
    assert {name: value > 0 for name, value in module.probe().items()} == {"decode": True, "infer": True}


def test_files_that_hold_no_coefficients(tmp_path: Path) -> None:
    for text, words in (
        ("[]", "holds no coefficients"),
        ("nonsense", "cannot be read"),
        ('{"form": 0}', "no coefficients of this version"),
        ('{"form": 1}', "no coefficients of this version"),
        (json.dumps({**shipped().to_dict(), "seconds": 5}), "no coefficients of this version"),
    ):
        file = tmp_path / "plan.json"
        file.write_text(text)
        with pytest.raises(DataError, match=words):
            plan("resnet50", PlanOptions(images=1e6, coefficients=file))
    with pytest.raises(DataError, match="cannot be read"):
        plan("resnet50", PlanOptions(images=1e6, coefficients=tmp_path / "missing.json"))


def test_a_file_without_networks(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write(file, replace(shipped(), models={}))
    with pytest.raises(UsageError, match=r"^the coefficients hold no network\n") as raised:
        plan("resnet50", PlanOptions(images=1e6, coefficients=file))
    assert "--dsn" in raised.value.cure


@pytest.mark.parametrize("probe", [None, 5, {}, {"decode": 0.001}, {"decode": 0.001, "infer": 0}])
def test_a_file_that_does_not_say_how_fast_its_machine_was(
    probe: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a KeyError."""
    monkeypatch.setattr(
        import_module("dbinfer.plan.calibration"), "probe", lambda: {"decode": 1.0, "infer": 1.0}
    )
    file, machine = tmp_path / "plan.json", {**shipped().machine, "probe": probe}
    write(file, replace(shipped(), machine=machine))
    with pytest.raises(DataError, match="do not say how fast the machine was") as raised:
        plan("resnet50", PlanOptions(images=1e6, coefficients=file, here=True))
    assert "Leave out --here" in raised.value.cure
