"""The manifest inside an OpenVINO IR (rt_info), and OpenVINO itself without its telemetry."""

from __future__ import annotations

import sys
from typing import Any

from dbinfer.errors import ModelFileError
from dbinfer_udf.manifest import Manifest, ManifestError

MANIFEST_PATH = ["dbinfer", "manifest"]
MODEL_API_SECTION = "model_info"


def import_openvino() -> Any:
    """Return the module openvino, imported so that it opens no socket and writes nothing into $HOME."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


def embed_manifest(ov_model: Any, manifest: Manifest) -> None:
    """Write `manifest` into the model's rt_info: whole, and what Model API knows as `model_info`."""
    for key, value in manifest.model_info().items():
        ov_model.set_rt_info(value, [MODEL_API_SECTION, key])
    ov_model.set_rt_info(manifest.to_json(), MANIFEST_PATH)


def read_manifest(ov_model: Any) -> Manifest | None:
    """Return the manifest that `embed_manifest` wrote, or None where there is none.

    Raises:
        ModelFileError: there is one, but it cannot be used.
    """
    if not ov_model.has_rt_info(MANIFEST_PATH):
        return None
    try:
        return Manifest.from_json(ov_model.get_rt_info(MANIFEST_PATH).astype(str))
    except ManifestError as err:
        raise ModelFileError(
            f"The model's manifest cannot be used: {err}.", "Convert the model again with `dbinfer convert`."
        ) from err
