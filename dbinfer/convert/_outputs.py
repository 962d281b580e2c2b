"""Gives a converted graph the outputs that are wanted, and names that do not depend on what was converted before."""

from __future__ import annotations

import re
from typing import Any

from dbinfer.convert._source import Source
from dbinfer.errors import ConvertError
from dbinfer.ir import import_openvino
from dbinfer.ir.graph import output_names, port

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
