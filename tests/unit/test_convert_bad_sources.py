"""Sources that cannot be used: one clear sentence each, and nothing is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from convert_models import save_onnx, small_classifier
from variants import wide

from dbinfer.base.errors import ConvertError, DbinferError, ModelFileError
from dbinfer.convert import ConvertOptions, convert
from dbinfer.convert.conversion import convert_here

STATED: dict[str, Any] = {"task": "classification", "activation": "softmax", "scale": [255.0]}


def _refused(source: Path, match: str, convert: Any = convert) -> DbinferError:
    output = source.parent / "out.xml"
    with pytest.raises((ConvertError, ModelFileError), match=match) as error:
        convert(source, output, ConvertOptions(values=STATED))
    assert "\n" not in error.value.message
    assert not list(source.parent.glob("*out*"))
    return error.value


def test_missing(tmp_path: Path) -> None:
    _refused(tmp_path / "none.onnx", "there is no file or folder")


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").touch()
    _refused(tmp_path / "net.onnx", "is empty")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("net.bin", "dbinfer deploy"),
        ("net.pt", "torch.onnx.export"),
        ("net.txt", "SavedModel"),
        ("net", "Known"),
    ],
)
def test_unknown_ending(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / name).write_text("x")
    assert hint in _refused(tmp_path / name, "ending").hint


@pytest.mark.parametrize("name", ["net.keras", "net.h5", "net.onnx", "net.pb", "net.tflite"])
def test_garbage(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)) * 20)
    _refused(tmp_path / name, name)


def test_folder_that_is_no_saved_model(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    _refused(tmp_path / "folder", "not a SavedModel")


def test_file_inside_a_saved_model(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    assert str(tmp_path) in _refused(tmp_path / "saved_model.pb", "part of a SavedModel").hint


def test_cut_off_onnx(tmp_path: Path) -> None:
    path = save_onnx(tmp_path / "net.onnx")
    path.write_bytes(path.read_bytes()[:300])
    _refused(path, "cannot be read as an ONNX model")


@pytest.mark.parametrize("name", ["net.keras", *wide("net.h5")])
def test_cut_off_keras(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    small_classifier().save(path)
    path.write_bytes(path.read_bytes()[:-500])
    _refused(path, name)


@pytest.mark.wide
def test_weights_only(tmp_path: Path) -> None:
    small_classifier().save_weights(tmp_path / "net.weights.h5")
    assert "model.save" in _refused(tmp_path / "net.weights.h5", "contains weights, but not the network").hint


@pytest.mark.wide
def test_layer_of_its_own(tmp_path: Path) -> None:
    import keras

    class Own(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x * 2

    image = keras.Input((16, 16, 3))
    keras.Model(image, Own()(image)).save(tmp_path / "net.keras")
    assert "model.export" in _refused(tmp_path / "net.keras", "uses the class Own, which").hint


def test_lambda_is_not_run(tmp_path: Path) -> None:
    import keras

    image = keras.Input((16, 16, 3))
    keras.Model(image, keras.layers.Lambda(lambda x: x * 2)(image)).save(tmp_path / "net.keras")
    assert "model.export" in _refused(tmp_path / "net.keras", "custom layer").hint


@pytest.mark.wide
def test_two_inputs(tmp_path: Path) -> None:
    _refused(save_onnx(tmp_path / "net.onnx", inputs=2), r"2 inputs \(image, other\)")


@pytest.mark.wide
def test_output_name_that_is_not_there(tmp_path: Path) -> None:
    source = save_onnx(tmp_path / "net.onnx", outputs=2)
    with pytest.raises(ConvertError, match="no output 'nope'"):
        convert(source, tmp_path / "out.xml", ConvertOptions(values=STATED, output_name="nope"))


@pytest.mark.wide
def test_input_that_is_no_image(tmp_path: Path) -> None:
    import keras

    vector = keras.Input((784,))
    keras.Model(vector, keras.layers.Dense(10, activation="softmax")(vector)).save(tmp_path / "net.keras")
    _refused(tmp_path / "net.keras", "needs 4 dimensions")


@pytest.mark.wide
def test_five_channels(tmp_path: Path) -> None:
    import keras

    image = keras.Input((16, 16, 5))
    keras.Model(image, keras.layers.Conv2D(1, 1)(image)).save(tmp_path / "net.keras")
    _refused(tmp_path / "net.keras", "not an image with 1 or 3 channels")


@pytest.mark.parametrize("name", ["net.keras", "net.h5"])
def test_without_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    small_classifier().save(tmp_path / name)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    assert (
        "-m pip install 'tensorflow-cpu>=" in _refused(tmp_path / name, "needs TensorFlow", convert_here).hint
    )


def test_options_and_manifest_are_checked_before_a_framework_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "net.keras"
    source.write_bytes(b"not looked at")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ConvertError, match="the zoo has no network 'digit'; it has alexnet, digits"):
        convert_here(source, tmp_path / "out.xml", ConvertOptions(network="digit"))
    (tmp_path / "manifest.json").write_text("{")
    _refused(source, "manifest.json is not JSON", convert_here)


@pytest.mark.wide
def test_saved_model_without_tensorflow_converts_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_classifier().export(tmp_path / "net", verbose=False)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    report = convert_here(tmp_path / "net", tmp_path / "out.xml", ConvertOptions(values={"scale": [255.0]}))
    assert report.check.reason.startswith("TensorFlow is not installed")
    assert report.written
