"""Every source format becomes an IR that gives what its source gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_models import (
    images,
    run_ir,
    save_as_keras2,
    save_frozen,
    save_frozen_tf1,
    save_onnx,
    save_tflite,
    small_classifier,
    small_unet,
)
from float32 import tolerance
from variants import wide

from dbinfer.convert import ConvertOptions, ConvertReport, convert

SCALE = {"scale": [255.0]}
# The longest chain is the U-Net's: 13 convolutions, of at most 3 * 3 * 8 terms; probabilities are at most 1
ROUNDING = tolerance(1.0, 13, 3 * 3 * 8)


@pytest.fixture(scope="module")
def unet() -> Any:
    return small_unet()


def _unet_keras(model: Any, folder: Path) -> Path:
    model.save(folder / "net.keras")
    return folder / "net.keras"


def _unet_h5(model: Any, folder: Path) -> Path:
    model.save(folder / "net.h5")
    return folder / "net.h5"


def _unet_keras2(model: Any, folder: Path) -> Path:
    return save_as_keras2(model, folder / "net.h5")


def _unet_saved_model(model: Any, folder: Path) -> Path:
    model.export(folder / "net", verbose=False)
    return folder / "net"


def _unet_frozen(model: Any, folder: Path) -> Path:
    return save_frozen(model, folder / "net.pb")


def _unet_tflite(model: Any, folder: Path) -> Path:
    return save_tflite(model, folder / "net.tflite")


@pytest.mark.parametrize(
    ("save", "name"),
    [
        (_unet_keras, "keras"),
        *wide(
            (_unet_tflite, "tflite"),
            (_unet_h5, "keras-h5"),
            (_unet_keras2, "keras-h5"),
            (_unet_saved_model, "savedmodel"),
            (_unet_frozen, "tensorflow-pb"),
        ),
    ],
)
def test_unet_gives_the_same_mask(
    unet: Any, save: Callable[[Any, Path], Path], name: str, tmp_path: Path
) -> None:
    report = convert(save(unet, tmp_path), tmp_path / "net.xml", ConvertOptions(values=SCALE))
    x = images(1)
    mask = np.asarray(unet(x))
    np.testing.assert_allclose(run_ir(report.output, x), mask, atol=ROUNDING)
    assert np.ptp(mask) > 0.05, "a constant mask would prove nothing"
    assert mask.max() < 0.99, "a saturated mask would prove nothing"
    assert report.source_format == name
    assert report.manifest.task == "segmentation"
    _assert_checked(report)


def _assert_checked(report: ConvertReport) -> None:
    assert report.check.done, report.check.reason
    assert report.check.difference is not None
    assert report.check.difference <= ROUNDING * max(1.0, report.check.magnitude)


def test_keras2_file_is_one_that_keras3_refuses(unet: Any, tmp_path: Path) -> None:
    import keras

    with pytest.raises((TypeError, ValueError)):
        keras.models.load_model(save_as_keras2(unet, tmp_path / "net.h5"), compile=False)


@pytest.mark.wide
def test_sequential_that_cannot_be_traced(tmp_path: Path) -> None:
    model = small_classifier()
    model.save(tmp_path / "net.keras")
    report = convert(tmp_path / "net.keras", tmp_path / "net.xml", ConvertOptions(values=SCALE))
    x = images(2)
    np.testing.assert_allclose(run_ir(report.output, x), np.asarray(model(x)), atol=ROUNDING)
    assert report.manifest.task == "classification"
    _assert_checked(report)


@pytest.mark.wide
def test_frozen_graph_of_tensorflow_1(tmp_path: Path) -> None:
    source = save_frozen_tf1(tmp_path / "net.pb")
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values=SCALE))
    assert report.outputs[0].shape == (-1, 3)
    assert report.manifest.activation == "none"
    _assert_checked(report)


def test_onnx(tmp_path: Path) -> None:
    from onnxruntime import InferenceSession

    source = save_onnx(tmp_path / "net.onnx")
    values = {"task": "classification", "activation": "softmax", **SCALE}
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values=values))
    x = np.ascontiguousarray(images(1).transpose(0, 3, 1, 2))
    np.testing.assert_allclose(
        run_ir(report.output, x), InferenceSession(str(source)).run(None, {"image": x})[0], atol=ROUNDING
    )
    _assert_checked(report)


def test_onnx_output_chosen_by_name(tmp_path: Path) -> None:
    source = save_onnx(tmp_path / "net.onnx", outputs=2)
    options = ConvertOptions(output_name="flat", values={"task": "embedding", **SCALE})
    report = convert(source, tmp_path / "net.xml", options)
    assert [port.name for port in report.outputs] == ["flat"]
    _assert_checked(report)


@pytest.mark.wide
def test_fp16_is_half_the_size_and_still_close(unet: Any, tmp_path: Path) -> None:
    source = _unet_keras(unet, tmp_path)
    full = convert(source, tmp_path / "full.xml")
    half = convert(source, tmp_path / "half.xml", ConvertOptions(weights="fp16"))
    assert half.weights_file.stat().st_size < 0.6 * full.weights_file.stat().st_size
    assert full.check.difference is not None
    assert half.check.difference is not None
    assert full.check.difference < half.check.difference < 1e-2
