"""Quantization: calibration sees what a deployed model sees; the INT8 model agrees, or is not written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yolo_heads
from float32 import tolerance
from quantize_models import SIDE, classifier, pictures

from dbinfer.base.errors import DataError, ModelFileError, UsageError
from dbinfer.convert import calibration, convert
from dbinfer.convert.calibration import Tensors, accuracy, differences, quantize_here
from dbinfer.convert.quantize import QuantizeOptions, quantize_images
from dbinfer.models.agree import agreement, mask_of, overlap
from dbinfer.models.describe import describe
from dbinfer.models.ir import embed_manifest, import_openvino, read_manifest, read_model
from dbinfer.models.prepare import prepare
from dbinfer_udf.image.decode import Decoder, target_of
from dbinfer_udf.image.resize import Resizer
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.mask import mask_layout


def jpeg(seed: int = 0) -> bytes:
    random = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return bytes(cv2.imencode(".jpg", random)[1].tobytes())


@pytest.mark.parametrize("order", ["NHWC", "NCHW"])
def test_tensors_equal_the_prepared_graphs_own_preprocessing(tmp_path: Path, order: str) -> None:
    ov = import_openvino()
    from openvino import opset13 as ops

    manifest = Manifest(task="tensor", height=16, width=24, color="BGR", mean=(10, 20, 30), scale=(2, 3, 4))
    shape = [1, 16, 24, 3] if order == "NHWC" else [1, 3, 16, 24]
    image = ops.parameter(shape, np.float32, name="image")
    graph = ov.Model([ops.result(ops.multiply(image, np.float32(1)))], [image], "same")
    embed_manifest(graph, manifest)
    ov.save_model(graph, tmp_path / "m.xml", compress_to_fp16=False)
    model = read_model(tmp_path / "m.xml")
    files = prepare(model, describe(model, layout=order))
    (tmp_path / "p.xml").write_bytes(files.xml)
    (tmp_path / "p.bin").write_bytes(files.bin)

    pixels = np.empty((16, 24, 3), np.uint8)
    Resizer(manifest).resize(Decoder("BGR", target=target_of(manifest))(jpeg())[0], pixels)
    compiled = ov.Core().compile_model(tmp_path / "p.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    expected = compiled(pixels[None])[0]
    np.testing.assert_allclose(Tensors(manifest, order)(jpeg()), expected, atol=tolerance(255.0, 2))


def test_a_row_that_is_no_image_is_named() -> None:
    make = Tensors(Manifest(task="tensor", height=4, width=4), "NHWC")
    with pytest.raises(DataError, match="cannot be used"):
        make(b"not an image")


def manifest(task: str, **values: Any) -> Manifest:
    return Manifest(task=task, height=4, width=4, **values)


def outputs(*rows: list[float]) -> list[np.ndarray]:
    return [np.array([row], np.float32) for row in rows]


def test_top1_agreement_is_the_share_of_equal_classes() -> None:
    first = outputs([0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7])
    second = outputs([0.8, 0.2], [0.4, 0.6], [0.4, 0.6], [0.3, 0.7])
    assert agreement(manifest("classification"), first, second) == ("top-1", 0.75)


def test_masks_agree_by_intersection_over_union() -> None:
    first, second = np.zeros((1, 4, 4, 1), np.float32), np.zeros((1, 4, 4, 1), np.float32)
    first[0, :2], second[0, :1] = 0.9, 0.9
    assert agreement(manifest("segmentation"), [first], [second]) == ("IoU", 0.5)


def test_two_empty_masks_agree() -> None:
    empty = np.zeros((4, 4), np.int64)
    assert overlap(empty, empty) == 1.0
    assert overlap(empty, empty + 1) == 0.0


def test_embeddings_agree_by_their_angle() -> None:
    measure, value = agreement(manifest("embedding"), outputs([1.0, 0.0]), outputs([1.0, 1.0]))
    assert measure == "cosine"
    assert value == pytest.approx(0.5**0.5)


def test_differences_are_of_single_values() -> None:
    assert differences(outputs([0.0, 1.0]), outputs([0.5, 1.0])) == (0.5, 0.25)


def test_labels_are_numbers_or_names() -> None:
    m = manifest("classification", labels=("cat", "dog"))
    scores = outputs([0.9, 0.1], [0.2, 0.8], [0.2, 0.8], [0.2, 0.8])
    assert accuracy(m, scores, ["cat", "dog", 1, "cat"]) == 0.75


def test_scores_far_from_zero_overflow_nothing() -> None:
    m, layout = manifest("segmentation", activation="sigmoid"), mask_layout((1, 1, 3, 1))
    values = np.array([-200.0, 0.1, 200.0], np.float32).reshape(1, 1, 3, 1)
    with np.errstate(over="raise"):
        assert mask_of(m, layout, values).tolist() == [[0, 1, 1]]


def test_detectors_agree_by_the_boxes_that_both_find() -> None:
    a = np.array([[[0, 0, 2, 2, 0.9, 0], [2, 2, 4, 4, 0.8, 1], [0, 0, 1, 1, 0.1, 0]]], np.float32)
    moved = a + np.array([0.2, 0, 0.2, 0, 0, 0], np.float32)
    other = a + np.array([0, 0, 0, 0, 0, 5], np.float32)
    kind = manifest("detection")
    assert agreement(kind, [a], [moved]) == ("boxes", 1.0)
    assert agreement(kind, [a], [other]) == ("boxes", 0.0)
    assert agreement(kind, [a], [a[:, :1]]) == ("boxes", pytest.approx(2 / 3))
    assert agreement(kind, [a * 0], [a * 0]) == ("boxes", 1.0)


pytest.importorskip("nncf")


def test_the_result_agrees_and_carries_the_manifest(tmp_path: Path) -> None:
    source, output = classifier(tmp_path), tmp_path / "net-int8.xml"
    files, labels = pictures(30)
    labelled = list(zip(files[15:], labels[15:], strict=True))
    options = QuantizeOptions(subset=15)
    report = quantize_images(source, output, files[:15], files[15:], options, labelled)
    assert (report.measure, report.agreement) == ("top-1", 1.0)
    assert (report.original.accuracy, report.quantized.accuracy) == (1.0, 1.0)
    assert (report.calibrated, report.compared, report.held_out) == (15, 15, True)
    assert 0 < report.mean_difference <= report.max_difference < 0.05

    graph = import_openvino().Core().read_model(output)
    manifest = read_manifest(graph)
    assert manifest is not None
    assert (manifest.name, manifest.labels) == ("net", ("red", "green", "blue"))
    assert manifest.metrics["int8_top-1"] == 1.0
    assert "FakeQuantize" in {op.get_type_name() for op in graph.get_ops()}


def test_below_the_limit_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "agreement", lambda *rest: ("top-1", 0.9))
    output = tmp_path / "net-int8.xml"
    with pytest.raises(DataError, match=r"0\.9000 .*nothing was written"):
        quantize_here(classifier(tmp_path), output, pictures(5)[0], [], QuantizeOptions(subset=5))
    assert not output.exists()
    assert not output.with_suffix(".bin").exists()


@pytest.mark.wide
def test_an_output_that_is_there_needs_force(tmp_path: Path) -> None:
    source, output = classifier(tmp_path), tmp_path / "taken.xml"
    output.write_text("mine")
    with pytest.raises(ModelFileError, match="already exists"):
        quantize_images(source, output, pictures(3)[0], [], QuantizeOptions())
    assert output.read_text() == "mine"
    quantize_images(source, output, pictures(3)[0], [], QuantizeOptions(force=True))
    assert output.with_suffix(".bin").exists()


def test_several_outputs_are_refused_before_the_work(tmp_path: Path) -> None:
    graph = import_openvino().Core().read_model(classifier(tmp_path))
    graph.add_outputs(graph.get_ordered_ops()[-3].output(0))
    import_openvino().save_model(graph, tmp_path / "two.xml")
    with pytest.raises(DataError, match=r"two\.xml has 2 outputs \(.*, .*\), but quantize") as caught:
        quantize_images(tmp_path / "two.xml", tmp_path / "int8.xml", pictures(3)[0], [], QuantizeOptions())
    assert "--output-name" in caught.value.hint


@pytest.mark.wide
def test_detectors_are_compared_by_their_boxes(tmp_path: Path) -> None:
    """Masks or keypoints stand behind them as further outputs."""
    ov = import_openvino()
    from openvino import opset13 as ops

    network = ov.Core().read_model(classifier(tmp_path))
    features = next(
        one for one in reversed(network.get_ordered_ops()) if one.get_type_name() == "Relu"
    ).output(0)
    parts = {"detections": (1, 128, 6), "points": (1, 128, 6)}
    ends = [ops.result(ops.reshape(features, np.array(shape), False)) for shape in parts.values()]
    for end, name in zip(ends, parts, strict=True):
        end.get_output_tensor(0).set_names({name})
    graph = ov.Model(ends, network.get_parameters(), "boxes")
    manifest = Manifest(
        task="detection", height=SIDE, width=SIDE, scale=(255.0,), threshold=0.1, outputs=tuple(parts)
    )
    embed_manifest(graph, manifest)
    ov.save_model(graph, tmp_path / "boxes.xml", compress_to_fp16=False)
    made = tmp_path / "int8.xml"
    report = quantize_images(tmp_path / "boxes.xml", made, pictures(6)[0], [], QuantizeOptions(limit=0))
    assert report.measure == "boxes"
    assert [one.get_any_name() for one in read_model(made).graph.outputs] == list(parts)


def test_what_nncf_cannot_quantize_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """Such as this network, whose bias belongs to a product of matrices."""
    source = convert(yolo_heads.save(tmp_path / "pose.onnx", "pose"), tmp_path / "pose.xml").output
    with pytest.raises(ModelFileError, match=r"^NNCF cannot quantize this model: "):
        quantize_images(source, tmp_path / "int8.xml", pictures(3)[0], [], QuantizeOptions(limit=0))
    assert not (tmp_path / "int8.xml").exists()


def test_the_output_is_an_xml_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"must end in \.xml"):
        quantize_images(classifier(tmp_path), tmp_path / "net.onnx", [], [], QuantizeOptions())


@pytest.mark.parametrize(("name", "value"), [("subset", 0), ("limit", 1.5), ("limit", -0.1)])
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        QuantizeOptions(**{name: value})  # type: ignore[arg-type]
