"""The manifest inside the IR: where its values come from, which wins, and what is asked for by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from convert_models import save_onnx

from dbinfer.base.errors import ConvertError, ModelFileError, UsageError
from dbinfer.convert import ConvertOptions, convert
from dbinfer.models.ir import embed_manifest, import_openvino, read_manifest
from dbinfer_udf.manifest import Manifest

STATED: dict[str, Any] = {"task": "classification", "activation": "softmax", "scale": [255.0]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return save_onnx(tmp_path / "net.onnx")


def _read(path: Path) -> Any:
    return import_openvino().Core().read_model(str(path))


def test_ir_carries_whole_manifest_and_model_info(source: Path, tmp_path: Path) -> None:
    values = {**STATED, "labels": list("abcde"), "mean": [1, 2, 3], "color": "BGR", "name": "ü <&>"}
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values=values))
    model = _read(report.output)
    assert read_manifest(model) == report.manifest
    for key, value in report.manifest.model_info().items():
        assert model.get_rt_info(["model_info", key]).astype(str) == value
    assert report.manifest.provenance["source_format"] == "onnx"
    assert str(model.get_parameters()[0].get_layout()) == "[N,C,H,W]"


def test_model_without_manifest(source: Path) -> None:
    assert read_manifest(import_openvino().convert_model(str(source))) is None


@pytest.mark.wide
def test_spoilt_manifest_in_a_model(source: Path) -> None:
    model = import_openvino().convert_model(str(source))
    embed_manifest(model, Manifest(task="tensor", height=1, width=1))
    model.set_rt_info('{"task": "guess"}', ["dbinfer", "manifest"])
    with pytest.raises(ModelFileError, match="manifest cannot be used"):
        read_manifest(model)


def test_options_win_over_file_over_zoo(source: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(
        json.dumps({"threshold": 0.3, "resize": "crop", "task": "tensor"})
    )
    options = ConvertOptions(network="unet", values={**STATED, "resize": "fit_to_window"})
    manifest = convert(source, tmp_path / "net.xml", options).manifest
    assert manifest.resize == "fit_to_window"
    assert manifest.threshold == 0.3
    assert (manifest.name, manifest.scale) == ("unet", (255.0,))


@pytest.mark.wide
def test_file_of_the_same_stem_wins_over_the_folder(source: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"pad_value": 1}')
    (tmp_path / "net.manifest.json").write_text('{"pad_value": 2}')
    assert convert(source, tmp_path / "a.xml", ConvertOptions(values=STATED)).manifest.pad_value == 2
    options = ConvertOptions(values=STATED, manifest=tmp_path / "manifest.json")
    assert convert(source, tmp_path / "b.xml", options).manifest.pad_value == 1


def test_assumed_values_are_named(source: Path, tmp_path: Path) -> None:
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values={**STATED, "resize": "crop"}))
    assert report.assumed == ("color", "precision")


@pytest.mark.wide
def test_open_size_is_fixed_by_option(tmp_path: Path) -> None:
    source = save_onnx(tmp_path / "open.onnx", open_size=True)
    with pytest.raises(ConvertError, match="height") as error:
        convert(source, tmp_path / "net.xml", ConvertOptions(values=STATED))
    assert "--input-size" in error.value.hint
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values={**STATED, "input_size": (12, 20)}))
    assert report.inputs[0].shape == (1, 3, 12, 20)
    assert report.check.done


@pytest.mark.parametrize(
    ("left_out", "option"), [("task", "--task"), ("activation", "--activation"), ("scale", "--scale")]
)
def test_unknown_is_asked_for(source: Path, tmp_path: Path, left_out: str, option: str) -> None:
    values = {key: value for key, value in STATED.items() if key != left_out}
    with pytest.raises(ConvertError) as error:
        convert(source, tmp_path / "net.xml", ConvertOptions(values=values))
    assert option in error.value.hint
    assert not list(tmp_path.glob("*.xml"))


def test_all_that_is_missing_is_asked_for_at_once(tmp_path: Path) -> None:
    source = save_onnx(tmp_path / "open.onnx", open_size=True)
    with pytest.raises(ConvertError) as error:
        convert(source, tmp_path / "net.xml")
    assert error.value.message == (
        "the model does not say its task, its height and width, its activation and how pixels become its input"
    )
    asked = {
        "--task": "classification",
        "--input-size": "224x224",
        "--activation": "softmax",
        "--scale": "255",
    }
    assert error.value.words == tuple(word for pair in asked.items() for word in pair)
    assert all(option in error.value.hint for option in (*asked, "--mean"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"labels": ["a", "b"]}, "2 labels, but the model has 5 classes"),
        ({"height": 32, "width": 32}, "says height 32, but the model's input has 16"),
        ({"mean": [0.485, 0.456, 0.406], "scale": [0.229, 0.224, 0.225]}, "grey levels of 0..255"),
        ({"resize": "squash"}, "resize is 'squash'"),
        ({"mean": [1.0, 2.0]}, "mean has 2 values"),
        ({"colour": "RGB"}, "unknown key 'colour'"),
    ],
)
def test_contradictions(source: Path, tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises((ConvertError, UsageError), match=message):
        convert(source, tmp_path / "net.xml", ConvertOptions(values={**STATED, **values}))


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "is a JSON list")])
def test_broken_manifest_file(source: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises((ConvertError, UsageError), match=message):
        convert(source, tmp_path / "net.xml", ConvertOptions(values=STATED))


def test_unknown_zoo_network(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match="no network 'lenet'"):
        convert(source, tmp_path / "net.xml", ConvertOptions(network="lenet", values=STATED))


def test_zoo_network_needs_no_options(tmp_path: Path) -> None:
    from dbinfer_models import NETWORKS

    NETWORKS["digits"].build().save(tmp_path / "best.keras")
    report = convert(tmp_path / "best.keras", tmp_path / "best.xml")
    assert report.assumed == ()
    stated = NETWORKS["digits"].manifest().to_dict()
    assert {**report.manifest.to_dict(), "provenance": {}} == stated


@pytest.mark.wide
def test_layout_that_the_shape_leaves_open(tmp_path: Path) -> None:
    import keras

    image = keras.Input((3, 8, 3))
    mask = keras.layers.Conv2D(1, 1, activation="sigmoid")(image)
    keras.Model(image, mask).save(tmp_path / "net.keras")
    values = {"scale": [255.0]}
    with pytest.raises(ModelFileError, match="which dimension holds the channels"):
        convert(tmp_path / "net.keras", tmp_path / "net.xml", ConvertOptions(values=values))
    options = ConvertOptions(values=values, layout="NHWC")
    manifest = convert(tmp_path / "net.keras", tmp_path / "net.xml", options).manifest
    assert (manifest.height, manifest.width) == (3, 8)
