"""What an OpenVINO graph says of the image it takes and the result it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbinfer.errors import ModelFileError
from dbinfer.ir._openvino import import_openvino

LAYOUTS = ("NHWC", "NCHW")
ACTIVATIONS = {"Softmax": "softmax", "SoftMax": "softmax", "Sigmoid": "sigmoid"}
# Operations that only move or convert values: what comes before them is how the network ends
SHAPING = ("Convert", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity")


@dataclass(frozen=True)
class Port:
    """One input or output: its name, its shape (-1 where any size fits) and its element type."""

    name: str
    shape: tuple[int, ...]
    type: str


@dataclass(frozen=True)
class GraphInfo:
    """What the graph itself says.

    Attributes:
        layout: NHWC or NCHW.
        height, width: of the input in pixels, None where any size fits.
        channels: 1 or 3; None where any number fits.
        element: type of the input: f32, for example.
        output: shape of the output, -1 where any size fits; () where even the rank is open.
        activation: `softmax` or `sigmoid` where the graph ends so, else "".
    """

    layout: str
    height: int | None
    width: int | None
    channels: int | None
    element: str
    output: tuple[int, ...]
    activation: str

    @property
    def classes(self) -> int | None:
        """How many scores an output of shape (batch, classes) has; None for other shapes."""
        return self.output[1] if len(self.output) == 2 and self.output[1] > 0 else None

    def shape(self, height: int, width: int, channels: int, batch: int = 1) -> list[int]:
        """Return the input's shape for images of a size, in the order of the layout."""
        sizes = {"N": batch, "H": height, "W": width, "C": channels}
        return [sizes[axis] for axis in self.layout]


def graph_info(graph: Any, layout: str | None = None) -> GraphInfo:
    """Return what the graph says of its image and its result.

    Args:
        layout: NHWC or NCHW where the user said so; it wins over the graph's own word.

    Raises:
        ModelFileError: the input is no image of 1 or 3 channels, or its layout is open.
    """
    entry = port(graph.input(0))
    order = _layout(entry, layout, _own_layout(graph))
    height, width, channels = (entry.shape[order.index(axis)] for axis in "HWC")
    return GraphInfo(
        layout=order,
        height=height if height > 0 else None,
        width=width if width > 0 else None,
        channels=channels if channels > 0 else None,
        element=entry.type,
        output=dimensions(graph.output(0)),
        activation=_activation(graph),
    )


def port(node_output: Any) -> Port:
    """Return name, shape and type of an input or output."""
    # A tensor may have several names; the shortest is the one that people gave
    names = sorted(node_output.get_names(), key=lambda name: (len(name), name))
    name = names[0] if names else node_output.get_node().get_friendly_name()
    return Port(name, dimensions(node_output), node_output.get_element_type().get_type_name())


def dimensions(node_output: Any) -> tuple[int, ...]:
    """Return a shape with -1 for open sizes; () where even the rank is open."""
    shape = node_output.get_partial_shape()
    if shape.rank.is_dynamic:
        return ()
    return tuple(dim.get_length() if dim.is_static else -1 for dim in shape)


def _own_layout(graph: Any) -> str | None:
    """Return the layout that the IR names; None where it names none or a partial one."""
    # A Layout tells its axes only as a text: [N,H,W,C]
    named = str(graph.get_parameters()[0].get_layout()).strip("[]").replace(",", "")
    return named if named in LAYOUTS else None


def _layout(entry: Port, asked: str | None, own: str | None) -> str:
    if len(entry.shape) != 4:
        raise ModelFileError(
            f"the input {entry.name} has the shape {list(entry.shape)}, but an image needs 4 dimensions",
            "Export the model with an input of (batch, height, width, channels) or (batch, channels, height, width).",
        )
    order = asked or own
    fitting = [name for name in LAYOUTS if entry.shape[name.index("C")] in (1, 3)]
    if order and entry.shape[order.index("C")] in (1, 3, -1):
        return order
    if order or not fitting:
        raise ModelFileError(
            f"the input {entry.name} has the shape {list(entry.shape)}, "
            f"which is not an image with 1 or 3 channels{f' in {order}' if order else ''}"
        )
    if len(fitting) == 2:
        raise ModelFileError(
            f"the shape {list(entry.shape)} of the input {entry.name} does not show which dimension holds the channels",
            "Set --layout NHWC or --layout NCHW.",
        )
    return fitting[0]


def _activation(graph: Any) -> str:
    node = graph.get_results()[0].input_value(0).get_node()
    while node.get_type_name() in SHAPING and node.inputs():
        node = node.input_value(0).get_node()
    return ACTIVATIONS.get(node.get_type_name(), "")


def fix_size(graph: Any, info: GraphInfo, height: int, width: int, channels: int) -> None:
    """Give the input its layout and, where the graph leaves them open, its height, width and channels."""
    openvino = import_openvino()
    if None in (info.height, info.width, info.channels):
        # The batch stays as it is, also where it is open
        batch = graph.input(0).get_partial_shape()[0]
        sizes = info.shape(height, width, channels)[1:]
        graph.reshape(openvino.PartialShape([batch, *(openvino.Dimension(size) for size in sizes)]))
    graph.get_parameters()[0].set_layout(openvino.Layout(info.layout))
