"""A source model once it is read: its graph in OpenVINO, and a way to run the original."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import quiet, tensorflow
from dbinfer.convert.known import Known
from dbinfer.convert.tflite import Described
from dbinfer.database.pins import install
from dbinfer.models.graph import output_names, port
from dbinfer.models.ir import import_openvino

Array = NDArray[Any]
Runner = Callable[[Array], list[Array]]


# Outputs below this count as zero
SMALLEST = 1e-4


class Search(NamedTuple):
    """Where to look for the first layer that differs.

    Attributes:
        ir: the .xml that was written.
        image: the input tensor on which source and IR differ.
        tolerance: largest difference allowed, as a share of a layer's largest value.
        fp16: the IR's weights were halved.
    """

    ir: Path
    image: Array
    tolerance: float
    fp16: bool


# How OpenVINO's front ends name operations that they cannot convert
NO_RULE = re.compile("No conversion rule found for operations: (.+)")
RANDOM = ("Random", "StatelessRandom")
MOST_PLACES = 6
# What tracing adds to the name of a layer
TRACED = re.compile(r"_\d+$")
# OpenVINO's own names: the operation and a number that counts over the whole process
COUNTED = re.compile(r"[A-Za-z0-9]+_\d+")
# Colours in an exception's text
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Source:
    """A model read from a file or folder.

    Attributes:
        graph: the OpenVINO model, weights in float32.
        name: the model's own name, or "" where the format has none.
        framework: name and version of what can run the original, or "".
        run: runs the original on one input tensor, gives its outputs in any order; None where it cannot.
        reason: why `run` is None, or "".
        first_difference: names the first layer whose output differs, "" where none does; None where the
            format does not let us look inside.
        known: which published network it is, None for any other.
        values: keys of the manifest that the file itself holds, or its exporter has written beside it.
        properties: texts that the exporter has put into the file, by their keys.
        described: what a TFLite file says of itself.
        told: who has said `values`, in words; "" where nobody has.
        relative_boxes: a detector's boxes are shares of the image's sides, not pixels.
        detector: the head that its exporter names, where outputs do not tell.
        part: gives the model that ends at the layers of these names, None where there is no such layer; None where
            the format does not let us cut.
        inner: whether its first output was cut so; it was not trained to mean anything by itself.
        left_out: kinds of layers that work in training alone, so the graph is without them.
        as_read: gives the graph before it was optimised.
    """

    graph: Any
    name: str = ""
    framework: str = ""
    run: Runner | None = None
    reason: str = ""
    first_difference: Callable[[Search], str] | None = None
    known: Known | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    described: Described | None = None
    told: str = ""
    relative_boxes: bool = False
    detector: str = ""
    part: Callable[[tuple[str, ...]], Source | None] | None = None
    inner: bool = False
    left_out: tuple[str, ...] = ()
    as_read: Callable[[], Any] | None = None


def cut(source: Source, names: tuple[str, ...]) -> Source:
    """Return the source up to the layers of these names, where some are no outputs of it and the format allows."""
    outputs = source.graph.outputs
    if source.part is None or all(any(_is_called(output, name) for output in outputs) for name in names):
        return source
    return source.part(names) or source


def chosen_outputs(graph: Any, names: tuple[str, ...]) -> Any:
    """Return the graph with one input, and the outputs of these names in their order; with no names, all outputs.

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


def _is_called(output: Any, name: str) -> bool:
    return name in (*output.get_names(), output.get_node().get_friendly_name())


def settle_names(graph: Any) -> None:
    """Number OpenVINO's counted node names within the graph, so that the same source gives the same bytes.

    Names of inputs and outputs stay.
    """
    for position, node in enumerate(graph.get_ordered_ops()):
        if node.get_type_name() in ("Parameter", "Result"):
            continue
        if COUNTED.fullmatch(node.get_friendly_name()):
            node.set_friendly_name(f"{node.get_type_name()}_{position}")


def to_graph(path: Path, what: str, model: Any = None, layers: Sequence[str] = ()) -> Any:
    """Return the OpenVINO model of a file, a folder, or a TensorFlow graph in memory.

    Args:
        layers: names of the layers of that graph.

    Raises:
        ConvertError: OpenVINO cannot read or convert it.
    """
    import_openvino()
    from openvino.tools.ovc import convert_model

    try:
        with quiet():
            return convert_model(str(path) if model is None else model)
    # OpenVINO's front ends raise exceptions of any kind
    except Exception as err:
        if found := NO_RULE.search(str(err)):
            raise _lacking(path, found[1].split(", "), model, layers) from err
        raise unreadable(path, what, err) from err


def _lacking(path: Path, kinds: list[str], graph: Any, layers: Sequence[str]) -> ConvertError:
    """Return the error for operations that OpenVINO lacks, with the layers that they belong to."""
    names: list[str] = []
    with suppress(Exception), quiet():  # the error makes sense without the places
        names = _unconverted(path) if graph is None else _of_kinds(graph, kinds)
    places = list(filter(None, dict.fromkeys(_place(name, kinds, layers) for name in names)))
    where = f", in {', '.join(places[:MOST_PLACES])}" if places else ""
    more = f" and {len(places) - MOST_PLACES} others" if len(places) > MOST_PLACES else ""
    random = any(kind.startswith(RANDOM) for kind in kinds)
    return ConvertError(
        f"OpenVINO lacks operations of {path}: {', '.join(kinds)}{where}{more}",
        "They change images at random, as in training: convert the .keras file, which is taken as it infers."
        if random
        else "Build these layers of other operations, or convert the network from another format "
        "(ONNX, SavedModel, TFLite).",
    )


def as_read(path: Path) -> Any:
    """Return the OpenVINO model of a file or folder before it is optimised."""
    reader = _reader(path)
    return reader.convert(reader.load(str(path)))


def _reader(path: Path) -> Any:
    from openvino.frontend import FrontEndManager

    return FrontEndManager().load_by_model(str(path))


def _unconverted(path: Path) -> list[str]:
    """Return the names of the operations that OpenVINO reads and cannot convert."""
    reader = _reader(path)
    graph = reader.convert_partially(reader.load(str(path)))
    found = [node for node in graph.get_ordered_ops() if node.get_type_name().endswith("FrameworkNode")]
    return [node.get_friendly_name() for node in found]


def _of_kinds(graph: Any, kinds: list[str]) -> list[str]:
    return [operation.name for operation in graph.get_operations() if operation.type in kinds]


def _place(name: str, kinds: list[str], layers: Sequence[str]) -> str:
    """Return the layer that an operation belongs to; where they are unknown, its name without its own part."""
    parts = name.strip("/").split("/")
    if layers:
        ends = (end for part in reversed(parts) for end in (part, TRACED.sub("", part)))
        return next((end for end in ends if end in layers), "")
    own = tuple(kind.rsplit(".", 1)[-1] for kind in kinds)
    return "/".join(parts[:-1] if len(parts) > 1 and parts[-1].startswith(own) else parts)


def find_tensorflow() -> Any | None:
    """Return the module tensorflow, imported in silence, or None where it is not installed."""
    try:
        return tensorflow()
    except ImportError:
        return None


def require_tensorflow(what: str) -> Any:
    """Return the module tensorflow.

    Raises:
        ConvertError: it is not installed.
    """
    tf = find_tensorflow()
    if tf is None:
        raise ConvertError(f"reading {what} needs TensorFlow, which is not installed", install("convert"))
    return tf


def differs(difference: float, magnitude: float, tolerance: float) -> bool:
    """Return whether a difference in values up to `magnitude` is too large; one that is not a number is, too."""
    return not difference <= tolerance * max(magnitude, SMALLEST)


def unreadable(path: Path, what: str, err: BaseException) -> ConvertError:
    """Return the error for a source that its reader refused, with the reader's most telling line."""
    return ConvertError(
        f"{path} cannot be read as {what}: {telling_line(err)}",
        "Check that the file is complete and has that format, or export the model again.",
    )


def telling_line(err: BaseException) -> str:
    """Return one line of an exception's text, at most 200 characters, without paths of source code."""
    noise = (
        *("Check '", "Exception ", "FrontEnd API failed", "While ", "Traceback", "File ", "[", "^"),
        *("Graph execution error", "Detected at node", "<stack traces"),
    )
    lines = [line.strip(" -\t") for line in COLOUR.sub("", str(err)).splitlines()]
    lines = [line for line in lines if line and not line.startswith(noise)]
    text = lines[0] if lines else type(err).__name__
    return text if len(text) <= 200 else text[:199] + "…"


def arrays(values: Any) -> list[Array]:
    """Return the outputs of a framework (one tensor, a list or a dict of them) as numpy arrays."""
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, list | tuple):
        values = [values]
    return [np.asarray(value) for value in values]
