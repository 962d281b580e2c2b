"""Which cases and methods a run measures, and which words it refuses."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dbinfer.base.errors import UsageError
from dbinfer.bench.report import CASES, METHODS, BenchOptions, BenchReport
from dbinfer.cli.app import app


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"networks": ("lenet",)}, "lenet"),
        ({"precisions": ("f64",)}, "f64"),
        ({"methods": ("magic",)}, "magic"),
        ({"rows": 0}, "rows"),
        ({"seconds": -1.0}, "seconds"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        BenchOptions(**values)


def test_all_cases_without_words() -> None:
    assert BenchOptions().cases(can_bf16=True) == list(CASES)


def test_no_bf16_where_the_processor_has_none() -> None:
    assert {case.precision for case in BenchOptions().cases(can_bf16=False)} == {"f32", "int8"}


def test_quick_is_resnet50_and_digits() -> None:
    cases = BenchOptions(quick=True).cases(can_bf16=True)
    assert {(c.network, c.precision) for c in cases} == {
        ("resnet50", "f32"),
        ("resnet50", "int8"),
        ("digits", "f32"),
        ("digits", "int8"),
    }
    methods = {c.network: set(BenchOptions(quick=True).methods_of(c)) for c in cases}
    assert methods["resnet50"] == {"benchmark_app", "bare", "sql"}
    assert methods["digits"] == {"benchmark_app", "bare", "sql", "batch"}


def test_named_networks_win_over_quick() -> None:
    cases = BenchOptions(quick=True, networks=("unet",), precisions=("f32",)).cases(can_bf16=True)
    assert [case.network for case in cases] == ["unet"]


def test_every_method_is_measured_somewhere() -> None:
    assert {name for case in CASES for name in BenchOptions().methods_of(case)} == set(METHODS)


def test_batches_are_measured_for_each_function() -> None:
    assert {case.function for case in CASES if "batch" in case.methods} == {case.function for case in CASES}


def test_methods_that_have_moved_say_where() -> None:
    with pytest.raises(UsageError, match="methods is 'naive'") as raised:
        BenchOptions(methods=("naive",))
    assert "make bench" in raised.value.hint


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Measure nothing; return what the command would have measured."""
    asked: dict[str, Any] = {}

    def bench(options: BenchOptions, *_: object) -> BenchReport:
        asked["options"] = options
        return BenchReport({"cpu": "x", "notes": []}, [])

    monkeypatch.setattr(import_module("dbinfer.bench"), "bench", bench)
    return asked


def test_json_is_printed(measured: dict[str, Any]) -> None:
    done = CliRunner().invoke(app, ["bench", "--network", "digits,unet", "--quick", "--json"])
    assert json.loads(done.stdout)["results"] == []
    assert measured["options"] == BenchOptions(networks=("digits", "unet"), quick=True)


@pytest.mark.parametrize("words", [["--json", "old.json"], ["--json=old.json"]])
def test_the_file_of_an_older_release_is_still_written(
    words: list[str], measured: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("dbinfer.cli.bench"), "_show", lambda report: None)
    done = CliRunner().invoke(app, ["bench", *words, "--ways", "sql"])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "old.json").read_text())["environment"]["cpu"] == "x"
    assert "--json takes no file now" in done.stderr
    assert measured["options"].methods == ("sql",)


@pytest.mark.parametrize("words", [["--plot", "b.png"], ["train", "--sweep", "width"], ["growth"], ["plan"]])
def test_what_has_moved_says_where(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["bench", *words])
    assert isinstance(done.exception, UsageError)
    assert "has moved out of the package" in done.exception.message
    assert done.exception.hint.startswith("In a clone: ")
