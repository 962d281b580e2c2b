"""ONNX sources; converting needs only OpenVINO, checking onnxruntime or the slower onnx.reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbinfer.convert._quiet import quiet
from dbinfer.convert._source import Runner, Source, arrays, to_graph


def read_onnx(path: Path) -> Source:
    """Read an `.onnx` file."""
    graph = to_graph(path, "an ONNX model")
    for make in (_onnxruntime, _reference):
        try:
            with quiet():
                framework, run = make(path)
        except ImportError:
            continue
        except Exception as err:
            return Source(graph, reason=f"the ONNX runtime at hand cannot run it ({type(err).__name__})")
        return Source(graph, framework=framework, run=run)
    return Source(graph, reason="neither onnxruntime nor onnx is installed")


def _onnxruntime(path: Path) -> tuple[str, Runner]:
    import onnxruntime  # optional, and in no extra

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()

    def run(x: Any) -> list[Any]:
        return arrays(session.run(None, {entry.name: x}))

    return f"onnxruntime {onnxruntime.__version__}", run


def _reference(path: Path) -> tuple[str, Runner]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(str(path))
    constants = {tensor.name for tensor in model.graph.initializer}
    (entry,) = [value.name for value in model.graph.input if value.name not in constants]
    evaluator = ReferenceEvaluator(model)

    def run(x: Any) -> list[Any]:
        return arrays(evaluator.run(None, {entry: x}))

    return f"onnx {onnx.__version__} reference", run
