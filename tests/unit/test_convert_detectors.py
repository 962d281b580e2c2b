"""Heads of detectors: what OpenVINO's operations give equals a reference in numpy, written from the publications."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yolo_heads
from variants import wide

from dbinfer.base.errors import ConvertError, UsageError
from dbinfer.convert import ConvertOptions
from dbinfer.convert.conversion import convert_here as convert
from dbinfer.convert.detectors import HEADS, detector_of, with_rows
from dbinfer.convert.options import DETECTORS
from dbinfer.models.describe import describe
from dbinfer.models.graph import dimensions, port
from dbinfer.models.ir import import_openvino, read_model
from dbinfer_udf.manifest import Manifest

HEIGHT, WIDTH = 64, 96
CELLS = 8 * 12 + 4 * 6 + 2 * 3
RANDOM = np.random.default_rng(7)
Outputs = dict[str, np.ndarray]


def graph(outputs: Outputs, open_rows: bool = False, height: int = HEIGHT) -> Any:
    """Return a network of one image that answers with these values, whatever it sees."""
    ov = import_openvino()
    from openvino import opset13 as ops

    image = ops.parameter([1, height, WIDTH, 3], np.float32, name="image")
    nothing = ops.multiply(ops.reduce_mean(image, np.array([0, 1, 2, 3]), False), np.float32(0))
    results = []
    for name, values in outputs.items():
        node = ops.add(ops.constant(values.astype(np.float32)), nothing)
        if open_rows:
            node = opened(ops, node, nothing, values)
        result = ops.result(node)
        result.get_output_tensor(0).set_names({name})
        results.append(result)
    return ov.Model(results, [image], "tiny")


def opened(ops: Any, node: Any, nothing: Any, values: np.ndarray) -> Any:
    """Return the node with an open number of rows along its longest axis."""
    axis = int(np.argmax(values.shape))
    end = ops.unsqueeze(ops.convert(ops.add(nothing, np.float32(values.shape[axis])), "i64"), np.int64(0))
    zero, one, along = (ops.constant(np.array([n], np.int64)) for n in (0, 1, axis))
    return ops.slice(node, zero, end, one, along)


def rows_of(name: str | None, outputs: Outputs, open_rows: bool = False) -> np.ndarray:
    """Return what the converted graph gives; the head is recognised where none is named."""
    made = graph(outputs, open_rows)
    task = None if name else "detection"
    made, detector = detector_of(made, ConvertOptions(detector=name), task)
    assert detector is not None
    finished = with_rows(made, detector, Manifest("detection", HEIGHT, WIDTH))
    assert -1 not in dimensions(finished.outputs[0])
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    found = import_openvino().compile_model(finished, "CPU", config)(
        np.zeros((1, HEIGHT, WIDTH, 3), np.float32)
    )
    return np.asarray(found[0])[0]


def counted(found: np.ndarray) -> np.ndarray:
    """Return the rows that are no padding."""
    return found[found[:, 4] > 0]


def ssd() -> tuple[Outputs, np.ndarray]:
    box, score = np.sort(RANDOM.random((1, 20, 2, 2)), 2), -np.sort(-RANDOM.random((1, 20)))
    classes = RANDOM.integers(1, 91, (1, 20))
    outputs = {
        "detection_anchor_indices": RANDOM.random((1, 20)),
        "detection_boxes": box.reshape(1, 20, 4),
        "detection_classes": classes,
        "detection_scores": score,
        "num_detections": np.array([12]),
    }
    expected = [
        [x0 * WIDTH, y0 * HEIGHT, x1 * WIDTH, y1 * HEIGHT, s, c - 1]
        for ((y0, x0), (y1, x1)), s, c in zip(box[0], score[0], classes[0], strict=True)
    ]
    return outputs, np.array(expected[:12])


def detection_output() -> tuple[Outputs, np.ndarray]:
    box, score = np.sort(RANDOM.random((20, 2, 2)), 1).reshape(20, 4), -np.sort(-RANDOM.random(20))
    number, image = RANDOM.integers(0, 4, 20), np.zeros(20)
    image[9:] = -1
    output = np.column_stack([image, number, score, box])[None, None]
    rows = np.column_stack([box * [WIDTH, HEIGHT, WIDTH, HEIGHT], score, number])
    return {"detection_out": output}, rows[:9]


def boxes_labels() -> tuple[Outputs, np.ndarray]:
    box, score = np.sort(RANDOM.random((20, 2, 2)) * 60, 1).reshape(20, 4), -np.sort(-RANDOM.random(20))
    labels = RANDOM.integers(0, 4, 20)
    return {"boxes": np.column_stack([box, score]), "labels": labels}, np.column_stack([box, score, labels])


def boxes_labels_scores() -> tuple[Outputs, np.ndarray]:
    outputs, expected = boxes_labels()
    box = outputs["boxes"]
    return {"boxes": box[:, :4], "labels": outputs["labels"], "scores": box[:, 4]}, expected


def yolov5() -> tuple[Outputs, np.ndarray]:
    raw = RANDOM.random((1, 3 * CELLS, 5 + 4)) * ([40] * 4 + [1] * 5)
    return {"output0": raw}, np.array([anchored(row[:4], row[5:] * row[4]) for row in raw[0]])


def yolov8() -> tuple[Outputs, np.ndarray]:
    raw = RANDOM.random((1, CELLS, 4 + 3)) * ([40] * 4 + [1] * 3)
    return {"output0": raw.transpose(0, 2, 1)}, np.array([anchored(row[:4], row[4:]) for row in raw[0]])


def anchored(box: np.ndarray, classes: np.ndarray) -> list[float]:
    x, y, width, height = box
    corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    return [*corners, classes.max(), float(classes.argmax())]


def yolox() -> tuple[Outputs, np.ndarray]:
    raw, expected, place = RANDOM.random((1, CELLS, 5 + 2)), [], 0
    for stride in (8, 16, 32):
        for y in range(HEIGHT // stride):
            for x in range(WIDTH // stride):
                row = raw[0, place]
                box = [(row[0] + x) * stride, (row[1] + y) * stride, *(np.exp(row[2:4]) * stride)]
                expected.append(anchored(np.array(box), row[5:] * row[4]))
                place += 1
    return {"output": raw}, np.array(expected)


def centers() -> tuple[Outputs, np.ndarray]:
    heat, size = RANDOM.random((1, 16, 24, 3)), RANDOM.random((1, 16, 24, 2)) * 30
    offset, expected = RANDOM.random((1, 16, 24, 2)), []
    for y, x, number in np.ndindex(16, 24, 3):
        around = heat[0, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2, number]
        if heat[0, y, x, number] == around.max():
            at = [(x + offset[0, y, x, 0]) * 4, (y + offset[0, y, x, 1]) * 4]
            row = anchored(np.array([*at, *size[0, y, x]]), np.array([heat[0, y, x, number]]))
            expected.append([*row[:5], number])
    return {"heatmap": heat, "size": size, "offset": offset}, np.array(expected)


def blazeface() -> tuple[Outputs, np.ndarray]:
    """Two anchors in each cell of 8 pixels, then six in each of 16; one point beside each box."""
    raw, logits = RANDOM.normal(0, 20, (1, 336, 6)), RANDOM.normal(0, 3, (1, 336, 1))
    places = [
        ((x + 0.5) * stride, (y + 0.5) * stride)
        for stride, each in ((8, 2), (16, 6))
        for y, x in np.ndindex(HEIGHT // stride, WIDTH // stride)
        for _ in range(each)
    ]
    expected = [
        anchored(box[:4] + np.array([*place, 0, 0]), 1 / (1 + np.exp(-score)))
        for box, place, score in zip(raw[0], places, logits[0], strict=True)
    ]
    return {"regressors": raw, "classificators": logits}, np.array(expected)


def raw_ssd(classes: int) -> tuple[Outputs, list[list[float]], np.ndarray]:
    """Return outputs, anchors and rows, as TensorFlow's FasterRcnnBoxCoder decodes them."""
    anchors, raw = RANDOM.uniform(0.1, 0.9, (50, 4)), RANDOM.normal(0, 2, (50, 4))
    logits = RANDOM.normal(0, 3, (50, classes))
    expected = []
    for (x, y, width, height), (ty, tx, th, tw), scores in zip(anchors, raw, logits, strict=True):
        box = [tx / 10 * width + x, ty / 10 * height + y, np.exp(tw / 5) * width, np.exp(th / 5) * height]
        expected.append(anchored(np.array(box) * [WIDTH, HEIGHT, WIDTH, HEIGHT], 1 / (1 + np.exp(-scores))))
    return {"scores": logits[None], "deltas": raw[None]}, anchors.tolist(), np.array(expected)


def own_rows() -> tuple[Outputs, np.ndarray]:
    rows = RANDOM.random((1, 300, 6))
    return {"output0": rows}, rows[0]


CASES: dict[str, Callable[[], tuple[Outputs, np.ndarray]]] = {
    "ssd": ssd,
    "detection_output": detection_output,
    "boxes_labels": boxes_labels,
    "yolov5": yolov5,
    "yolov8": yolov8,
    "yolox": yolox,
    "centers": centers,
    "blazeface": blazeface,
    "rows": own_rows,
}


@pytest.mark.parametrize("named", [False, *wide(True)], ids=["recognised", "named"])
@pytest.mark.parametrize("name", CASES)
def test_a_head_equals_its_reference(name: str, named: bool) -> None:
    outputs, expected = CASES[name]()
    found = counted(rows_of(name if named else None, outputs))
    assert by_score(found) == pytest.approx(by_score(expected)[: len(found)], abs=2e-4)
    assert len(found) == min(len(expected), 300 if name == "centers" else len(expected))


def test_points_of_blazeface() -> None:
    """From the centre of the box's anchor, in pixels; as sure as the box."""
    outputs, expected = blazeface()
    graph_of, detector = detector_of(graph(outputs), ConvertOptions(), "detection")
    assert detector is not None
    finished = with_rows(graph_of, detector, Manifest("detection", HEIGHT, WIDTH))
    assert [port(one).name for one in finished.outputs] == ["detections", "points"]
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    found = import_openvino().compile_model(finished, "CPU", config)(
        np.zeros((1, HEIGHT, WIDTH, 3), np.float32)
    )
    raw = outputs["regressors"][0]
    centres = (expected[:, :2] + expected[:, 2:4]) / 2 - raw[:, :2]
    assert found[1][0] == pytest.approx(np.column_stack([raw[:, 4:] + centres, expected[:, 4]]), abs=2e-4)


def by_score(rows: np.ndarray) -> np.ndarray:
    return rows[np.argsort(-rows[:, 4], kind="stable")]


@pytest.mark.parametrize("name", ["ssd", "detection_output", "boxes_labels"])
def test_an_open_number_of_boxes_becomes_a_fixed_one(name: str) -> None:
    outputs, expected = CASES[name]()
    found = rows_of(name, outputs, open_rows=True)
    assert found.shape == (300, 6)
    assert counted(found) == pytest.approx(by_score(expected), abs=2e-4)


def test_boxes_with_scores_of_their_own() -> None:
    outputs, expected = boxes_labels_scores()
    assert counted(rows_of(None, outputs)) == pytest.approx(expected, abs=2e-4)


def test_centre_maps_with_channels_first() -> None:
    outputs, _ = centers()
    turned = {name: values.transpose(0, 3, 1, 2) for name, values in outputs.items()}
    assert rows_of("centers", turned) == pytest.approx(rows_of("centers", outputs))


def save(made: Any, path: Path, **stated: Any) -> Path:
    """Write a network as an IR of another tool, with a manifest beside it."""
    import_openvino().save_model(made, path, compress_to_fp16=False)
    path.with_name(f"{path.stem}.manifest.json").write_text(json.dumps({"scale": [1], **stated}))
    return path


def test_the_manifest_states_the_table_of_anchors(tmp_path: Path) -> None:
    """Of TensorFlow's SSD, whose first class is a background where there is one label less than scores."""
    for name, labels in (("plain", ["a", "b", "c", "d", "e", "f"]), ("behind", ["b", "c", "d", "e", "f"])):
        outputs, anchors, expected = raw_ssd(6)
        if name == "behind":
            best = 1 / (1 + np.exp(-outputs["scores"][0, :, 1:]))
            expected[:, 4], expected[:, 5] = best.max(1), best.argmax(1)
        source = save(
            graph(outputs), tmp_path / f"{name}.xml", task="detection", anchors=anchors, labels=labels
        )
        report = convert(source, tmp_path / "out" / f"{name}.xml")
        assert report.detector == "raw_ssd (recognised)"
        assert report.manifest.iou_threshold == 0.6
        image = np.zeros((1, HEIGHT, WIDTH, 3), np.float32)
        found = import_openvino().compile_model(report.output, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(
            image
        )
        assert found[0][0] == pytest.approx(expected, abs=2e-3)
        # the graph has them now
        assert "anchors" not in report.manifest.to_dict()
        assert convert(report.output, tmp_path / "out" / f"{name}-2.xml").detector == "rows (recognised)"


def test_a_table_of_anchors_of_another_size_is_refused() -> None:
    outputs, anchors, _ = raw_ssd(2)
    for wrong in (
        anchors[:-1],
        [row[:3] for row in anchors],
        "anchors",
        [[1, 2, 3, "x"]],
        [None],
        7,
        [[10**400] * 4] * 50,
    ):
        with pytest.raises(ConvertError, match="the manifest's anchors are not 50 rows of 4 numbers"):
            detector_of(graph(outputs), ConvertOptions(), "detection", wrong)
    with pytest.raises(
        ConvertError, match=r"belong to anchors, and the file does not hold their table"
    ) as caught:
        detector_of(graph(outputs), ConvertOptions(detector="raw_ssd"), "detection")
    assert '"anchors": [[x, y, width, height], ...]' in (caught.value.hint or "")
    with pytest.raises(ConvertError, match=r"of the form blazeface has boxes \[1, N, 4 or more\] and scores"):
        detector_of(graph(yolov8()[0]), ConvertOptions(detector="blazeface"), "detection")


def test_every_head_can_be_named() -> None:
    assert tuple(HEADS) == DETECTORS
    with pytest.raises(UsageError, match="detector is 'yolo', but must be one of ssd"):
        ConvertOptions(detector="yolo")


@pytest.mark.parametrize(
    ("name", "outputs", "said"),
    [
        ("ssd", yolov8, "a detector of the form ssd has an output 'detection_boxes', but the model has"),
        ("yolov8", ssd, "a detector of the form yolov8 has one output, but the model has 5"),
        ("detection_output", yolov8, "the outputs are not those of detection_output"),
    ],
)
def test_outputs_of_another_form_are_refused(name: str, outputs: Any, said: str) -> None:
    with pytest.raises(ConvertError, match=said):
        rows_of(name, outputs()[0])


def test_a_detector_of_unknown_form_is_asked_for() -> None:
    with pytest.raises(ConvertError, match=r"not of a known form: output \[1, 7, 7\]") as refused:
        detector_of(graph({"output": np.zeros((1, 7, 7))}), ConvertOptions(), "detection")
    assert "Name the form with --detector: ssd" in (refused.value.hint or "")


def test_what_is_no_detector_stays_what_it_is() -> None:
    made = graph({"scores": np.zeros((1, 10))})
    assert detector_of(made, ConvertOptions(), None) == (made, None)
    assert detector_of(graph(yolov8()[0]), ConvertOptions(), "tensor")[1] is None


def test_convert_writes_a_detector_that_deploys(tmp_path: Path) -> None:
    """From an ONNX file with YOLO's head to an IR with one output of rows, its values assumed and said."""
    source = yolo_file(tmp_path / "net.onnx")
    report = convert(source, tmp_path / "net.xml", ConvertOptions(values={"labels": ["a", "b", "c"]}))
    assert report.detector == "yolov8 (recognised)"
    assert {"resize", "pad_value", "iou_threshold", "threshold", "scale"} <= set(report.assumed)
    assert report.check.difference is not None
    manifest = describe(read_model(report.output)).manifest
    assert (manifest.task, manifest.iou_threshold, manifest.pad_value) == ("detection", 0.7, 114)
    assert report.outputs[0].shape == (1, CELLS, 6)


@pytest.mark.parametrize("kind", ["segment", *wide("pose")])
def test_what_was_converted_is_converted_again(tmp_path: Path, kind: str) -> None:
    """It keeps what belongs to its rows."""
    first = convert(yolo_heads.save(tmp_path / f"{kind}.onnx", kind), tmp_path / "first.xml")
    second = convert(first.output, tmp_path / "second.xml")
    assert second.detector == "rows (recognised)"
    assert replace(second.manifest, provenance=first.manifest.provenance) == first.manifest


def test_what_was_blazeface_is_not_taken_for_it_again(tmp_path: Path) -> None:
    """Its points and rows look like its raw boxes and scores."""
    first = convert(save(graph(blazeface()[0]), tmp_path / "faces.xml"), tmp_path / "out" / "first.xml")
    assert first.detector == "blazeface (recognised)"
    second = convert(first.output, tmp_path / "out" / "second.xml")
    assert (second.detector, second.manifest.outputs) == ("rows (recognised)", first.manifest.outputs)


def test_an_ir_of_model_api_keeps_what_it_says(tmp_path: Path) -> None:
    outputs, expected = boxes_labels()
    made = graph(outputs)
    for key, value in {"labels": "a b c d", "resize_type": "fit_to_window", "scale_values": "255"}.items():
        made.set_rt_info(value, ["model_info", key])
    import_openvino().save_model(made, tmp_path / "geti.xml", compress_to_fp16=False)
    report = convert(tmp_path / "geti.xml", tmp_path / "net.xml")
    assert (report.detector, report.source_format) == ("boxes_labels (recognised)", "openvino")
    manifest = describe(read_model(report.output)).manifest
    assert (manifest.task, manifest.resize, manifest.labels) == ("detection", "fit_to_window", tuple("abcd"))
    found = import_openvino().compile_model(report.output, "CPU")(np.zeros((1, HEIGHT, WIDTH, 3), np.float32))
    assert counted(found[0][0]) == pytest.approx(expected, abs=2e-4)
    again = convert(report.output, tmp_path / "again.xml")
    assert (again.detector, again.manifest.labels) == ("rows (recognised)", tuple("abcd"))


def yolo_file(path: Path) -> Path:
    """Write an ONNX file whose output [1, 7, N] depends on the image."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = (RANDOM.random((7 * CELLS, 3)) * 10).astype(np.float32)
    constants = {"w": weights.T, "shape": np.array([1, 7, CELLS])}
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["all"]),
        helper.make_node("Reshape", ["all", "shape"], ["output0"]),
    ]
    ports = [
        helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH]),
        helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 7, CELLS]),
    ]
    kept = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    built = helper.make_graph(nodes, "net", ports[:1], ports[1:], kept)
    model = helper.make_model(built, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path
