"""The heads of detectors as OpenVINO operations, which give rows: left, top, right, bottom, score, class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def ops() -> Any:
    """Return OpenVINO's operations."""
    from openvino import opset13

    return opset13


def columns(node: Any, count: int, axis: int = -1) -> list[Any]:
    """Return the parts of a node along an axis, each with that axis of length one."""
    return list(ops().split(node, np.int64(axis), count).outputs())


def shape(node: Any) -> list[int]:
    """Return a shape, -1 where a side is open."""
    return [dim.get_length() if dim.is_static else -1 for dim in node.get_output_partial_shape(0)]


def reshaped(node: Any, *sides: int) -> Any:
    """Return a node in another shape; 0 keeps a side, -1 takes what is left."""
    return ops().reshape(node, np.array(sides, np.int64), True)


def column(node: Any) -> Any:
    """Return the values of one image as a column of rows."""
    return reshaped(node, 1, -1, 1)


def first_scores(scores: Any, count: Any) -> Any:
    """Return scores with 0 from the place `count` on."""
    op = ops()
    place = op.cum_sum(op.broadcast(np.float32(1), op.shape_of(scores)), np.int64(1))
    within = op.less_equal(place, reshaped(count, 1, 1, 1))
    return op.multiply(scores, op.convert(within, "f32"))


def corners(box: Any) -> Any:
    """Return left, top, right, bottom of boxes given as centre and size."""
    op = ops()
    centre, size = op.split(box, np.int64(-1), 2).outputs()
    half = op.multiply(size, np.float32(0.5))
    return op.concat([op.subtract(centre, half), op.add(centre, half)], -1)


def dense(box: Any, classes: Any) -> Any:
    """Return a row for each place, with the best of its classes."""
    op = ops()
    best = op.topk(classes, np.int64(1), -1, "max", "none", "i64")
    return op.concat([box, best.output(0), op.convert(best.output(1), "f32")], -1)


def fixed(found: Any, count: int) -> Any:
    """Return a fixed number of rows: those of the highest scores, and zeros where there are fewer."""
    if shape(found)[1] > 0:
        return found
    op = ops()
    padded = op.concat([found, np.zeros((1, count, 6), np.float32)], 1)
    scores = op.gather(padded, np.int64(4), np.int64(2))
    best = op.topk(scores, np.int64(count), 1, "max", "value", "i64")
    return reshaped(chosen(padded, best.output(1), 6), 1, count, 6)


def chosen(node: Any, index: Any, width: int) -> Any:
    """Return rows of [N, rows, width] by their numbers [N, k]."""
    op = ops()
    # not Gather with a batch dimension: on AVX-512, OpenVINO 2026.4's reads and writes beyond its memory
    each = op.unsqueeze(index, np.int64(2))
    return op.gather_elements(node, op.concat([each] * width, 2), 1)


def classes_of(node: Any, before: int) -> int:
    """Return how many columns of [1, N, columns] hold classes."""
    sides = shape(node)
    if len(sides) != 3 or sides[2] <= before:
        raise ValueError
    return sides[2] - before


# rows of an output that lists no fixed number of boxes, and peaks of a centre map
ROWS = 300
# YOLO's feature maps, in pixels of the input a cell
STRIDES = (8, 16, 32)


@dataclass(frozen=True)
class Outputs:
    """What a head works on: the network's outputs by the names that it knows, and the size of its input in pixels.

    Attributes:
        rows: of a head without a fixed number of boxes.
        relative: boxes of YOLO are shares of the input's sides, not pixels.
    """

    named: Mapping[str, Any]
    height: int
    width: int
    rows: int = ROWS
    relative: bool = False

    def __getitem__(self, name: str) -> Any:
        """Return an output as float32."""
        return ops().convert(self.named[name], "f32")

    def corners(self, box: Any) -> Any:
        """Return left, top, right, bottom in pixels of YOLO's boxes, which are centre and size."""
        if self.relative:
            box = ops().multiply(box, np.array([self.width, self.height] * 2, np.float32))
        return corners(box)

    @property
    def only(self) -> Any:
        """The output of a network that has one."""
        (name,) = self.named
        return self[name]


def rows(found: Outputs) -> Any:
    """Rows as ours, of detectors with suppression inside such as YOLOv10: nothing to do."""
    if classes_of(found.only, 5) != 1:
        raise ValueError
    return found.only


def ssd(found: Outputs) -> Any:
    """TensorFlow Object Detection: boxes ymin, xmin, ymax, xmax in 0..1; classes count from 1."""
    op = ops()
    boxes, scores = reshaped(found["detection_boxes"], 1, -1, 4), column(found["detection_scores"])
    classes = op.subtract(column(found["detection_classes"]), np.float32(1))
    if "num_detections" in found.named:
        scores = first_scores(scores, found["num_detections"])
    top, left, bottom, right = columns(boxes, 4)
    box = op.concat([left, top, right, bottom], -1)
    scale = np.array([found.width, found.height] * 2, np.float32)
    return fixed(op.concat([op.multiply(box, scale), scores, classes], -1), found.rows)


def detection_output(found: Outputs) -> Any:
    """OpenVINO's DetectionOutput: image, class, score, left, top, right, bottom in 0..1; image -1 ends the list."""
    op = ops()
    if shape(found.only)[-1] != 7:
        raise ValueError
    image, number, score, *box = columns(reshaped(found.only, 1, -1, 7), 7)
    ended = op.cum_sum(op.convert(op.less(image, np.float32(0)), "f32"), np.int64(1))
    score = op.multiply(score, op.convert(op.less(ended, np.float32(1)), "f32"))
    scale = np.array([found.width, found.height] * 2, np.float32)
    box = op.multiply(op.concat(box, -1), scale)
    return fixed(op.concat([box, score, number], -1), found.rows)


def boxes_labels(found: Outputs) -> Any:
    """Model API's boxes and labels: left, top, right, bottom in pixels with the score, or that in `scores`."""
    op = ops()
    labels = column(found["labels"])
    if "scores" in found.named:
        parts = [reshaped(found["boxes"], 1, -1, 4), column(found["scores"]), labels]
    else:
        parts = [reshaped(found["boxes"], 1, -1, 5), labels]
    return fixed(op.concat(parts, -1), found.rows)


def yolov5(found: Outputs) -> Any:
    """YOLO v5 and v7: centre and size in pixels, objectness, a score for each class."""
    op = ops()
    count = classes_of(found.only, 5)
    box, objectness, classes = op.variadic_split(found.only, np.int64(2), np.array([4, 1, count])).outputs()
    return dense(found.corners(box), op.multiply(classes, objectness))


def yolov8(found: Outputs) -> Any:
    """YOLO v8, v9 and v11: [1, 4 + classes, N], centre and size in pixels, a score for each class."""
    op = ops()
    turned = op.transpose(found.only, np.array([0, 2, 1]))
    count = classes_of(turned, 4)
    box, classes = op.variadic_split(turned, np.int64(2), np.array([4, count])).outputs()
    return dense(found.corners(box), classes)


def yolox(found: Outputs) -> Any:
    """YOLOX as its exporter writes it: centre in cells from the cell's corner, size as logarithm, in strides."""
    op = ops()
    cells, strides = yolox_grid(found.height, found.width)
    count = classes_of(found.only, 5)
    split = op.variadic_split(found.only, np.int64(2), np.array([2, 2, 1, count]))
    at, size, objectness, classes = split.outputs()
    centre = op.multiply(op.add(at, cells), strides)
    box = op.concat([centre, op.multiply(op.exp(size), strides)], -1)
    return dense(corners(box), op.multiply(classes, objectness))


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
    op = ops()
    heat, size, offset = (_channels_last(found[name], found) for name in ("heatmap", "size", "offset"))
    _, height, width, classes = shape(heat)
    score, index = _peaks(heat, min(found.rows, height * width * classes))
    # floats are exact up to 2^24, and OpenVINO's CPU plugin computes in them
    cell = op.floor(op.divide(op.add(index, np.float32(0.5)), np.float32(classes)))
    y = op.floor(op.divide(op.add(cell, np.float32(0.5)), np.float32(width)))
    number = op.subtract(index, op.multiply(cell, np.float32(classes)))
    x = op.subtract(cell, op.multiply(y, np.float32(width)))
    place = op.concat([op.unsqueeze(part, np.int64(2)) for part in (x, y)], -1)
    cell = op.convert(cell, "i32")
    stride = np.array([found.width / width, found.height / height], np.float32)
    centre = op.multiply(op.add(place, _at(offset, cell)), stride)
    box = corners(op.concat([centre, _at(size, cell)], -1))
    scores = [op.unsqueeze(part, np.int64(2)) for part in (score, number)]
    return op.concat([box, *scores], -1)


def _channels_last(node: Any, found: Outputs) -> Any:
    """Return a map as [1, H, W, C]; `size` tells the order, because it has two channels."""
    if shape(found["size"])[3] == 2:
        return node
    return ops().transpose(node, np.array([0, 2, 3, 1]))


def _peaks(heat: Any, count: int) -> tuple[Any, Any]:
    """Return scores and flat indices of the highest values that are the largest of their 3 x 3 neighbourhood."""
    op = ops()
    first = op.transpose(heat, np.array([0, 3, 1, 2]))
    pooled = op.max_pool(first, [1, 1], [1, 1], [1, 1], [1, 1], [3, 3])
    largest = op.convert(op.equal(first, pooled.output(0)), "f32")
    peaks = op.transpose(op.multiply(first, largest), np.array([0, 2, 3, 1]))
    best = op.topk(reshaped(peaks, 0, -1), np.int64(count), 1, "max", "value", "i64")
    return best.output(0), op.convert(best.output(1), "f32")


def _at(node: Any, cell: Any) -> Any:
    """Return the two values of a map at each cell."""
    return chosen(reshaped(node, 0, -1, 2), cell, 2)
