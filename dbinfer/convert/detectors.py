"""Detectors: which head a network has, by name or by its outputs, and the rows that backends read instead of them.

A row is left, top, right, bottom, score, class. Heads are built of OpenVINO's operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dbinfer.base.errors import ConvertError
from dbinfer.convert.options import ConvertOptions
from dbinfer.convert.source import chosen_outputs
from dbinfer.models.graph import GraphInfo, dimensions, graph_info, output_names, port
from dbinfer.models.ir import import_openvino
from dbinfer_udf.manifest import Manifest

# Rows of an output without a fixed number of boxes, and peaks of a centre map
ROWS = 300
# YOLO's feature maps: pixels of the input per cell
STRIDES = (8, 16, 32)
YOLO = {"resize": "fit_to_window_letterbox", "pad_value": 114, "threshold": 0.25, "iou_threshold": 0.45}


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


def ready_rows(found: Outputs) -> Any:
    """Rows like ours, from detectors with suppression inside, such as YOLOv10: nothing to do."""
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
    if sides_of(found.only)[-1] != 7:
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
    _, height, width, classes = sides_of(heat)
    score, index = _peaks(heat, min(found.rows, height * width * classes))
    # OpenVINO's CPU plugin computes in floats, which are exact up to 2^24
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
    if sides_of(found["size"])[3] == 2:
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


def ops() -> Any:
    """Return OpenVINO's operations."""
    from openvino import opset13

    return opset13


def columns(node: Any, count: int, axis: int = -1) -> list[Any]:
    """Return the parts of a node along an axis, each with that axis of length one."""
    return list(ops().split(node, np.int64(axis), count).outputs())


def sides_of(node: Any) -> list[int]:
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
    if sides_of(found)[1] > 0:
        return found
    op = ops()
    padded = op.concat([found, np.zeros((1, count, 6), np.float32)], 1)
    scores = op.gather(padded, np.int64(4), np.int64(2))
    best = op.topk(scores, np.int64(count), 1, "max", "value", "i64")
    return reshaped(chosen(padded, best.output(1), 6), 1, count, 6)


def chosen(node: Any, index: Any, width: int) -> Any:
    """Return rows of [N, rows, width] by their numbers [N, k]."""
    op = ops()
    # Not Gather with a batch dimension: on AVX-512, OpenVINO 2026.4's version reads and writes beyond its memory
    each = op.unsqueeze(index, np.int64(2))
    return op.gather_elements(node, op.concat([each] * width, 2), 1)


def classes_of(node: Any, before: int) -> int:
    """Return how many columns of [1, N, columns] hold classes."""
    sides = sides_of(node)
    if len(sides) != 3 or sides[2] <= before:
        raise ValueError
    return sides[2] - before


@dataclass(frozen=True)
class Head:
    """A published form of detectors' outputs.

    Attributes:
        build: makes the rows.
        names: of its outputs; () for the only one, whatever its name.
        optional: names of outputs that it uses where they are.
        values: keys of the manifest as its publishers set them.
        suppressed: the graph drops boxes that overlap, so its outputs are a list of boxes.
    """

    build: Callable[[Outputs], Any]
    names: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    suppressed: bool = True


HEADS: dict[str, Head] = {
    "ssd": Head(ssd, ("detection_boxes", "detection_scores", "detection_classes"), ("num_detections",)),
    "detection_output": Head(detection_output),
    "boxes_labels": Head(boxes_labels, ("boxes", "labels"), ("scores",)),
    "yolov5": Head(yolov5, values={**YOLO, "scale": [255.0]}, suppressed=False),
    "yolov8": Head(yolov8, values={**YOLO, "iou_threshold": 0.7, "scale": [255.0]}, suppressed=False),
    "yolox": Head(
        yolox,
        values={**YOLO, "resize": "fit_to_window", "color": "BGR", "scale": [1.0]},
        suppressed=False,
    ),
    "centers": Head(centers, ("heatmap", "size", "offset"), suppressed=False),
    "rows": Head(ready_rows),
}


@dataclass(frozen=True)
class Detector:
    """The head of a network, and its outputs by the names that the head knows."""

    name: str
    outputs: Mapping[str, Any]
    recognised: bool

    @property
    def head(self) -> Head:
        """The form by its name."""
        return HEADS[self.name]

    @property
    def values(self) -> Mapping[str, Any]:
        """What the head's publishers set in the manifest."""
        return {"task": "detection", **self.head.values}


def detector_of(graph: Any, options: ConvertOptions, task: str | None) -> tuple[Any, Detector | None]:
    """Return the graph, and what it is as a detector; None where it is none.

    Args:
        task: as the user or a manifest says; None: unknown.

    Raises:
        ConvertError: its outputs are not those of the requested head, or of any known head where the task is detection.
    """
    if options.outputs and (options.detector or task == "detection"):
        graph = chosen_outputs(graph, options.outputs)
    named, asked = _named(graph), options.detector
    if asked:
        return graph, Detector(asked, _outputs(asked, named, graph), False)
    if task not in (None, "detection") or (task is None and options.outputs):
        return graph, None
    name = _telling(graph, named, options, task)
    if name:
        return graph, Detector(name, _outputs(name, named, graph), True)
    if task == "detection":
        if found := on_anchors(graph):
            raise ConvertError(
                f"this detector's boxes ({found[0]}) and scores ({found[1]}) belong to anchors, "
                "and the file does not hold their table",
                "Convert it with --task tensor: dbinfer.predict(img, model, output => 'name') gives the raw values.",
            )
        shapes = ", ".join(f"{port(one).name} {list(dimensions(one))}" for one in graph.outputs)
        raise ConvertError(
            f"the outputs of this detector are not of a known form: {shapes}",
            f"Name the form with --detector: {', '.join(HEADS)}.",
        )
    return graph, None


def on_anchors(graph: Any) -> tuple[str, str] | None:
    """Return boxes and scores of a detector of the SSD kind, by name and shape: [1, N, 4 or more] and [1, N, classes].

    BlazeFace and palm detection are such; N anchors, which each box is relative to, are in their programs.
    """
    if len(graph.outputs) != 2:
        return None
    named = [(name, dimensions(one)) for name, one in zip(output_names(graph), graph.outputs, strict=True)]
    for boxes, scores in (named, named[::-1]):
        several = len(boxes[1]) == len(scores[1]) == 3 and boxes[1][1] == scores[1][1] > 100
        # Points beside the four sides: an even number, and more than there are scores
        if several and boxes[1][2] % 2 == 0 and boxes[1][2] >= 4 and boxes[1][2] > scores[1][2] >= 1:
            return f"{boxes[0]} {list(boxes[1])}", f"{scores[0]} {list(scores[1])}"
    return None


def with_rows(graph: Any, detector: Detector, manifest: Manifest, relative: bool = False) -> Any:
    """Return the graph with the one output [1, N, 6] that backends read.

    Args:
        relative: YOLO's boxes are shares of the image's sides, not pixels.

    Raises:
        ConvertError: the outputs do not have the shapes of the head.
    """
    rows = max(ROWS, manifest.max_detections)
    outputs = Outputs(detector.outputs, manifest.height, manifest.width, rows, relative)
    openvino = import_openvino()
    from openvino import opset13

    try:
        # Here OpenVINO derives types and shapes, so what does not fit fails here
        result = opset13.result(detector.head.build(outputs))
        result.get_output_tensor(0).set_names({"detections"})
        return openvino.Model([result], graph.get_parameters(), graph.get_friendly_name())
    except (RuntimeError, IndexError, ValueError, TypeError) as err:
        shapes = ", ".join(f"{name} {list(dimensions(one))}" for name, one in detector.outputs.items())
        raise ConvertError(
            f"the outputs are not those of {detector.name}: {shapes}",
            f"Name another form with --detector: {', '.join(HEADS)}.",
        ) from err


def _named(graph: Any) -> dict[str, Any]:
    """Return the outputs by every name that they have, without TensorFlow's folders and numbers."""
    found = {}
    for output in graph.outputs:
        for name in (*output.get_names(), output.get_node().input_value(0).get_node().get_friendly_name()):
            found[name.split(":")[0].rsplit("/", 1)[-1].lower()] = output.get_node().input_value(0)
    return found


def _outputs(name: str, named: Mapping[str, Any], graph: Any) -> dict[str, Any]:
    head = HEADS[name]
    if not head.names:
        if len(graph.outputs) != 1:
            raise ConvertError(
                f"a detector of the form {name} has one output, but the model has {len(graph.outputs)}",
                "Choose the one to keep with --output-name.",
            )
        return {name: graph.outputs[0].get_node().input_value(0)}
    missing = [wanted for wanted in head.names if wanted not in named]
    if missing:
        raise ConvertError(
            f"a detector of the form {name} has an output {missing[0]!r}, but the model has {', '.join(sorted(named))}",
            f"Name another form with --detector: {', '.join(HEADS)}.",
        )
    return {wanted: named[wanted] for wanted in (*head.names, *head.optional) if wanted in named}


def _telling(graph: Any, named: Mapping[str, Any], options: ConvertOptions, task: str | None) -> str:
    """Return the head that the outputs show; "" where they show none."""
    for name, head in HEADS.items():
        if head.names and all(wanted in named for wanted in head.names):
            return name
    shape = dimensions(graph.outputs[0])
    if len(graph.outputs) != 1 or len(graph.inputs) != 1:
        return ""
    if len(shape) == 4 and shape[:2] == (1, 1) and shape[3] == 7:
        return "detection_output"
    if len(shape) != 3:
        return ""
    found = _by_cells(shape, graph_info(graph, options.layout), options.values)
    # After YOLO with one class, whose rows have six numbers, too
    return found or ("rows" if shape[2] == 6 and task == "detection" else "")


def _by_cells(shape: tuple[int, ...], info: GraphInfo, values: Mapping[str, Any]) -> str:
    """Return the kind of YOLO that has as many rows as its feature maps have cells."""
    height, width = info.height or values.get("height"), info.width or values.get("width")
    if not height or not width:
        return ""
    cells = sum((height // stride) * (width // stride) for stride in STRIDES)
    if shape[2] == cells and shape[1] > 4:
        return "yolov8"
    return {3 * cells: "yolov5", cells: "yolox"}.get(shape[1], "") if shape[2] > 5 else ""
