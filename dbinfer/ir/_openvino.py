"""OpenVINO without its telemetry."""

from __future__ import annotations

import sys
from typing import Any


def import_openvino() -> Any:
    """Return the module openvino, imported so that it opens no socket and writes nothing into $HOME."""
    # A module that is None raises ImportError, and OpenVINO then goes on without telemetry
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


def last_line(err: BaseException) -> str:
    """Return the line of an OpenVINO error that says what is wrong: the last; those before it name C++ sources."""
    lines = str(err).strip().splitlines()
    return lines[-1].strip() if lines else type(err).__name__
