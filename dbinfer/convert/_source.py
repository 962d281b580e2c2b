"""A source model once it is read: its graph in OpenVINO, and a way to run the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbinfer.convert import tensorflow_alone
from dbinfer.convert._known import Known
from dbinfer.convert.quiet import quiet
from dbinfer.errors import ConvertError
from dbinfer.ir import import_openvino

Array = NDArray[Any]
Runner = Callable[[Array], list[Array]]


# Outputs below this are taken for zero
SMALLEST = 1e-4


class Search(NamedTuple):
    """Where to look for the first layer that differs.

    Attributes:
        ir: the .xml that was written.
        image: the input tensor on which source and IR differ.
        tolerance: largest difference allowed, as a share of a layer's largest value.
        fp16: the IR's weights were halved.
    """

    ir: Path
    image: Array
    tolerance: float
    fp16: bool


CONVERT_CURE = "Install it: pip install 'dbinfer[convert]'"


@dataclass(frozen=True)
class Source:
    """A model read from a file or folder.

    Attributes:
        graph: the OpenVINO model, weights in float32.
        name: the model's own name, or "" where the format has none.
        framework: name and version of what can run the original, or "".
        run: runs the original on one input tensor, gives its outputs in any order; None where it cannot.
        reason: why `run` is None, or "".
        first_difference: names the first layer whose output differs, "" where none does; None where the
            format does not let us look inside.
        known: which published network it is, None where it is none that we know.
        values: keys of the manifest that the file itself holds.
        part: gives the model that ends at the layer of a name, None where there is no such layer; None where the
            format does not let us cut.
        inner: whether it was cut so; nobody has trained its output to mean anything by itself.
    """

    graph: Any
    name: str = ""
    framework: str = ""
    run: Runner | None = None
    reason: str = ""
    first_difference: Callable[[Search], str] | None = None
    known: Known | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    part: Callable[[str], Source | None] | None = None
    inner: bool = False


def to_graph(path: Path, what: str, model: Any = None) -> Any:
    """Return the OpenVINO model of a file, a folder, or a model in memory.

    Raises:
        ConvertError: OpenVINO cannot read or convert it.
    """
    import_openvino()
    from openvino.tools.ovc import convert_model

    try:
        with quiet():
            return convert_model(str(path) if model is None else model)
    # OpenVINO's front ends raise what their C++ and Python parts raise
    except Exception as err:
        raise unreadable(path, what, err) from err


def tensorflow() -> Any | None:
    """Return the module tensorflow, imported in silence, or None where it is not installed."""
    try:
        return tensorflow_alone.tensorflow()
    except ImportError:
        return None


def require_tensorflow(what: str) -> Any:
    """Return the module tensorflow.

    Raises:
        ConvertError: it is not installed.
    """
    tf = tensorflow()
    if tf is None:
        raise ConvertError(f"reading {what} needs TensorFlow, which is not installed", CONVERT_CURE)
    return tf


def differs(difference: float, magnitude: float, tolerance: float) -> bool:
    """Return whether a difference in values up to `magnitude` is too large; one that is not a number is."""
    return not difference <= tolerance * max(magnitude, SMALLEST)


def unreadable(path: Path, what: str, err: BaseException) -> ConvertError:
    """Return the error for a source that its reader refused, with the reader's most telling line."""
    return ConvertError(
        f"{path} cannot be read as {what}: {telling_line(err)}",
        "Check that the file is complete and has that format, or export the model again.",
    )


def telling_line(err: BaseException) -> str:
    """Return one line of an exception's text, at most 200 characters, without paths of source code."""
    noise = ("Check '", "Exception from", "FrontEnd API failed", "While ", "Traceback", "File ", "[", "^")
    lines = [line.strip(" -\t") for line in str(err).splitlines()]
    lines = [line for line in lines if line and not line.startswith(noise)]
    text = lines[0] if lines else type(err).__name__
    return text if len(text) <= 200 else text[:199] + "…"


def arrays(values: Any) -> list[Array]:
    """Return the outputs of a framework (one tensor, a list or a dict of them) as numpy arrays."""
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, list | tuple):
        values = [values]
    return [np.asarray(value) for value in values]
