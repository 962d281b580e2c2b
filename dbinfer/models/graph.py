"""What an OpenVINO graph says of the image it takes and the result it gives, and its input tensor computed with
numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbinfer.base.errors import ModelFileError
from dbinfer.models.ir import import_openvino, last_line
from dbinfer_udf.manifest import Manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray


LAYOUTS = ("NHWC", "NCHW")
ACTIVATIONS = {"Softmax": "softmax", "SoftMax": "softmax", "Sigmoid": "sigmoid"}
# Operations that only move or convert values: what comes before them is how the network ends
SHAPING = ("Convert", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity")
# Operations that bring pixels into a network's range, size and order; what comes behind them computes features
PREPARING = (
    *SHAPING,
    *("Add", "Subtract", "Multiply", "Divide"),
    *("Split", "VariadicSplit", "Concat", "Gather", "StridedSlice", "Slice", "Reverse", "Interpolate"),
)
# No network wants pixels beyond; those that are only divided by a deviation, or not at all, are far beyond
NEAR_ZERO = 16
ANY_SIDE = 64


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
        activation=ending(graph.get_results()[0].input_value(0)),
    )


def port(node_output: Any) -> Port:
    """Return name, shape and type of an input or output."""
    # A tensor may have several names; the shortest is that which its author gave
    names = sorted(node_output.get_names(), key=lambda name: (len(name), name))
    name = names[0] if names else node_output.get_node().get_friendly_name()
    return Port(name, dimensions(node_output), node_output.get_element_type().get_type_name())


def output_names(graph: Any) -> tuple[str, ...]:
    """Return the names of all outputs, each another."""
    names: list[str] = []
    for place, output in enumerate(graph.outputs):
        # without a name of its own it has one that OpenVINO counts over the whole process
        name = port(output).name if output.get_names() else f"output_{place}"
        names.append(f"{name}_{place}" if name in names else name)
    return tuple(names)


def dimensions(node_output: Any) -> tuple[int, ...]:
    """Return a shape with -1 for open sizes; () where even the rank is open."""
    shape = node_output.get_partial_shape()
    if shape.rank.is_dynamic:
        return ()
    return tuple(dim.get_length() if dim.is_static else -1 for dim in shape)


def _own_layout(graph: Any) -> str | None:
    """Return the layout that the IR names; None where it names none or a partial one."""
    # A Layout shows its axes only as a text: [N,H,W,C]
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


def ending(output: Any) -> str:
    """Return the activation from which an output comes: `softmax` or `sigmoid`, else ""."""
    node = output.get_node()
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
        shape = openvino.PartialShape([batch, *(openvino.Dimension(size) for size in sizes)])
        try:
            graph.reshape(shape)
        except RuntimeError as err:
            raise ModelFileError(
                f"the network cannot take images of {height}x{width} (height x width): {last_line(err)}",
                "Set another --input-size.",
            ) from err
    graph.get_parameters()[0].set_layout(openvino.Layout(info.layout))


def scales_pixels(graph: Any, info: GraphInfo) -> bool:
    """Return whether the graph itself makes its values of pixels 0..255: divides them, or takes away a mean.

    Args:
        graph: as it was read; optimising hides a scale in the weights of the layer behind it.
    """
    import numpy as np

    prepared = _prepared(graph)
    if prepared is None:
        return False
    dark, bright = (_values(graph, prepared, info, level) for level in (0, 255))
    spread = float(np.abs(bright - dark).max())
    if spread > 0 and max(np.abs(dark).max(), np.abs(bright).max()) <= NEAR_ZERO:
        return True
    return bool(np.isclose(spread, 255, rtol=1e-3) and dark.max() < -NEAR_ZERO)


def _prepared(graph: Any) -> Any:
    """Return the tensor that the first layer gets; None where that is the image, or several layers get several."""
    (image,) = graph.get_parameters()
    inside, behind, ends = {image.get_name()}, set[str](), dict[str, Any]()
    for node in graph.get_ordered_ops():
        given = [port.get_source_output() for port in node.inputs()]
        names = {output.get_node().get_name() for output in given}
        if node.get_type_name() == "ShapeOf" or not names & (inside | behind):
            continue
        if node.get_type_name() in PREPARING and not names & behind:
            inside.add(node.get_name())
            continue
        behind.add(node.get_name())
        for output in given:
            name = output.get_node().get_name()
            if name in inside:
                ends[f"{name}:{output.get_index()}"] = output
    (end,) = ends.values() if len(ends) == 1 else (image.output(0),)
    return None if end.get_node().get_name() == image.get_name() else end


def _values(graph: Any, prepared: Any, info: GraphInfo, level: int) -> Any:
    """Return what the first layer gets of an image that is all of one grey level."""
    import numpy as np

    openvino = import_openvino()
    from openvino import opset13

    shape = info.shape(info.height or ANY_SIDE, info.width or ANY_SIDE, info.channels or 3)
    part = openvino.Model([opset13.result(prepared)], graph.get_parameters())
    compiled = openvino.compile_model(part, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled(np.full(shape, level, compiled.input(0).get_element_type().to_dtype()))[0]


# Element types as OpenVINO and as numpy name them
ELEMENTS = {"f32": "float32", "f16": "float16", "u8": "uint8"}


def normalized(pixels: NDArray[Any], manifest: Manifest) -> NDArray[Any]:
    """Return x = (pixel - mean) / scale of an image (height, width, channels), computed in float32."""
    import numpy as np

    x: NDArray[Any] = pixels.astype(np.float32)
    if manifest.mean:
        x = x - np.asarray(manifest.mean, np.float32)
    if manifest.scale:
        x = x / np.asarray(manifest.scale, np.float32)
    return x


def input_tensor(pixels: NDArray[Any], manifest: Manifest, layout: str, element: str = "f32") -> NDArray[Any]:
    """Return the tensor of one image, normalized.

    Args:
        pixels: uint8 (height, width, channels) in the size and colour order of the manifest.
        layout: NHWC or NCHW.
        element: type of the network's input, a key of ELEMENTS.

    Returns:
        (1, height, width, channels) or (1, channels, height, width), contiguous.
    """
    import numpy as np

    x = normalized(pixels, manifest)
    x = x[None] if layout == "NHWC" else x.transpose(2, 0, 1)[None]
    return np.ascontiguousarray(x, dtype=ELEMENTS[element])
