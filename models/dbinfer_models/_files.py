"""The manifest as a file beside a saved model, where `dbinfer convert` finds it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dbinfer_udf.manifest import Manifest

MANIFEST_NAME = "manifest.json"


def write_manifest(folder: Path, manifest: Manifest, name: str = MANIFEST_NAME) -> Path:
    """Write `manifest` into `folder` as readable JSON, whole or not at all.

    Args:
        folder: an existing folder: the one the model was saved in, or the SavedModel itself.
        manifest: what to write.
        name: `manifest.json` speaks for all models of the folder, `STEM.manifest.json` for `STEM.keras`.

    Returns:
        The path of the file.
    """
    path = Path(folder) / name
    temporary = path.with_name(f".{name}.{os.getpid()}")
    text = json.dumps(manifest.to_dict(), indent=2, sort_keys=True, ensure_ascii=False)
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)
    return path
