"""ONNX sources; converting needs only OpenVINO, checking onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.convert._known_torch import known_torch
from dbinfer.convert._source import Search, Source, arrays, differs, to_graph
from dbinfer.convert.quiet import quiet
from dbinfer.errors import ConvertError
from dbinfer.ir import import_openvino
from dbinfer.ir.rtinfo import read_properties
from dbinfer.pins import install

# Of onnxruntime's log: what it says of errors, it raises, too
FATAL = 4
NO_LAYERS = ("Parameter", "Constant", "Result")


def read_onnx(path: Path) -> Source:
    """Read an `.onnx` file."""
    try:
        graph = to_graph(path, "an ONNX model")
    except ConvertError as err:
        if not (lacking := _closed_weights(path)):
            raise
        # what may be read is settled before anybody has looked into the file
        raise ConvertError(
            f"{path} has weights in {lacking}, which is not there or does not begin with {path.name}",
            f"Save it again: onnx.save(model, {path.name!r}, save_as_external_data=True, "
            f"location={path.name + '.data'!r})",
        ) from err
    return replace(_with_runner(graph, path), known=known_torch(path), properties=read_properties(graph))


def _closed_weights(path: Path) -> str:
    """Return the first of the files with its weights that stays closed, "" where none does or nobody can tell."""
    with suppress(Exception):
        import onnx

        for tensor in onnx.load(str(path), load_external_data=False).graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location" and not _open(path.with_name(entry.value), path):
                    return str(entry.value)
    return ""


def _open(weights: Path, path: Path) -> bool:
    return weights.is_file() and weights.name.startswith(path.name)


def _with_runner(graph: Any, path: Path) -> Source:
    try:
        with quiet():  # it looks for other processors, and says which it has not found
            import onnxruntime
    except ImportError:
        return Source(graph, reason=f"onnxruntime is not installed. {install('convert')}")
    framework = f"onnxruntime {onnxruntime.__version__}"
    try:
        with quiet():
            session = _session(str(path))
            (entry,) = session.get_inputs()
    except Exception as err:
        return Source(graph, reason=f"{framework} cannot run it ({type(err).__name__})")

    def run(x: Any) -> list[Any]:
        return arrays(session.run(None, {entry.name: x}))

    return Source(graph, "", framework, run, first_difference=partial(_first_difference, path))


def _session(model: str | bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _first_difference(path: Path, search: Search) -> str:
    """Compare all tensors that source and IR both name, in the order of computation."""
    inside = dict(_ir_tensors(search))
    for name, layer, expected in _onnx_tensors(path, search.image, set(inside)):
        actual = inside[name]
        if actual.shape != expected.shape or expected.dtype.kind != "f":
            continue
        gap, largest = np.abs(actual - expected).max(), np.abs(expected).max()
        if differs(float(gap), float(largest), search.tolerance):
            return f"{layer}: {gap:.3g} (of {largest:.3g})"
    return ""


def _onnx_tensors(path: Path, image: Any, wanted: set[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield (name, layer, value) of tensors inside the model, which become outputs of it for that."""
    import onnx

    model = onnx.load(str(path))
    layers = {
        name: f"{node.name or name} ({node.op_type})" for node in model.graph.node for name in node.output
    }
    names = [name for name in layers if name in wanted]
    del model.graph.output[:]
    # onnxruntime works out their types and shapes by itself
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    session = _session(model.SerializeToString())
    values = session.run(names, {session.get_inputs()[0].name: image})
    yield from zip(names, (layers[name] for name in names), values, strict=True)


def _ir_tensors(search: Search) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of the tensors inside the IR that still have the source's names."""
    openvino = import_openvino()
    from openvino import opset13

    graph = openvino.Core().read_model(str(search.ir))
    layers = [node for node in graph.get_ordered_ops() if node.get_type_name() not in NO_LAYERS]
    ports = [port for node in layers for port in node.outputs() if port.get_names()]
    exposed = openvino.Model([opset13.result(port) for port in ports], graph.get_parameters())
    values = openvino.compile_model(exposed, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(search.image)
    for position, port in enumerate(ports):
        for name in port.get_names():
            yield name, values[position]
