"""IRs of other tools as sources: a detector's outputs become the one that backends read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbinfer.convert._source import Source
from dbinfer.errors import ModelFileError
from dbinfer.ir import import_openvino
from dbinfer.ir.describe import from_model_info
from dbinfer.ir.graph import graph_info
from dbinfer.ir.read import read_model
from dbinfer.ir.rtinfo import read_manifest, read_model_info, read_properties
from dbinfer_udf.manifest import ManifestError


def read_ir(path: Path) -> Source:
    """Read an `.xml` file with the `.bin` beside it, and what Model API's `model_info` says of it."""
    openvino = import_openvino()
    model = read_model(path)
    own, told = read_manifest(model.graph), read_model_info(model.graph)
    try:
        values = own.to_dict() if own else from_model_info(told, graph_info(model.graph)) if told else {}
    except ManifestError as err:
        raise ModelFileError(f"{path}: {err}") from err
    compiled: list[Any] = []

    def run(x: Any) -> list[Any]:
        if not compiled:  # only where it is compared
            compiled.append(
                openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            )
        answer = compiled[0](x)
        return [answer[place] for place in range(len(compiled[0].outputs))]

    framework = f"OpenVINO {openvino.__version__.split('-')[0]}"
    return Source(
        model.graph, "", framework, run, values=values, properties={} if own else read_properties(model.graph)
    )
