"""What a caller says of a model beside its file; convert and deploy take the same words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbinfer.errors import UsageError
from dbinfer.ir.graph import LAYOUTS
from dbinfer_udf import manifest as m

WORDS = {
    "task": m.TASKS,
    "color": m.COLORS,
    "resize": m.RESIZES,
    "interpolation": m.INTERPOLATIONS,
    "precision": m.PRECISIONS,
    "activation": m.ACTIVATIONS,
    "decode": m.DECODES,
}


def checked_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys of the manifest as it takes them: without None, `input_size` as height and width, `rgb` as RGB.

    Raises:
        UsageError: a word that the manifest does not know; found before any model is read.
    """
    given = {key: value for key, value in values.items() if value is not None}
    if "input_size" in given:
        size = given.pop("input_size")
        given["height"], given["width"] = (size, size) if isinstance(size, int) else size
    if "color" in given:
        given["color"] = str(given["color"]).upper()
    for key, allowed in WORDS.items():
        if given.get(key, allowed[0]) not in allowed:
            raise UsageError(f"--{key} is {given[key]!r}, but must be one of {', '.join(allowed)}")
    return given


def checked_layout(layout: str | None) -> str | None:
    """Return NHWC or NCHW, however it is written.

    Raises:
        UsageError: it is another word.
    """
    if layout is not None and layout.upper() not in LAYOUTS:
        raise UsageError(f"--layout is {layout!r}, but must be NHWC or NCHW")
    return layout and layout.upper()
