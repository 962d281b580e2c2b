"""Networks with several outputs keep them all under their names, or those that are chosen, in that order."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_models import images, run_ir, save_onnx
from float32 import tolerance
from test_convert_detectors import graph, ssd

from dbinfer.base.errors import ConvertError, ModelFileError, UsageError
from dbinfer.convert import ConvertOptions
from dbinfer.convert.conversion import convert_here as convert
from dbinfer.convert.detectors import detector_of
from dbinfer.models.describe import describe
from dbinfer.models.graph import output_names
from dbinfer.models.ir import import_openvino, read_model
from dbinfer.models.prepare import prepare
from dbinfer_udf.manifest import Manifest, ManifestError

SCALE = {"scale": [255.0]}
# three sums at most, the longest of them over 7 * 7 * 32 values
ROUNDING = tolerance(1.0, 3, 7 * 7 * 32)


def by_name(report: Any, x: Any) -> dict[str, Any]:
    """Return what the IR gives, by the names in its manifest."""
    found = import_openvino().compile_model(report.output, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)
    return {name: found[place] for place, name in enumerate(report.manifest.outputs)}


def test_all_outputs_stay_and_are_named(tmp_path: Path) -> None:
    import onnxruntime

    source = save_onnx(tmp_path / "net.onnx", outputs=2)
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values=SCALE))
    assert report.manifest.outputs == ("scores", "flat")
    assert (report.manifest.task, "task" in report.assumed) == ("tensor", True)
    x = np.ascontiguousarray(images(1).transpose(0, 3, 1, 2))
    session = onnxruntime.InferenceSession(str(source))
    expected = dict(zip(("scores", "flat"), session.run(None, {"image": x}), strict=True))
    found = by_name(report, x)
    assert all(np.allclose(found[name], expected[name], atol=ROUNDING) for name in expected)


@pytest.mark.wide
def test_chosen_outputs_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    source = save_onnx(tmp_path / "net.onnx", outputs=2)
    options = ConvertOptions(output_name=["flat", "scores"], values={"task": "embedding", **SCALE})
    report = convert(source, tmp_path / "net.xml", options)
    assert report.manifest.outputs == ("flat", "scores")
    assert [port.shape for port in report.outputs] == [(1, 4), (1, 5)]
    again = convert(report.output, tmp_path / "one.xml", ConvertOptions(output_name="scores"))
    assert (again.manifest.outputs, again.outputs[0].shape) == ((), (1, 5))


@pytest.mark.wide
def test_one_output_has_no_name_in_the_manifest(tmp_path: Path) -> None:
    """Registries know content by its manifest: that of a network with one output is what it was."""
    options = ConvertOptions(values={"task": "classification", "activation": "softmax", **SCALE})
    report = convert(save_onnx(tmp_path / "net.onnx"), tmp_path / "net.xml", options)
    assert "outputs" not in report.manifest.to_dict()


@pytest.mark.wide
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs dbinfer[convert]")
def test_layers_beside_an_output_of_a_keras_model(tmp_path: Path) -> None:
    import keras

    from dbinfer_models import NETWORKS

    model = NETWORKS["digits"].build()
    model.save(tmp_path / "digits.keras")
    options = ConvertOptions(output_name=("scores", "fc1"))
    report = convert(tmp_path / "digits.keras", tmp_path / "digits.xml", options)
    assert (report.manifest.task, report.manifest.outputs) == ("classification", ("scores", "fc1"))
    image = np.random.default_rng(0).random((1, 28, 28, 1), dtype=np.float32)
    features = keras.Model(model.inputs, model.get_layer("fc1").output)(image)
    assert np.allclose(by_name(report, image)["fc1"], np.asarray(features), atol=ROUNDING)


@pytest.mark.wide
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs dbinfer[convert]")
def test_outputs_of_a_keras_model_keep_their_names_whatever_their_order(tmp_path: Path) -> None:
    """Conversion sorts them as they were made; of one shape, they were taken for each other and no check saw it."""
    import keras
    from keras import layers

    image = keras.Input((16, 16, 3))
    early = layers.Conv2D(2, 3, padding="same", name="early")(image)
    late = layers.Conv2D(2, 3, padding="same", name="late")(early)
    model = keras.Model(image, [late, early])
    model.save(tmp_path / "net.keras")
    x = images(1)
    expected = dict(zip(("late", "early"), map(np.asarray, model(x)), strict=True))
    report = convert(tmp_path / "net.keras", tmp_path / "net.xml", ConvertOptions(values=SCALE))
    assert report.manifest.outputs == tuple(expected)
    found = by_name(report, x)
    assert all(np.allclose(found[name], expected[name], atol=ROUNDING) for name in expected)
    chosen = ConvertOptions(output_name="late", values={"task": "tensor", **SCALE})
    report = convert(tmp_path / "net.keras", tmp_path / "one.xml", chosen)
    assert np.allclose(run_ir(report.output, x), expected["late"], atol=ROUNDING)


@pytest.mark.wide
def test_a_manifest_that_names_other_outputs(tmp_path: Path) -> None:
    source = save_onnx(tmp_path / "net.onnx", outputs=2)
    (tmp_path / "manifest.json").write_text(json.dumps({"outputs": ["a", "b"]}))
    with pytest.raises(ConvertError, match=r"says outputs \['a', 'b'\], but the model has scores, flat"):
        convert(source, tmp_path / "net.xml", ConvertOptions(values=SCALE))


def test_names_that_cannot_be_used() -> None:
    with pytest.raises(UsageError, match="--output-name names an output twice: a, a"):
        ConvertOptions(output_name=("a", "a"))
    for names in (["a", "a"], ["a", ""]):
        with pytest.raises(ManifestError, match="must be different names"):
            Manifest.from_dict({"task": "tensor", "height": 1, "width": 1, "outputs": names})
    with pytest.raises(ManifestError, match="outputs is 'ab', but must be a list"):
        Manifest.from_dict({"task": "tensor", "height": 1, "width": 1, "outputs": "ab"})


def test_outputs_without_names_are_numbered() -> None:
    made = graph({"a": np.zeros((1, 2)), "b": np.zeros((1, 3))})
    for output in made.outputs:
        output.set_names(set())
    assert output_names(made) == ("output_0", "output_1")


@pytest.mark.wide
def test_a_manifest_with_more_names_than_outputs_is_not_deployed(tmp_path: Path) -> None:
    report = convert(
        save_onnx(tmp_path / "net.onnx", outputs=2), tmp_path / "net.xml", ConvertOptions(values=SCALE)
    )
    model = read_model(report.output)
    known = describe(model)
    known = replace(known, manifest=replace(known.manifest, outputs=("a", "b", "c")))
    with pytest.raises(ModelFileError, match="has 2 outputs, but its manifest names 3"):
        prepare(model, known)


def test_detectors_on_anchors_are_known_and_not_decoded() -> None:
    """BlazeFace' outputs, in either order: refused for the task detection, kept for any other."""
    boxes, scores = np.zeros((1, 896, 16)), np.zeros((1, 896, 1))
    for outputs in ({"regressors": boxes, "scores": scores}, {"scores": scores, "regressors": boxes}):
        with pytest.raises(
            ConvertError,
            match=r"boxes \(regressors \[1, 896, 16\]\) and scores \(scores \[1, 896, 1\]\) belong to",
        ) as caught:
            detector_of(graph(outputs), ConvertOptions(), "detection")
        assert "--task tensor" in caught.value.hint
        assert detector_of(graph(outputs), ConvertOptions(), None)[1] is None


def test_a_detector_with_a_known_head_still_has_one_output() -> None:
    found = detector_of(graph(ssd()[0]), ConvertOptions(), None)[1]
    assert found is not None
    assert found.name == "ssd"
