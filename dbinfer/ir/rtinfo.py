"""The manifest inside an IR (rt_info): ours whole, and what OpenVINO's Model API knows as `model_info`."""

from __future__ import annotations

from typing import Any

from dbinfer.errors import ModelFileError
from dbinfer_udf.manifest import Manifest, ManifestError

MANIFEST_PATH = ["dbinfer", "manifest"]
MODEL_API_SECTION = "model_info"
# where OpenVINO puts an ONNX file's metadata_props
ONNX_SECTION = "framework"


def embed_manifest(graph: Any, manifest: Manifest) -> None:
    """Write `manifest` into the model's rt_info: whole, and what Model API knows as `model_info`."""
    for key, value in manifest.model_info().items():
        graph.set_rt_info(value, [MODEL_API_SECTION, key])
    graph.set_rt_info(manifest.to_json(), MANIFEST_PATH)


def read_manifest(graph: Any) -> Manifest | None:
    """Return the manifest that `embed_manifest` wrote, or None where there is none.

    Raises:
        ModelFileError: there is one, but it cannot be used.
    """
    if not graph.has_rt_info(MANIFEST_PATH):
        return None
    try:
        return Manifest.from_json(graph.get_rt_info(MANIFEST_PATH).astype(str))
    except ManifestError as err:
        raise ModelFileError(
            f"the model's manifest cannot be used: {err}",
            "Convert the model again with the version of dbinfer that deploys it.",
        ) from err


def read_model_info(graph: Any) -> dict[str, str]:
    """Return what other tools wrote for Model API; {} where there is nothing."""
    return _section(graph, MODEL_API_SECTION)


def read_properties(graph: Any) -> dict[str, str]:
    """Return the metadata of the ONNX file that the graph was made of; {} where there is none."""
    return _section(graph, ONNX_SECTION)


def _section(graph: Any, name: str) -> dict[str, str]:
    if not graph.has_rt_info([name]):
        return {}
    found = graph.get_rt_info(name).value
    return {key: str(graph.get_rt_info([name, key]).value) for key in found}
