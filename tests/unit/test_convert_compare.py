"""What runs a source beside its IR, and what a refusal says: the first layer that differs, and hints that can help."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from convert_models import save_onnx, save_onnx_of_any_size, small_unet
from float32 import tolerance
from onnx import numpy_helper

from dbinfer.base.errors import ConvertError
from dbinfer.convert import ConvertOptions, convert
from dbinfer.convert import formats as onnx_source
from dbinfer.convert import keras as keras_source
from dbinfer.convert.conversion import convert_here

STATED: dict[str, Any] = {"input_size": (32, 48), "scale": [255.0], "task": "classification"}


def test_a_sound_onnx_model_of_open_size_is_converted(tmp_path: Path) -> None:
    source = save_onnx_of_any_size(tmp_path / "net.onnx")
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values=STATED))
    assert report.check.framework.startswith("onnxruntime")
    assert report.check.difference is not None
    # two sums after each other, of which one is over all pixels
    assert report.check.difference <= tolerance(report.check.magnitude, 2, 32 * 48)


@pytest.mark.wide
@pytest.mark.parametrize(("factor", "right"), [(1.001, True), (1.5, False)])
def test_scores_that_are_all_near_zero(
    factor: float, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A detector of text sees none in made-up images; rounding of its scores was taken for a difference."""
    source = save_onnx(tmp_path / "net.onnx")
    model = onnx.load(source)
    (scores,) = [node for node in model.graph.node if "scores" in node.output]
    scores.output[0] = "raw"
    model.graph.node.append(onnx.helper.make_node("Sub", ["raw", "far"], ["low"]))
    model.graph.node.append(onnx.helper.make_node("Sigmoid", ["low"], ["scores"]))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(12), "far"))
    onnx.save(model, source)
    _wrong_weights(monkeypatch, "dense", lambda weights: weights * np.float32(factor))
    options = ConvertOptions(values={"task": "classification", "scale": [255.0]})
    if right:
        check = convert_here(source, tmp_path / "out.xml", options).check

        assert check.difference is not None
        assert check.difference > 0.001 * check.magnitude
    else:
        with pytest.raises(ConvertError, match="differs from its source"):
            convert_here(source, tmp_path / "out.xml", options)


@pytest.mark.wide
def test_each_output_is_compared_by_its_own_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of wrong scores is nothing beside features of thousands, and was let through."""
    source = save_onnx(tmp_path / "net.onnx", outputs=2)
    model = onnx.load(source)
    for name, factor in (("kernel", 1e4), ("dense", 1e-5)):
        (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.float32(factor) * numpy_helper.to_array(tensor), name))
    onnx.save(model, source)
    _wrong_weights(monkeypatch, "dense", lambda weights: weights * np.float32(1.3))
    with pytest.raises(ConvertError, match=r"the converted model's output scores differs from its source"):
        convert_here(source, tmp_path / "out.xml", ConvertOptions(values={"scale": [255.0]}))


@pytest.mark.wide
def test_no_second_best_evaluator_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    source = save_onnx_of_any_size(tmp_path / "net.onnx")
    report = convert_here(source, tmp_path / "net.xml", ConvertOptions(values=STATED))
    assert (report.check.done, report.written) == (False, True)
    assert "-m pip install 'onnxruntime>=" in report.check.reason


def _refusal(source: Path, **options: Any) -> ConvertError:
    with pytest.raises(ConvertError, match="differs from its source") as caught:
        convert_here(source, source.with_name("out.xml"), ConvertOptions(values=STATED, **options))
    assert not source.with_name("out.xml").exists()
    return caught.value


def _wrong_weights(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> None:
    """Let OpenVINO convert another model than the one that is compared with: the weights `name` are changed."""
    real = onnx_source.to_graph

    def to_graph(path: Path, what: str) -> Any:
        model = onnx.load(path)
        (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
        tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), name))
        onnx.save(model, path.with_name("wrong.onnx"))
        return real(path.with_name("wrong.onnx"), what)

    monkeypatch.setattr(onnx_source, "to_graph", to_graph)


def test_the_first_layer_that_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _wrong_weights(monkeypatch, "dense", lambda x: x[:, ::-1].copy())
    error = _refusal(save_onnx_of_any_size(tmp_path / "net.onnx"))
    assert "the first layer whose output differs is dense (MatMul): " in error.message
    assert "--weights" not in error.hint
    assert "--tolerance" not in error.hint
    assert "compute this model differently" in error.hint


@pytest.mark.wide
def test_a_small_difference_in_fp32_can_be_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _wrong_weights(monkeypatch, "dense", lambda x: x * np.float32(1.01))
    error = _refusal(save_onnx_of_any_size(tmp_path / "net.onnx"))
    assert "--weights" not in error.hint
    assert "--tolerance 0.0" in error.hint


@pytest.mark.wide
def test_fp16_can_be_fp32(tmp_path: Path) -> None:
    error = _refusal(save_onnx_of_any_size(tmp_path / "net.onnx"), weights="fp16", tolerance=1e-7)
    assert error.hint.startswith("Use --weights fp32, or allow more with --tolerance ")
    assert "the first layer whose output differs is " in error.message


@pytest.mark.wide
def test_a_layer_of_keras_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_unet()
    model.save(tmp_path / "net.keras")

    real = keras_source._graph

    def of_other_weights(path: Path, what: str, model: Any, traced: Any) -> Any:
        """Let OpenVINO see other weights of one layer than Keras computes with."""
        if "block2_conv1" not in [layer.name for layer in model.layers]:
            return real(path, what, model, traced)
        layer = model.get_layer("block2_conv1")
        kept = layer.get_weights()
        layer.set_weights([weight * 2 for weight in kept])
        try:
            return real(path, what, model, traced)
        finally:
            layer.set_weights(kept)

    monkeypatch.setattr(keras_source, "_graph", of_other_weights)
    values = {"scale": [255.0]}
    with pytest.raises(ConvertError, match=r"first layer whose output differs is block2_conv1 \(Conv2D\)"):
        convert_here(tmp_path / "net.keras", tmp_path / "out.xml", ConvertOptions(values=values))
