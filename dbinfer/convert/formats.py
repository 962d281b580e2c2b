"""Source formats by name: Keras, and those that OpenVINO reads itself (IR, ONNX, SavedModel, frozen graphs,
TFLite).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.base.errors import ConvertError, ModelFileError
from dbinfer.base.quiet import quiet
from dbinfer.convert.keras import read_h5, read_keras
from dbinfer.convert.known import known_torch
from dbinfer.convert.source import Runner, Search, Source, arrays, differs, find_tensorflow, to_graph
from dbinfer.convert.tflite import described
from dbinfer.database.pins import install
from dbinfer.models.describe import from_model_info
from dbinfer.models.graph import graph_info
from dbinfer.models.ir import (
    core_for,
    import_openvino,
    read_manifest,
    read_model,
    read_model_info,
    read_properties,
)
from dbinfer_udf.manifest import ManifestError


def read_ir(path: Path) -> Source:
    """Read an `.xml` file with the `.bin` beside it, and what Model API's `model_info` says of it."""
    openvino = import_openvino()
    model = read_model(path, of_image=False)
    own, told = read_manifest(model.graph), read_model_info(model.graph)
    try:
        values = own.to_dict() if own else from_model_info(told, graph_info(model.graph)) if told else {}
    except ManifestError as err:
        raise ModelFileError(f"{path}: {err}") from err
    compiled: list[Any] = []

    def run(x: Any) -> list[Any]:
        if not compiled:  # only for a comparison
            compiled.append(
                core_for(path).compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            )
        answer = compiled[0](x)
        return [answer[place] for place in range(len(compiled[0].outputs))]

    framework = f"OpenVINO {openvino.__version__.split('-')[0]}"
    return Source(
        model.graph, "", framework, run, values=values, properties={} if own else read_properties(model.graph)
    )


# Level of onnxruntime's log: it raises its errors, too
FATAL = 4
NO_LAYERS = ("Parameter", "Constant", "Result")


def read_onnx(path: Path) -> Source:
    """Read an `.onnx` file."""
    try:
        graph = to_graph(path, "an ONNX model")
    except ConvertError as err:
        if not (lacking := _closed_weights(path)):
            raise
        # Which files may be read is settled before this one is read
        raise ConvertError(
            f"{path} has weights in {lacking}, which is not there or does not begin with {path.name}",
            f"Save it again: onnx.save(model, {path.name!r}, save_as_external_data=True, "
            f"location={path.name + '.data'!r})",
        ) from err
    return replace(_with_onnxruntime(graph, path), known=known_torch(path), properties=read_properties(graph))


def _closed_weights(path: Path) -> str:
    """Return the first file with its weights that may not be read; "" where there is none, or it is unknown."""
    with suppress(Exception):
        import onnx

        for tensor in onnx.load(str(path), load_external_data=False).graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location" and not _open(path.with_name(entry.value), path):
                    return str(entry.value)
    return ""


def _open(weights: Path, path: Path) -> bool:
    return weights.is_file() and weights.name.startswith(path.name)


def _with_onnxruntime(graph: Any, path: Path) -> Source:
    try:
        with quiet():  # it looks for other processors, and reports missing ones
            import onnxruntime
    except ImportError:
        return Source(graph, reason=f"onnxruntime is not installed. {install('convert')}")
    framework = f"onnxruntime {onnxruntime.__version__}"
    try:
        with quiet():
            session = _session(str(path))
            entries = session.get_inputs()
    except Exception as err:
        return Source(graph, reason=f"{framework} cannot run it ({type(err).__name__})")

    def run(x: Any) -> list[Any]:
        # a tower of texts may take two, by their names
        given = x if isinstance(x, dict) else {entries[0].name: x}
        return arrays(session.run(None, given))

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
    """Yield (name, layer, value) of tensors inside the model, which become outputs for that."""
    import onnx

    model = onnx.load(str(path))
    layers = {
        name: f"{node.name or name} ({node.op_type})" for node in model.graph.node for name in node.output
    }
    names = [name for name in layers if name in wanted]
    del model.graph.output[:]
    # onnxruntime derives their types and shapes
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


TFLITE_MAGIC = b"TFL3"


def read_saved_model(path: Path) -> Source:
    """Read a SavedModel folder."""
    if not (path / "saved_model.pb").is_file():
        raise ConvertError(
            f"{path} is a folder without saved_model.pb, so it is not a SavedModel",
            "Name the folder that contains saved_model.pb, or a model file.",
        )
    return _with_tensorflow(to_graph(path, "a SavedModel"), path, _saved_model_runner)


def read_frozen(path: Path) -> Source:
    """Read a frozen TensorFlow graph, of TensorFlow 1 too."""
    if path.name == "saved_model.pb":
        raise ConvertError(f"{path} is part of a SavedModel", f"Convert its folder: {path.parent}")
    return _with_tensorflow(to_graph(path, "a frozen TensorFlow graph"), path, _frozen_runner)


def read_tflite(path: Path) -> Source:
    """Read a TFLite file."""
    with path.open("rb") as file:
        # A flatbuffer's identifier stands behind the 4 bytes that point to its root
        if file.read(8)[4:] != TFLITE_MAGIC:
            raise ConvertError(f"{path} is not a TFLite file", "Convert the model to TFLite again.")
    found = described(path)
    try:
        graph = to_graph(path, "a TFLite model")
    except ConvertError as err:
        if not found.custom:
            raise
        raise ConvertError(
            f"{path} has operations that are not TensorFlow's, which OpenVINO does not know: {', '.join(found.custom)}",
            "Export the network without them, from where it was trained.",
        ) from err
    return replace(_with_tensorflow(graph, path, _tflite_runner), described=found)


def _with_tensorflow(graph: Any, path: Path, make: Any) -> Source:
    tf = find_tensorflow()
    if tf is None:
        return Source(graph, reason=f"TensorFlow is not installed. {install('convert')}")
    try:
        with quiet():
            run = make(tf, path)
    except Exception as err:
        return Source(graph, reason=f"TensorFlow {tf.__version__} cannot run it ({type(err).__name__})")
    return Source(graph, framework=f"TensorFlow {tf.__version__}", run=run)


def _saved_model_runner(tf: Any, path: Path) -> Runner:
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    (key,) = signature.structured_input_signature[1]

    def run(x: Any) -> list[Any]:
        with quiet():
            return arrays(signature(**{key: tf.constant(x)}))

    run.keep = loaded  # type: ignore[attr-defined]  # the signature holds its variables only weakly
    return run


def _frozen_runner(tf: Any, path: Path) -> Runner:
    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    # TensorFlow 2 runs a graph of TensorFlow 1 only within such a function
    wrapped = tf.compat.v1.wrap_function(lambda: tf.compat.v1.import_graph_def(definition, name=""), [])
    operations = wrapped.graph.get_operations()
    (entry,) = [op for op in operations if op.type == "Placeholder"]
    # A frozen graph does not name its outputs: they are what no operation reads
    used = {tensor.name for op in operations for tensor in op.inputs}
    ends = [t for op in operations if op.inputs for t in op.outputs if t.name not in used]
    pruned = wrapped.prune(entry.outputs[0], ends)

    def run(x: Any) -> list[Any]:
        with quiet():
            return arrays(pruned(tf.constant(x)))

    return run


def _tflite_runner(tf: Any, path: Path) -> Runner:
    interpreter = tf.lite.Interpreter(model_path=str(path))
    (entry,) = interpreter.get_input_details()

    def run(x: Any) -> list[Any]:
        with quiet():
            interpreter.resize_tensor_input(entry["index"], x.shape)
            interpreter.allocate_tensors()
            interpreter.set_tensor(entry["index"], x)
            interpreter.invoke()
            return [interpreter.get_tensor(out["index"]).copy() for out in interpreter.get_output_details()]

    return run


@dataclass(frozen=True)
class Format:
    """A source format: the endings of its files (none for a folder) and its reader."""

    suffixes: tuple[str, ...]
    read: Callable[[Path], Source]


FORMATS: dict[str, Format] = {
    "keras": Format((".keras",), read_keras),
    "keras-h5": Format((".h5", ".hdf5"), read_h5),
    "savedmodel": Format((), read_saved_model),
    "tensorflow-pb": Format((".pb",), read_frozen),
    "onnx": Format((".onnx",), read_onnx),
    "tflite": Format((".tflite",), read_tflite),
    "openvino": Format((".xml",), read_ir),
}

HINTS = {
    ".bin": "It is the weights of an IR: give the .xml beside it to 'dbinfer deploy'.",
    ".binarypb": "It is a graph of MediaPipe's steps: convert the networks that it runs, the .tflite files beside it.",
    ".pt": "Export it from PyTorch with torch.onnx.export() and convert the .onnx.",
    ".pth": "Export it from PyTorch with torch.onnx.export() and convert the .onnx.",
}


def find_format(source: Path) -> str:
    """Return the name of the format of `source`, by folder or ending.

    Raises:
        ConvertError: it is not there, is empty, or its ending is unknown.
    """
    if not source.exists():
        raise ConvertError(f"there is no file or folder {source}", "Check the path.")
    if source.is_dir():
        return "savedmodel"
    if not source.is_file():
        raise ConvertError(f"{source} is not a regular file or a folder")
    for name, entry in FORMATS.items():
        if source.suffix.lower() in entry.suffixes:
            return _not_empty(source, name)
    known = ", ".join(suffix for entry in FORMATS.values() for suffix in entry.suffixes)
    raise ConvertError(
        f"{source} has the ending {source.suffix!r}, which is not a known model format",
        HINTS.get(source.suffix.lower(), f"Known endings are {known}; SavedModel folders work, too."),
    )


def _not_empty(source: Path, name: str) -> str:
    try:
        with source.open("rb") as file:
            if file.read(1):
                return name
    except OSError as err:
        raise ConvertError(f"{source} cannot be read: {err.strerror}") from err
    raise ConvertError(f"{source} is empty", "Export the model again.")
