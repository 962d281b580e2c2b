"""Gives a converted graph one output, and names that do not depend on what was converted before."""

from __future__ import annotations

import re
from typing import Any

from dbinfer.convert._source import Source
from dbinfer.errors import ConvertError
from dbinfer.ir import import_openvino
from dbinfer.ir.graph import port

# OpenVINO's own names: the operation and a number that counts over the whole process
COUNTED = re.compile(r"[A-Za-z0-9]+_\d+")


def cut(source: Source, name: str | None) -> Source:
    """Return the source up to the layer called `name`, where that is no output of it and the format allows."""
    if (
        name is None
        or source.part is None
        or any(_is_called(output, name) for output in source.graph.outputs)
    ):
        return source
    return source.part(name) or source


def _is_called(output: Any, name: str) -> bool:
    return name in (*output.get_names(), output.get_node().get_friendly_name(), port(output).name)


def one_output(graph: Any, name: str | None) -> Any:
    """Return the graph with one input and one output, the one called `name` where there are several.

    Raises:
        ConvertError: several inputs; several outputs and no name; no output of that name.
    """
    if len(graph.inputs) != 1:
        inputs = ", ".join(port(entry).name for entry in graph.inputs)
        raise ConvertError(
            f"the model has {len(graph.inputs)} inputs ({inputs}); only models of one image are supported"
        )
    names = [port(output).name for output in graph.outputs]
    if name is None and len(names) == 1:
        return graph
    if name is None:
        raise ConvertError(
            f"the model has {len(names)} outputs: {', '.join(names)}",
            "Choose the one to keep with --output-name.",
        )
    for output in graph.outputs:
        if _is_called(output, name):
            openvino = import_openvino()
            return openvino.Model([output.get_node()], graph.get_parameters(), graph.get_friendly_name())
    raise ConvertError(f"the model has no output {name!r}; it has {', '.join(names)}")


def settle_names(graph: Any) -> None:
    """Number OpenVINO's counted node names within the graph, so that the same source gives the same bytes.

    Names of inputs and outputs stay.
    """
    for position, node in enumerate(graph.get_ordered_ops()):
        if node.get_type_name() in ("Parameter", "Result"):
            continue
        if COUNTED.fullmatch(node.get_friendly_name()):
            node.set_friendly_name(f"{node.get_type_name()}_{position}")
