"""Finds which head a detector has, by name or by its outputs, and gives the graph the outputs that backends read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbinfer.base.errors import ConvertError
from dbinfer.convert import heads
from dbinfer.convert.options import ConvertOptions
from dbinfer.convert.source import Source
from dbinfer.models.graph import GraphInfo, dimensions, graph_info, output_names, port
from dbinfer.models.ir import import_openvino
from dbinfer_udf.manifest import Manifest

# OpenVINO's own names: the operation and a number that counts over the whole process
COUNTED = re.compile(r"[A-Za-z0-9]+_\d+")


def cut(source: Source, names: tuple[str, ...]) -> Source:
    """Return the source up to the layers of these names, where some are no outputs of it and the format allows."""
    outputs = source.graph.outputs
    if source.part is None or all(any(_is_called(output, name) for output in outputs) for name in names):
        return source
    return source.part(names) or source


def _is_called(output: Any, name: str) -> bool:
    return name in (*output.get_names(), output.get_node().get_friendly_name())


def chosen_outputs(graph: Any, names: tuple[str, ...]) -> Any:
    """Return the graph with one input, and the outputs of these names in their order; with all for none.

    Raises:
        ConvertError: several inputs; no output of such a name.
    """
    if len(graph.inputs) != 1:
        inputs = ", ".join(port(entry).name for entry in graph.inputs)
        raise ConvertError(
            f"the model has {len(graph.inputs)} inputs ({inputs}); only models of one image are supported"
        )
    if not names:
        return graph
    nodes = [_called(graph, name).get_node() for name in names]
    return import_openvino().Model(nodes, graph.get_parameters(), graph.get_friendly_name())


def _called(graph: Any, name: str) -> Any:
    there = output_names(graph)
    for output, known in zip(graph.outputs, there, strict=True):
        if name == known or _is_called(output, name):
            return output
    raise ConvertError(f"the model has no output {name!r}; it has {', '.join(there)}")


def settle_names(graph: Any) -> None:
    """Number OpenVINO's counted node names within the graph, so that the same source gives the same bytes.

    Names of inputs and outputs stay.
    """
    for position, node in enumerate(graph.get_ordered_ops()):
        if node.get_type_name() in ("Parameter", "Result"):
            continue
        if COUNTED.fullmatch(node.get_friendly_name()):
            node.set_friendly_name(f"{node.get_type_name()}_{position}")


YOLO = {"resize": "fit_to_window_letterbox", "pad_value": 114, "threshold": 0.25, "iou_threshold": 0.45}


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

    build: Callable[[heads.Outputs], Any]
    names: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    suppressed: bool = True


HEADS: dict[str, Head] = {
    "ssd": Head(heads.ssd, ("detection_boxes", "detection_scores", "detection_classes"), ("num_detections",)),
    "detection_output": Head(heads.detection_output),
    "boxes_labels": Head(heads.boxes_labels, ("boxes", "labels"), ("scores",)),
    "yolov5": Head(heads.yolov5, values={**YOLO, "scale": [255.0]}, suppressed=False),
    "yolov8": Head(heads.yolov8, values={**YOLO, "iou_threshold": 0.7, "scale": [255.0]}, suppressed=False),
    "yolox": Head(
        heads.yolox,
        values={**YOLO, "resize": "fit_to_window", "color": "BGR", "scale": [1.0]},
        suppressed=False,
    ),
    "centers": Head(heads.centers, ("heatmap", "size", "offset"), suppressed=False),
    "rows": Head(heads.rows),
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
    """Return the graph, and what it is as a detector; None where it is none, or nobody says so.

    Args:
        task: as the user or a manifest says; None: unknown.

    Raises:
        ConvertError: its outputs are not those of the head that was asked for, or of none for task detection.
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
        # points beside the four sides: an even number, and more than there are scores
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
    rows = max(heads.ROWS, manifest.max_detections)
    outputs = heads.Outputs(detector.outputs, manifest.height, manifest.width, rows, relative)
    openvino = import_openvino()
    from openvino import opset13

    try:
        # Type and shape are worked out here, so what does not fit fails here
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
    """Return the head that the outputs tell of; "" where they do not."""
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
    # behind YOLO with one class, whose rows have six numbers, too
    return found or ("rows" if shape[2] == 6 and task == "detection" else "")


def _by_cells(shape: tuple[int, ...], info: GraphInfo, values: Mapping[str, Any]) -> str:
    """Return the kind of YOLO that has as many rows as its feature maps have cells."""
    height, width = info.height or values.get("height"), info.width or values.get("width")
    if not height or not width:
        return ""
    cells = sum((height // stride) * (width // stride) for stride in heads.STRIDES)
    if shape[2] == cells and shape[1] > 4:
        return "yolov8"
    return {3 * cells: "yolov5", cells: "yolox"}.get(shape[1], "") if shape[2] > 5 else ""
