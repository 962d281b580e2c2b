"""What an OpenVINO IR is: its files, its graph, the manifest inside it, the tensor it takes, and how it is written."""

from __future__ import annotations

from dbinfer.ir._openvino import import_openvino, last_line
from dbinfer.ir.rtinfo import embed_manifest, read_manifest

__all__ = ["embed_manifest", "import_openvino", "last_line", "read_manifest"]
