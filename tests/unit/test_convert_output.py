"""What is written, and what is not: tolerance, overwriting, leftovers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_models import save_onnx

from dbinfer.base.errors import ConvertError, ModelFileError, UsageError
from dbinfer.convert import ConvertOptions, convert
from dbinfer.convert import formats as onnx_source
from dbinfer.convert.conversion import convert_here

STATED: dict[str, Any] = {"task": "classification", "activation": "softmax", "scale": [255.0]}
OPTIONS = ConvertOptions(values=STATED)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return save_onnx(tmp_path / "net.onnx")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_both_files_and_nothing_else(source: Path, tmp_path: Path) -> None:
    report = convert(source, tmp_path / "net.xml", OPTIONS)
    assert _names(tmp_path) == {"net.onnx", "net.xml", "net.bin"}
    assert report.size == (tmp_path / "net.xml").stat().st_size + (tmp_path / "net.bin").stat().st_size


@pytest.mark.wide
def test_same_content_again_changes_nothing(source: Path, tmp_path: Path) -> None:
    assert convert(source, tmp_path / "net.xml", OPTIONS).written
    before = (tmp_path / "net.xml").stat().st_mtime_ns
    assert not convert(source, tmp_path / "net.xml", OPTIONS).written
    assert (tmp_path / "net.xml").stat().st_mtime_ns == before


def test_other_content_needs_force(source: Path, tmp_path: Path) -> None:
    (tmp_path / "net.xml").write_text("mine")
    with pytest.raises(ModelFileError, match="already exists") as error:
        convert(source, tmp_path / "net.xml", OPTIONS)
    assert "--force" in error.value.hint
    assert (tmp_path / "net.xml").read_text() == "mine"
    assert _names(tmp_path) == {"net.onnx", "net.xml"}
    assert convert(source, tmp_path / "net.xml", ConvertOptions(values=STATED, force=True)).written
    assert (tmp_path / "net.xml").read_text().startswith("<?xml")


def test_difference_above_tolerance_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="differs from its source"):
        convert(source, tmp_path / "net.xml", ConvertOptions(values=STATED, tolerance=1e-12, weights="fp16"))
    assert _names(tmp_path) == {"net.onnx"}


class _Session:
    """Stands in for onnxruntime's session, and changes what it gives."""

    def __init__(self, real: Any, change: Callable[[Any], Any]) -> None:
        self.get_inputs, self.real, self.change = real.get_inputs, real, change

    def run(self, names: list[str] | None, feeds: dict[str, Any]) -> list[Any]:
        values = self.real.run(names, feeds)
        return [self.change(values[0])] if names is None else values


def _changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    make = onnx_source._session
    monkeypatch.setattr(onnx_source, "_session", lambda model: _Session(make(model), change))


def test_source_that_gives_something_else_is_noticed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _changed(monkeypatch, lambda scores: scores + 0.1)
    with pytest.raises(ConvertError, match=r"differs from its source by 0\.1"):
        convert_here(source, tmp_path / "net.xml", OPTIONS)


@pytest.mark.wide
def test_not_a_number_is_noticed(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _changed(monkeypatch, lambda scores: np.full((1, 5), np.nan))
    with pytest.raises(ConvertError, match="NaN or infinite"):
        convert_here(source, tmp_path / "net.xml", OPTIONS)


@pytest.mark.wide
def test_result_of_another_size_is_noticed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _changed(monkeypatch, lambda scores: np.zeros((1, 7)))
    with pytest.raises(ConvertError, match="shape"):
        convert_here(source, tmp_path / "net.xml", OPTIONS)


@pytest.mark.wide
def test_without_a_framework_it_says_so(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    report = convert_here(source, tmp_path / "net.xml", OPTIONS)
    assert not report.check.done
    assert "onnxruntime is not installed" in report.check.reason
    assert report.written


@pytest.mark.parametrize(
    ("output", "message"), [("net.onnx2", "must end in .xml"), ("none/net.xml", "does not exist")]
)
def test_unusable_output(source: Path, tmp_path: Path, output: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        convert(source, tmp_path / output, OPTIONS)


def test_unusable_options(subtests: pytest.Subtests) -> None:
    for options in [{"weights": "int8"}, {"layout": "HWC"}, {"tolerance": 0.0}, {"tolerance": float("nan")}]:
        with subtests.test(options=options), pytest.raises(UsageError):
            ConvertOptions(**options)


def test_output_that_cannot_be_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "net.xml").mkdir()
    with pytest.raises(ModelFileError, match="cannot be written"):
        convert(source, tmp_path / "net.xml", ConvertOptions(values=STATED, force=True))
    assert not list(tmp_path.glob(".net*"))


@pytest.mark.wide
def test_small_outputs_are_compared_by_their_own_scale(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _changed(monkeypatch, lambda scores: scores * 1.01)
    with pytest.raises(ConvertError, match="differs from its source"):
        convert_here(source, tmp_path / "net.xml", OPTIONS)
