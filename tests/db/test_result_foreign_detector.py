"""A detector of another framework: what SQL finds equals what its published head, computed in numpy, finds.

The head is YOLO v8's (docs.ultralytics.com) as an ONNX file, run by onnxruntime; ONNX's NonMaxSuppression suppresses.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
import tiny_models
from asking import rows
from onnx import TensorProto, helper, numpy_helper
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import deploy

HEIGHT, WIDTH, CLASSES = 96, 128, 3
CELLS = sum((HEIGHT // stride) * (WIDTH // stride) for stride in (8, 16, 32))
THRESHOLD, IOU = 0.6, 0.4
QUERY = (
    "SELECT d.class, d.label, d.score, d.x, d.y, d.width, d.height FROM unnest(dbinfer.detect(%s, 'yolo')) d"
)


def network(path: Path) -> Path:
    """Write a YOLO v8 of random weights: a map of 8 pixels a cell and two coarser ones, boxes around their cells."""
    random = np.random.default_rng(11)
    kept, nodes, maps = {}, [], []
    source = "images"
    for level in range(3):
        size = 8 if level == 0 else 2
        channels = 3 if level == 0 else 8
        kept[f"w{level}"] = (
            random.standard_normal((8, channels, size, size)) / np.sqrt(channels) / size
        ).astype(np.float32)
        kept[f"h{level}"] = (random.standard_normal((4 + CLASSES, 8, 1, 1))).astype(np.float32)
        nodes.append(helper.make_node("Conv", [source, f"w{level}"], [f"c{level}"], strides=[size, size]))
        nodes.append(helper.make_node("Conv", [f"c{level}", f"h{level}"], [f"o{level}"]))
        kept[f"s{level}"] = np.array([1, 4 + CLASSES, -1])
        nodes.append(helper.make_node("Reshape", [f"o{level}", f"s{level}"], [f"f{level}"]))
        maps.append(f"f{level}")
        source = f"c{level}"
    nodes.append(helper.make_node("Concat", maps, ["all"], axis=2))
    nodes.append(helper.make_node("Split", ["all", "parts"], ["xy", "wh", "scores"], axis=1))
    kept["parts"] = np.array([2, 2, CLASSES])
    kept["grid"], kept["stride"] = grid()
    nodes += [
        helper.make_node("Tanh", ["xy"], ["near"]),
        helper.make_node("Add", ["near", "grid"], ["cells"]),
        helper.make_node("Mul", ["cells", "stride"], ["centre"]),
        helper.make_node("Sigmoid", ["wh"], ["part"]),
        helper.make_node("Mul", ["part", "four"], ["wide"]),
        helper.make_node("Mul", ["wide", "stride"], ["size"]),
        helper.make_node("Sigmoid", ["scores"], ["classes"]),
        helper.make_node("Concat", ["centre", "size", "classes"], ["output0"], axis=1),
    ]
    kept["four"] = np.float32(4)
    ports = [
        helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH]),
        helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 4 + CLASSES, CELLS]),
    ]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in kept.items()]
    graph = helper.make_graph(nodes, "yolo", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def grid() -> tuple[np.ndarray, np.ndarray]:
    """Return the centre of each cell in cells, (1, 2, N), and its stride, (1, 1, N)."""
    cells, strides = [], []
    for stride in (8, 16, 32):
        y, x = np.mgrid[: HEIGHT // stride, : WIDTH // stride]
        cells.append(np.stack([x.ravel(), y.ravel()]) + 0.5)
        strides.append(np.full((1, x.size), stride))
    return np.concatenate(cells, 1)[None].astype(np.float32), np.concatenate(strides, 1)[None].astype(
        np.float32
    )


def suppressed(boxes: np.ndarray, scores: np.ndarray) -> list[tuple[int, int]]:
    """Return (class, box) of what ONNX's NonMaxSuppression keeps; boxes are centre and size."""
    ports = {"boxes": boxes[None], "scores": scores[None]}
    limits = {
        "most": np.array([999]),
        "iou": np.array([IOU], np.float32),
        "least": np.array([THRESHOLD], np.float32),
    }
    node = helper.make_node("NonMaxSuppression", [*ports, *limits], ["kept"], center_point_box=1)
    graph = helper.make_graph(
        [node],
        "nms",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
            for name, value in ports.items()
        ],
        [helper.make_tensor_value_info("kept", TensorProto.INT64, [None, 3])],
        [numpy_helper.from_array(value, name) for name, value in limits.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [(int(row[1]), int(row[2])) for row in session.run(None, ports)[0]]


def reference(path: Path, image: np.ndarray) -> list[tuple[float, ...]]:
    """Return class, score, x, y, width, height by the published steps, from letterbox to scaling back."""
    height, width = image.shape[:2]
    scale = min(HEIGHT / height, WIDTH / width)
    inner = round(width * scale), round(height * scale)
    left, top = (WIDTH - inner[0]) // 2, (HEIGHT - inner[1]) // 2
    padded = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    padded[top : top + inner[1], left : left + inner[0]] = cv2.resize(image, inner)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tensor = padded.transpose(2, 0, 1)[None].astype(np.float32) / 255
    table = session.run(None, {"images": tensor})[0][0].T
    scores = table[:, 4:] * (
        table[:, 4:] == table[:, 4:].max(1, keepdims=True)
    )  # a box is of its best class alone
    found = []
    for number, box in suppressed(np.ascontiguousarray(table[:, :4]), np.ascontiguousarray(scores.T)):
        x, y, across, down = table[box, :4]
        sides = (x - across / 2 - left, y - down / 2 - top, x + across / 2 - left, y + down / 2 - top)
        x0, x1 = (min(max(side * width / inner[0], 0), width) for side in sides[::2])
        y0, y1 = (min(max(side * height / inner[1], 0), height) for side in sides[1::2])
        if x1 > x0 and y1 > y0:
            found.append((number, float(scores[box, number]), x0, y0, x1 - x0, y1 - y0))
    return sorted(found, key=lambda one: -one[1])[:100]


@pytest.fixture(scope="module")
def source(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    values = {
        "labels": ["cat", "dog", "cow"],
        "threshold": THRESHOLD,
        "iou_threshold": IOU,
        "decode": "exact",
    }
    path = network(folder / "yolo.onnx")
    report = convert(path, folder / "yolo.xml", ConvertOptions(values=values))
    assert report.detector == "yolov8 (recognised)"
    assert report.check.done
    deploy(report.output, dsn=dsn)
    return path


@pytest.mark.parametrize("size", [(300, 110), *wide(((128, 96),), ((90, 205),), ((641, 480),))])
def test_sql_finds_what_the_reference_finds(db: Connection, source: Path, size: tuple[int, int]) -> None:
    random = np.random.default_rng(size[0])
    coarse = random.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    image = cv2.resize(coarse, size, interpolation=cv2.INTER_CUBIC)
    expected = reference(source, image)
    found = rows(db, QUERY, tiny_models.file(image))
    assert len(expected) > 5
    assert [(number, ["cat", "dog", "cow"][number]) for number, *_ in expected] == [row[:2] for row in found]
    assert np.array([row[2:] for row in found]) == pytest.approx(
        np.array([row[1:] for row in expected]), abs=2e-2
    )
