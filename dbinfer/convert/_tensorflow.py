"""TensorFlow sources (SavedModel, frozen `.pb`, TFLite); converting them needs no TensorFlow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dbinfer.convert._source import Runner, Source, arrays, tensorflow, to_graph
from dbinfer.convert._tflite import described
from dbinfer.convert.quiet import quiet
from dbinfer.errors import ConvertError
from dbinfer.pins import install

TFLITE_MAGIC = b"TFL3"


def read_saved_model(path: Path) -> Source:
    """Read a SavedModel folder."""
    if not (path / "saved_model.pb").is_file():
        raise ConvertError(
            f"{path} is a folder without saved_model.pb, so it is not a SavedModel",
            "Name the folder that contains saved_model.pb, or a model file.",
        )
    return _with_runner(to_graph(path, "a SavedModel"), path, _saved_model_runner)


def read_frozen(path: Path) -> Source:
    """Read a frozen TensorFlow graph, of TensorFlow 1 too."""
    if path.name == "saved_model.pb":
        raise ConvertError(f"{path} is part of a SavedModel", f"Convert its folder: {path.parent}")
    return _with_runner(to_graph(path, "a frozen TensorFlow graph"), path, _frozen_runner)


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
    return replace(_with_runner(graph, path, _tflite_runner), described=found)


def _with_runner(graph: Any, path: Path, make: Any) -> Source:
    tf = tensorflow()
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
