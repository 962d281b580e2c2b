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
from dbinfer.models.graph import GraphInfo, dimensions, ending, graph_info, port
from dbinfer.models.ir import import_openvino
from dbinfer_udf.manifest import Manifest

# Rows of an output without a fixed number of boxes, and peaks of a centre map
ROWS = 300
# YOLO's feature maps: pixels of the input per cell
STRIDES = (8, 16, 32)
# MediaPipe's detectors: pixels of the input per cell, and anchors of each cell, in the order of their boxes
GRIDS = (((8, 2), (16, 6)), ((16, 2), (32, 6)), ((8, 2), (16, 2), (32, 6)), ((4, 1),))
YOLO = {"resize": "fit_to_window_letterbox", "pad_value": 114, "threshold": 0.25, "iou_threshold": 0.45}


@dataclass(frozen=True)
class Outputs:
    """What a head works on: the network's outputs by the names that it knows, and the size of its input in pixels.

    Attributes:
        rows: of a head without a fixed number of boxes.
        relative: boxes of YOLO are shares of the input's sides, not pixels.
        anchors: (N, 4) centre x, centre y, width, height as shares of the input's sides; of a head of the SSD kind.
        labels: how many there are.
    """

    named: Mapping[str, Any]
    height: int
    width: int
    rows: int = ROWS
    relative: bool = False
    anchors: Any = None
    labels: int = 0

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
    """Rows like ours, from detectors with suppression inside, such as YOLOv10, or our own: nothing to do."""
    rows, *more = (found[name] for name in found.named)
    if classes_of(rows, 5) != 1:
        raise ValueError
    return rows, *more


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


def yolov8_pose(found: Outputs) -> Any:
    """YOLO v8 and v11 with keypoints: [1, 4 + classes + 3 points, N], a point as x and y in pixels and its score."""
    turned = ops().transpose(found.only, np.array([0, 2, 1]))
    classes = max(1, found.labels)
    points = classes_of(turned, 4 + classes)
    if points % 3 or found.relative:
        raise ValueError
    box, scores, points = ops().variadic_split(turned, np.int64(2), np.array([4, classes, points])).outputs()
    return dense(found.corners(box), scores), points


def yolov8_segment(found: Outputs) -> Any:
    """YOLO v8 and v11 with masks: [1, 4 + classes + M, N], and M prototypes of which each mask is a sum."""
    op = ops()
    prototypes, turned = found["prototypes"], op.transpose(found["rows"], np.array([0, 2, 1]))
    # one for four pixels; TensorFlow's have the channels last
    if sides_of(prototypes)[2:] != [found.height // 4, found.width // 4]:
        prototypes = op.transpose(prototypes, np.array([0, 3, 1, 2]))
    depth = sides_of(prototypes)[1]
    parts = np.array([4, classes_of(turned, 4 + depth), depth])
    box, scores, coefficients = op.variadic_split(turned, np.int64(2), parts).outputs()
    return dense(found.corners(box), scores), coefficients, prototypes


def blazeface(found: Outputs) -> Any:
    """MediaPipe's: centre and size, then points, in pixels; all but the size from the centre of the anchor."""
    op = ops()
    count = classes_of(found["boxes"], 4) // 2
    centre, size, points = op.variadic_split(
        found["boxes"], np.int64(2), np.array([2, 2, 2 * count])
    ).outputs()
    place = (found.anchors[None, :, :2] * [found.width, found.height]).astype(np.float32)
    rows = dense(corners(op.concat([op.add(centre, place), size], -1)), probabilities(found))
    # a point has no score of its own: it is as sure as its box
    score = op.gather(rows, np.array([4]), np.int64(2))
    pairs = op.split(op.add(points, np.tile(place, count)), np.int64(2), count).outputs()
    return rows, op.concat([part for pair in pairs for part in (pair, score)], -1)


def grid(height: int, width: int, count: int) -> np.ndarray | None:
    """Return so many anchors as MediaPipe lays them over an input, as Outputs has them; None: not so many."""
    for layers in GRIDS:
        if sum((height // stride) * (width // stride) * each for stride, each in layers) != count:
            continue
        places = []
        for stride, each in layers:
            y, x = np.mgrid[: height // stride, : width // stride]
            cells = (np.stack([x.ravel(), y.ravel()], 1) + 0.5) * stride / [width, height]
            places.append(np.repeat(cells, each, 0))
        centres = np.concatenate(places)
        return np.concatenate([centres, np.ones_like(centres)], 1)
    return None


def raw_ssd(found: Outputs) -> Any:
    """SSD as TensorFlow trains it, without its last step: y, x, height, width, in tenths and fifths of the anchor."""
    op = ops()
    x, y, width, height = np.split(found.anchors.astype(np.float32)[None], 4, 2)
    down, across, log_height, log_width = columns(op.gather(found["boxes"], np.arange(4), np.int64(2)), 4)
    at = [op.add(op.multiply(down, height / 10), y), op.add(op.multiply(across, width / 10), x)]
    logarithms = (log_width, width), (log_height, height)
    size = [op.multiply(op.exp(op.divide(value, np.float32(5))), side) for value, side in logarithms]
    scale = np.array([found.width, found.height] * 2, np.float32)
    return dense(corners(op.multiply(op.concat([*at[::-1], *size], -1), scale)), probabilities(found))


def probabilities(found: Outputs) -> Any:
    """Return the scores of anchors after their activation, without those of a background before the labels' classes."""
    scores = found["scores"] if ending(found.named["scores"]) else ops().sigmoid(found["scores"])
    count = sides_of(scores)[2]
    if count != found.labels + 1 or count == 1:
        return scores
    return ops().gather(scores, np.arange(1, count), np.int64(2))


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
        build: makes the rows; and what belongs to each, see `more`.
        names: of its outputs; () for the only one, whatever its name.
        optional: names of outputs that it uses where they are.
        values: keys of the manifest as its publishers set them.
        suppressed: the graph drops boxes that overlap, so its outputs are a list of boxes.
        more: names of what it makes beside the rows, by which dbinfer.instances knows it.
    """

    build: Callable[[Outputs], Any]
    names: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    suppressed: bool = True
    more: tuple[str, ...] = ()


# Outputs that are known by their shapes, see on_anchors and on_prototypes
ANCHORED = ("boxes", "scores")
MASKED = ("rows", "prototypes")
YOLOV8 = {**YOLO, "iou_threshold": 0.7, "scale": [255.0]}
HEADS: dict[str, Head] = {
    "ssd": Head(ssd, ("detection_boxes", "detection_scores", "detection_classes"), ("num_detections",)),
    "detection_output": Head(detection_output),
    "boxes_labels": Head(boxes_labels, ("boxes", "labels"), ("scores",)),
    "yolov5": Head(yolov5, values={**YOLO, "scale": [255.0]}, suppressed=False),
    "yolov8": Head(yolov8, values=YOLOV8, suppressed=False),
    "yolov8_pose": Head(yolov8_pose, values=YOLOV8, suppressed=False, more=("points",)),
    "yolov8_segment": Head(
        yolov8_segment, MASKED, values=YOLOV8, suppressed=False, more=("coefficients", "prototypes")
    ),
    "yolox": Head(
        yolox,
        values={**YOLO, "resize": "fit_to_window", "color": "BGR", "scale": [1.0]},
        suppressed=False,
    ),
    "centers": Head(centers, ("heatmap", "size", "offset"), suppressed=False),
    "blazeface": Head(
        blazeface,
        ANCHORED,
        values={"resize": "fit_to_window_letterbox", "threshold": 0.5, "iou_threshold": 0.3},
        suppressed=False,
        more=("points",),
    ),
    "raw_ssd": Head(raw_ssd, ANCHORED, values={"iou_threshold": 0.6}, suppressed=False),
    "rows": Head(ready_rows),
}


@dataclass(frozen=True)
class Detector:
    """The head of a network, its outputs by the names that the head knows, and its anchors."""

    name: str
    outputs: Mapping[str, Any]
    recognised: bool
    anchors: Any = None

    @property
    def head(self) -> Head:
        """The form by its name."""
        return HEADS[self.name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what it makes."""
        # what stands behind rows that are ready stays there
        return ("detections", *(tuple(self.outputs)[1:] if self.name == "rows" else self.head.more))

    @property
    def values(self) -> Mapping[str, Any]:
        """What the head's publishers set in the manifest."""
        return {"task": "detection", **self.head.values}


def detector_of(
    graph: Any, options: ConvertOptions, task: str | None, anchors: Any = None, told: str = ""
) -> tuple[Any, Detector | None]:
    """Return the graph, and what it is as a detector; None where it is none.

    Args:
        task: as the user or a manifest says; None: unknown.
        anchors: as a manifest states them; None where it does not.
        told: the head that the exporter names, where outputs do not tell.

    Raises:
        ConvertError: its outputs are not those of the requested head, or of any known head where the task is detection;
            or the anchors are no table for them.
    """
    if options.outputs and (options.detector or task == "detection"):
        graph = chosen_outputs(graph, options.outputs)
    named, asked = _named(graph), options.detector or (told if task == "detection" else "")
    if asked:
        return graph, _detector(asked, named, graph, options, anchors)
    if task not in (None, "detection") or (task is None and options.outputs):
        return graph, None
    if own := _own(named, len(graph.outputs)):
        return graph, Detector("rows", own, True)
    name = _of_anchors(graph, options, anchors) or _telling(graph, named, options, task)
    if name:
        return graph, _detector(name, named, graph, options, anchors)
    if task == "detection":
        if found := on_anchors(graph):
            raise _without_table(*found)
        raise ConvertError(
            f"the outputs of this detector are not of a known form: {_shapes(graph)}",
            f"Name the form with --detector: {', '.join(HEADS)}.",
        )
    return graph, None


def _detector(
    name: str, named: Mapping[str, Any], graph: Any, options: ConvertOptions, anchors: Any
) -> Detector:
    recognised = not options.detector
    if HEADS[name].names == MASKED:
        if (both := on_prototypes(graph)) is None:
            raise ConvertError(
                f"a detector of the form {name} has rows [1, 4 + classes + M, N] and prototypes [1, M, height, width], "
                f"but the model has {_shapes(graph)}",
                "Choose the two to keep with --output-name.",
            )
        inputs = (one.get_node().input_value(0) for one in both)
        return Detector(name, dict(zip(MASKED, inputs, strict=True)), recognised)
    if HEADS[name].names != ANCHORED:
        return Detector(name, _outputs(name, named, graph), recognised)
    found = on_anchors(graph, True)
    if found is None:
        raise ConvertError(
            f"a detector of the form {name} has boxes [1, N, 4 or more] and scores [1, N, classes], but the model has "
            f"{_shapes(graph)}",
            "Choose the two to keep with --output-name.",
        )
    outputs = {key: one.get_node().input_value(0) for key, one in zip(ANCHORED, found, strict=True)}
    if anchors is None and name == "blazeface":
        anchors = _laid_out(graph, options)
    if anchors is None:
        raise _without_table(*found)
    return Detector(name, outputs, recognised, _table(anchors, dimensions(found[0])[1]))


def _own(named: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the outputs of a detector that convert made, with what belongs to its rows; {} of any other."""
    for head in HEADS.values():
        names = ("detections", *head.more)
        if head.more and len(names) == count and all(name in named for name in names):
            return {name: named[name] for name in names}
    return {}


def _shapes(graph: Any) -> str:
    return ", ".join(f"{port(one).name} {list(dimensions(one))}" for one in graph.outputs)


def _table(anchors: Any, count: int) -> np.ndarray:
    try:
        table = np.array(anchors, np.float64)
    except (TypeError, ValueError, OverflowError):
        table = np.empty(0)
    if table.shape != (count, 4) or not np.isfinite(table).all():
        raise ConvertError(
            f"the manifest's anchors are not {count} rows of 4 numbers, one for each box of the model",
            "A row is the centre's x and y, width and height, as shares of the input's sides.",
        )
    return table


def _without_table(boxes: Any, scores: Any) -> ConvertError:
    place, other = (f"{port(one).name} {list(dimensions(one))}" for one in (boxes, scores))
    return ConvertError(
        f"this detector's boxes ({place}) and scores ({other}) belong to anchors, "
        "and the file does not hold their table",
        'State it in a manifest.json beside the file: "anchors": [[x, y, width, height], ...]. Or convert it with '
        "--task tensor: dbinfer.outputs(img, model) gives the raw values.",
    )


def _of_anchors(graph: Any, options: ConvertOptions, anchors: Any) -> str:
    """Return the head of a graph whose anchors are stated, or known as MediaPipe's; "" of any other."""
    found = on_anchors(graph, anchors is not None)
    if found is None or (anchors is None and _laid_out(graph, options) is None):
        return ""
    return "raw_ssd" if dimensions(found[0])[2] == 4 else "blazeface"


def _laid_out(graph: Any, options: ConvertOptions) -> np.ndarray | None:
    """Return MediaPipe's anchors of a graph; None where it is none of MediaPipe's detectors, which have points."""
    found = on_anchors(graph)
    if found is None or dimensions(found[0])[2] == 4:
        return None
    info = graph_info(graph, options.layout)
    height, width = (getattr(info, side) or options.values.get(side) for side in ("height", "width"))
    return grid(height, width, dimensions(found[0])[1]) if height and width else None


def on_anchors(graph: Any, named: bool = False) -> tuple[Any, Any] | None:
    """Return boxes and scores of a detector of the SSD kind, by their shapes: [1, N, 4 or more] and [1, N, classes].

    BlazeFace and palm detection are such; N anchors, which each box is relative to, are in their programs.

    Args:
        named: somebody says that it is one; then four sides may have any number of classes.
    """
    if len(graph.outputs) != 2:
        return None
    for boxes, scores in (graph.outputs, graph.outputs[::-1]):
        one, other = dimensions(boxes), dimensions(scores)
        if not (len(one) == len(other) == 3 and one[1] == other[1] > (0 if named else 100)):
            continue
        if named and 4 in (one[2], other[2]):
            fits = one[2] == 4
        else:
            # Points beside the four sides: an even number, and more than there are scores
            fits = one[2] % 2 == 0 and one[2] >= 4 and one[2] > other[2] >= 1
        if fits:
            return boxes, scores
    return None


def on_prototypes(graph: Any) -> tuple[Any, Any] | None:
    """Return rows and prototypes of a network that finds masks, by their shapes: [1, columns, N] and [1, M, H, W]."""
    ends = sorted(graph.outputs, key=lambda one: len(dimensions(one)))
    if [len(dimensions(one)) for one in ends] != [3, 4] or {dimensions(one)[0] for one in ends} != {1}:
        return None
    return ends[0], ends[1]


def with_rows(graph: Any, detector: Detector, manifest: Manifest, relative: bool = False) -> Any:
    """Return the graph with the output [1, N, 6] that backends read, and what belongs to each row behind it.

    Args:
        relative: YOLO's boxes are shares of the image's sides, not pixels.

    Raises:
        ConvertError: the outputs do not have the shapes of the head.
    """
    rows = max(ROWS, manifest.max_detections)
    outputs = Outputs(
        named=detector.outputs,
        height=manifest.height,
        width=manifest.width,
        rows=rows,
        relative=relative,
        anchors=detector.anchors,
        labels=len(manifest.labels),
    )
    openvino = import_openvino()
    from openvino import opset13

    try:
        # Here OpenVINO derives types and shapes, so what does not fit fails here
        built = detector.head.build(outputs)
        ends = [opset13.result(one) for one in (built if isinstance(built, tuple) else (built,))]
        for end, name in zip(ends, detector.names, strict=True):
            end.get_output_tensor(0).set_names({name})
        return openvino.Model(ends, graph.get_parameters(), graph.get_friendly_name())
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
        if head.names not in ((), ANCHORED, MASKED) and all(wanted in named for wanted in head.names):
            return name
    if both := on_prototypes(graph):
        found = _by_cells(dimensions(both[0]), graph_info(graph, options.layout), options.values)
        return "yolov8_segment" if found == "yolov8" else ""
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
