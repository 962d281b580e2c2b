"""The heads of detectors as OpenVINO operations, which give rows: left, top, right, bottom, score, class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# rows of an output that lists no fixed number of boxes, and peaks of a centre map
ROWS = 300
# YOLO's feature maps, in pixels of the input a cell
STRIDES = (8, 16, 32)


@dataclass(frozen=True)
class Outputs:
    """What a head works on: the network's outputs by the names that it knows, and the size of its input in pixels."""

    named: Mapping[str, Any]
    height: int
    width: int
    rows: int = ROWS

    def __getitem__(self, name: str) -> Any:
        """Return an output as float32."""
        return _ops().convert(self.named[name], "f32")

    @property
    def only(self) -> Any:
        """The output of a network that has one."""
        (name,) = self.named
        return self[name]


def _ops() -> Any:
    from openvino import opset13

    return opset13


def _columns(node: Any, count: int, axis: int = -1) -> list[Any]:
    """Return the parts of a node along an axis, each with that axis of length one."""
    return list(_ops().split(node, np.int64(axis), count).outputs())


def _shape(node: Any) -> list[int]:
    """Return a shape, -1 where a side is open."""
    return [dim.get_length() if dim.is_static else -1 for dim in node.get_output_partial_shape(0)]


def _reshaped(node: Any, *shape: int) -> Any:
    """Return a node in another shape; 0 keeps a side, -1 takes what is left."""
    return _ops().reshape(node, np.array(shape, np.int64), True)


def rows(found: Outputs) -> Any:
    """Rows as ours, of detectors with suppression inside such as YOLOv10: nothing to do."""
    return found.only


def ssd(found: Outputs) -> Any:
    """TensorFlow Object Detection: boxes ymin, xmin, ymax, xmax in 0..1; classes count from 1."""
    ops = _ops()
    boxes, scores = _reshaped(found["detection_boxes"], 1, -1, 4), _column(found["detection_scores"])
    classes = ops.subtract(_column(found["detection_classes"]), np.float32(1))
    if "num_detections" in found.named:
        scores = _first(scores, found["num_detections"])
    top, left, bottom, right = _columns(boxes, 4)
    box = ops.concat([left, top, right, bottom], -1)
    scale = np.array([found.width, found.height] * 2, np.float32)
    return _fixed(ops.concat([ops.multiply(box, scale), scores, classes], -1), found.rows)


def detection_output(found: Outputs) -> Any:
    """OpenVINO's DetectionOutput: image, class, score, left, top, right, bottom in 0..1; image -1 ends the list."""
    ops = _ops()
    image, number, score, *box = _columns(_reshaped(found.only, 1, -1, 7), 7)
    ended = ops.cum_sum(ops.convert(ops.less(image, np.float32(0)), "f32"), np.int64(1))
    score = ops.multiply(score, ops.convert(ops.less(ended, np.float32(1)), "f32"))
    scale = np.array([found.width, found.height] * 2, np.float32)
    box = ops.multiply(ops.concat(box, -1), scale)
    return _fixed(ops.concat([box, score, number], -1), found.rows)


def boxes_labels(found: Outputs) -> Any:
    """Model API's boxes and labels: left, top, right, bottom in pixels with the score, or that in `scores`."""
    ops = _ops()
    labels = _column(found["labels"])
    if "scores" in found.named:
        parts = [_reshaped(found["boxes"], 1, -1, 4), _column(found["scores"]), labels]
    else:
        parts = [_reshaped(found["boxes"], 1, -1, 5), labels]
    return _fixed(ops.concat(parts, -1), found.rows)


def yolov5(found: Outputs) -> Any:
    """YOLO v5 and v7: centre and size in pixels, objectness, a score for each class."""
    ops = _ops()
    count = _shape(found.only)[2] - 5
    box, objectness, classes = ops.variadic_split(found.only, np.int64(2), np.array([4, 1, count])).outputs()
    return _dense(_corners(box), ops.multiply(classes, objectness))


def yolov8(found: Outputs) -> Any:
    """YOLO v8, v9 and v11: [1, 4 + classes, N], centre and size in pixels, a score for each class."""
    ops = _ops()
    turned = ops.transpose(found.only, np.array([0, 2, 1]))
    count = _shape(turned)[2] - 4
    box, classes = ops.variadic_split(turned, np.int64(2), np.array([4, count])).outputs()
    return _dense(_corners(box), classes)


def yolox(found: Outputs) -> Any:
    """YOLOX as its exporter writes it: centre in cells from the cell's corner, size as logarithm, in strides."""
    ops = _ops()
    cells, strides = yolox_grid(found.height, found.width)
    count = _shape(found.only)[2] - 5
    split = ops.variadic_split(found.only, np.int64(2), np.array([2, 2, 1, count]))
    at, size, objectness, classes = split.outputs()
    centre = ops.multiply(ops.add(at, cells), strides)
    box = ops.concat([centre, ops.multiply(ops.exp(size), strides)], -1)
    return _dense(_corners(box), ops.multiply(classes, objectness))


def yolox_grid(height: int, width: int) -> tuple[Any, Any]:
    """Return x, y of each cell, and its stride: float32 (1, N, 2) and (1, N, 1)."""
    cells, strides = [], []
    for stride in STRIDES:
        y, x = np.mgrid[: height // stride, : width // stride]
        cells.append(np.stack([x.ravel(), y.ravel()], 1))
        strides.append(np.full((x.size, 1), stride))
    return np.concatenate(cells)[None].astype(np.float32), np.concatenate(strides)[None].astype(np.float32)


def centers(found: Outputs) -> Any:
    """Centre maps without anchors: peaks of the heatmap among their eight neighbours, the size and offset there."""
    ops = _ops()
    heat, size, offset = (_channels_last(found[name], found) for name in ("heatmap", "size", "offset"))
    _, height, width, classes = _shape(heat)
    score, index = _peaks(heat, min(found.rows, height * width * classes))
    number, cell = ops.mod(index, np.int64(classes)), ops.divide(index, np.int64(classes))
    y, x = ops.divide(cell, np.int64(width)), ops.mod(cell, np.int64(width))
    place = ops.concat([ops.unsqueeze(ops.convert(part, "f32"), np.int64(2)) for part in (x, y)], -1)
    stride = np.array([found.width / width, found.height / height], np.float32)
    centre = ops.multiply(ops.add(place, _at(offset, cell)), stride)
    box = _corners(ops.concat([centre, _at(size, cell)], -1))
    scores = [ops.unsqueeze(score, np.int64(2)), ops.unsqueeze(ops.convert(number, "f32"), np.int64(2))]
    return ops.concat([box, *scores], -1)


def _channels_last(node: Any, found: Outputs) -> Any:
    """Return a map as [1, H, W, C]; `size` tells the order, because it has two channels."""
    if _shape(found["size"])[3] == 2:
        return node
    return _ops().transpose(node, np.array([0, 2, 3, 1]))


def _peaks(heat: Any, count: int) -> tuple[Any, Any]:
    """Return scores and flat indices of the highest values that are the largest of their 3 x 3 neighbourhood."""
    ops = _ops()
    first = ops.transpose(heat, np.array([0, 3, 1, 2]))
    pooled = ops.max_pool(first, [1, 1], [1, 1], [1, 1], [1, 1], [3, 3])
    largest = ops.convert(ops.equal(first, pooled.output(0)), "f32")
    peaks = ops.transpose(ops.multiply(first, largest), np.array([0, 2, 3, 1]))
    best = ops.topk(_reshaped(peaks, 0, -1), np.int64(count), 1, "max", "value", "i64")
    return best.output(0), best.output(1)


def _at(node: Any, cell: Any) -> Any:
    """Return the two values of a map at each cell."""
    flat = _reshaped(node, 0, -1, 2)
    return _ops().gather(flat, cell, np.int64(1), 1)


def _column(node: Any) -> Any:
    return _reshaped(node, 1, -1, 1)


def _first(scores: Any, count: Any) -> Any:
    """Return scores with 0 from the place `count` on."""
    ops = _ops()
    place = ops.cum_sum(ops.broadcast(np.float32(1), ops.shape_of(scores)), np.int64(1))
    within = ops.less_equal(place, _reshaped(count, 1, 1, 1))
    return ops.multiply(scores, ops.convert(within, "f32"))


def _corners(box: Any) -> Any:
    """Return left, top, right, bottom of boxes given as centre and size."""
    ops = _ops()
    centre, size = ops.split(box, np.int64(-1), 2).outputs()
    half = ops.multiply(size, np.float32(0.5))
    return ops.concat([ops.subtract(centre, half), ops.add(centre, half)], -1)


def _dense(box: Any, classes: Any) -> Any:
    """Return a row for each place, with the best of its classes."""
    ops = _ops()
    best = ops.topk(classes, np.int64(1), -1, "max", "none", "i64")
    return ops.concat([box, best.output(0), ops.convert(best.output(1), "f32")], -1)


def _fixed(found: Any, count: int) -> Any:
    """Return a fixed number of rows: those of the highest scores, and zeros where there are fewer."""
    if _shape(found)[1] > 0:
        return found
    ops = _ops()
    padded = ops.concat([found, np.zeros((1, count, 6), np.float32)], 1)
    scores = ops.gather(padded, np.int64(4), np.int64(2))
    best = ops.topk(scores, np.int64(count), 1, "max", "value", "i64")
    return _reshaped(ops.gather(padded, best.output(1), np.int64(1), 1), 1, count, 6)
