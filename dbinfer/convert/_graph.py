"""Facts of an OpenVINO graph: its one input, its one output, their shapes, and how it ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dbinfer.convert._options import ConvertOptions
from dbinfer.convert._report import Port
from dbinfer.errors import ConvertError
from dbinfer.ir import import_openvino

INPUT_TYPES = ("f32", "f16", "u8")
ENDS = {"Softmax": "softmax", "SoftMax": "softmax", "Sigmoid": "sigmoid"}
COUNTED = re.compile(r"[A-Za-z0-9]+_\d+")
PASSING = ("Convert", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity")


@dataclass(frozen=True)
class Facts:
    """What the graph itself says.

    Attributes:
        layout: NHWC or NCHW.
        height, width: of the input in pixels, None where any size fits.
        channels: 1 or 3.
        element: type of the input: f32, f16 or u8.
        output: shape of the output, -1 where any size fits.
        ending: `softmax` or `sigmoid` where the graph ends so, else "".
    """

    layout: str
    height: int | None
    width: int | None
    channels: int
    element: str
    output: tuple[int, ...]
    ending: str

    @property
    def classes(self) -> int | None:
        """How many scores an output of shape (batch, classes) has; None for other shapes."""
        return self.output[1] if len(self.output) == 2 and self.output[1] > 0 else None


def port(node_output: Any) -> Port:
    """Return name, shape and type of an input or output."""
    names = sorted(node_output.get_names(), key=lambda name: (len(name), name))
    name = names[0] if names else node_output.get_node().get_friendly_name()
    return Port(name, dimensions(node_output), node_output.get_element_type().get_type_name())


def dimensions(node_output: Any) -> tuple[int, ...]:
    """Return a shape with -1 for open sizes; () where even the rank is open."""
    shape = node_output.get_partial_shape()
    if shape.rank.is_dynamic:
        return ()
    return tuple(dim.get_length() if dim.is_static else -1 for dim in shape)


def one_output(graph: Any, name: str | None) -> Any:
    """Return the graph with one input and one output, the one called `name` where there are several.

    Raises:
        ConvertError: several inputs; several outputs and no name; no output of that name.
    """
    if len(graph.inputs) != 1:
        inputs = ", ".join(port(entry).name for entry in graph.inputs)
        raise ConvertError(
            f"The model has {len(graph.inputs)} inputs ({inputs}); only models of one image are supported."
        )
    names = [port(output).name for output in graph.outputs]
    if name is None and len(names) == 1:
        return graph
    if name is None:
        raise ConvertError(
            f"The model has {len(names)} outputs: {', '.join(names)}.",
            "Say which one to keep with --output-name.",
        )
    for output in graph.outputs:
        if name in (*output.get_names(), output.get_node().get_friendly_name(), port(output).name):
            openvino = import_openvino()
            return openvino.Model([output.get_node()], graph.get_parameters(), graph.get_friendly_name())
    raise ConvertError(f"The model has no output {name!r}; it has {', '.join(names)}.")


def facts(graph: Any, options: ConvertOptions) -> Facts:
    """Return what the graph says of its image and its result.

    Raises:
        ConvertError: the input is no image of 1 or 3 channels, or its layout is open.
    """
    entry = port(graph.input(0))
    layout = _layout(entry, options.layout)
    height, width, channels = (entry.shape[layout.index(axis)] for axis in "HWC")
    if entry.type not in INPUT_TYPES:
        raise ConvertError(
            f"The input {entry.name} is of type {entry.type}, but must be one of f32, f16, u8."
        )
    return Facts(
        layout=layout,
        height=height if height > 0 else None,
        width=width if width > 0 else None,
        channels=channels,
        element=entry.type,
        output=dimensions(graph.output(0)),
        ending=_ending(graph),
    )


def _layout(entry: Port, wanted: str | None) -> str:
    if len(entry.shape) != 4:
        raise ConvertError(
            f"The input {entry.name} has the shape {list(entry.shape)}, but an image needs 4 dimensions.",
            "Export it with an input of (batch, height, width, channels), or of channels first.",
        )
    fitting = [name for name in ("NHWC", "NCHW") if entry.shape[name.index("C")] in (1, 3)]
    if wanted in fitting:
        return str(wanted)
    if wanted or not fitting:
        raise ConvertError(
            f"The input {entry.name} has the shape {list(entry.shape)}, "
            f"which is no image of 1 or 3 channels{f' in {wanted}' if wanted else ''}."
        )
    if len(fitting) == 2:
        raise ConvertError(
            f"The shape {list(entry.shape)} of {entry.name} leaves the layout open.", "Say it with --layout."
        )
    return fitting[0]


def _ending(graph: Any) -> str:
    node = graph.output(0).get_node().input_value(0).get_node()
    while node.get_type_name() in PASSING and node.inputs():
        node = node.input_value(0).get_node()
    return ENDS.get(node.get_type_name(), "")


def fix_size(graph: Any, known: Facts, height: int, width: int) -> None:
    """Give the input its layout and, where the graph leaves them open, its height and width in pixels."""
    openvino = import_openvino()
    sizes = {"H": height, "W": width, "C": known.channels}
    batch = graph.input(0).get_partial_shape()[0]
    if known.height is None or known.width is None:
        graph.reshape(
            openvino.PartialShape([batch, *(openvino.Dimension(sizes[axis]) for axis in known.layout[1:])])
        )
    graph.get_parameters()[0].set_layout(openvino.Layout(known.layout))


def settle_names(graph: Any) -> None:
    """Number OpenVINO's counted node names within the graph, so that the same source gives the same bytes.

    OpenVINO counts over the whole process. Names of inputs and outputs stay.
    """
    for position, node in enumerate(graph.get_ordered_ops()):
        if node.get_type_name() in ("Parameter", "Result"):
            continue
        if COUNTED.fullmatch(node.get_friendly_name()):
            node.set_friendly_name(f"{node.get_type_name()}_{position}")
