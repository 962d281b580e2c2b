"""NNCF's post-training quantization, without its telemetry and its own progress bars."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from dbinfer.errors import ModelFileError
from dbinfer.pins import install


def post_training(graph: Any, inputs: Sequence[Any]) -> Any:
    """Return the graph in INT8 where that is possible.

    Raises:
        ModelFileError: NNCF is not installed, or cannot quantize this graph.
    """
    # NNCF sends its telemetry through OpenVINO's module; see dbinfer/ir/_openvino.py
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import nncf
    except ImportError as err:
        raise ModelFileError("NNCF is not installed", install("quantize")) from err
    logging.getLogger("nncf").setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()):
            return nncf.quantize(graph, nncf.Dataset(list(inputs)), subset_size=len(inputs))
    except (RuntimeError, nncf.InternalError) as err:
        raise ModelFileError(f"NNCF cannot quantize this model: {str(err).strip().splitlines()[0]}") from err
