"""The manifest of an IR: ours where it is inside, else from Model API's `model_info`, the graph and what the
caller says.

What can be derived is not asked for; where it cannot, the error names the option that states it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbinfer.base.errors import ModelFileError, UsageError
from dbinfer.models.graph import LAYOUTS, GraphInfo, graph_info, output_names
from dbinfer.models.ir import ModelFile, read_manifest, read_model_info
from dbinfer_udf import manifest as m
from dbinfer_udf.manifest import Manifest, ManifestError
from dbinfer_udf.tasks import TASKS, either

ISOLATIONS = ("auto", "always", "never")
WORDS = {
    "task": tuple(TASKS),
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


TRUE = ("true", "yes", "1")
# By the name that Model API has for them
MODEL_TYPES = {task.model_type.lower(): name for name, task in TASKS.items() if task.model_type}


@dataclass(frozen=True)
class Description:
    """A model that is understood.

    Attributes:
        info: what its graph says.
        manifest: how images become its input, and what its output means.
        assumed: a sentence for each value that was assumed because nothing stated it.
    """

    info: GraphInfo
    manifest: Manifest
    assumed: tuple[str, ...] = ()


def describe(
    model: ModelFile, values: Mapping[str, Any] | None = None, layout: str | None = None
) -> Description:
    """Return what is known of an IR.

    Args:
        values: manifest keys given by the user; they win.
        layout: NHWC or NCHW, where the shape leaves it open.

    Raises:
        ModelFileError: something cannot be known; the message names the option that says it.
    """
    given = dict(values or {})
    ours, info = read_manifest(model.graph), graph_info(model.graph, layout)
    try:
        if ours is not None:
            return Description(info, Manifest.from_dict({**ours.to_dict(), **given}))
        found = read_model_info(model.graph)
        known = {**_from_graph(model, info, given), **from_model_info(found, info)}
        known["task"] = given.get("task") or _task(model, info, found)
        known["activation"] = _activation(info, known["task"], found)
        if len(model.graph.outputs) > 1:
            known["outputs"] = output_names(model.graph)
        # left open, so deploy chooses
        manifest = Manifest.from_dict({"precision": "auto", **known, **given})
    except ManifestError as err:
        raise ModelFileError(f"{model.path}: {err}") from err
    return Description(info, manifest, tuple(_assumed(manifest, found, given)))


def _from_graph(model: ModelFile, info: GraphInfo, given: Mapping[str, Any]) -> dict[str, Any]:
    height, width = given.get("height", info.height), given.get("width", info.width)
    if height is None or width is None:
        raise ModelFileError(
            f"the input of {model.path} has no fixed size: {model.graph.input(0).get_partial_shape()}",
            "Set it with --input-size HEIGHTxWIDTH, for example --input-size 224x224.",
        )
    return {"height": height, "width": width, "channels": info.channels or 3}


def from_model_info(found: Mapping[str, str], info: GraphInfo) -> dict[str, Any]:
    """Return the keys of a manifest that Model API's `model_info` says; ManifestError where it says nonsense."""
    # Model API reads pixels as BGR unless told to reverse them; without model_info RGB is customary
    reverse = found.get("reverse_input_channels", "False" if found else "True").lower() in TRUE
    embedded = found.get("embedded_processing", "").lower() in TRUE
    values: dict[str, Any] = {"color": "GRAY" if info.channels == 1 else ("RGB" if reverse else "BGR")}
    if found.get("labels"):
        values["labels"] = found["labels"].split()
    if found.get("resize_type"):
        values["resize"] = found["resize_type"]
    if found.get("pad_value"):
        values["pad_value"] = int(_numbers(found, "pad_value")[0])
    if found.get("confidence_threshold"):
        values["threshold"] = _numbers(found, "confidence_threshold")[0]
    for key, name in (("mean", "mean_values"), ("scale", "scale_values")):
        # embedded_processing: the graph itself subtracts and divides already
        if found.get(name) and not embedded:
            values[key] = _numbers(found, name)
    return values


def _numbers(found: Mapping[str, str], key: str) -> list[float]:
    """Return the numbers of a model_info value: `1 2 3`, `1,2,3` or `[1, 2, 3]`."""
    try:
        numbers = [float(x) for x in found[key].replace(",", " ").strip("[] ").split()]
    except ValueError:
        numbers = []
    if not numbers:
        raise ManifestError(f"{key} of its model_info is {found[key]!r}, but must be numbers")
    return numbers


def _task(model: ModelFile, info: GraphInfo, found: Mapping[str, str]) -> str:
    named = found.get("model_type", "").lower()
    if named in MODEL_TYPES:
        return MODEL_TYPES[named]
    if named == "" and len(info.output) == 2:
        return "classification"
    if named == "" and len(info.output) == 4:
        return "segmentation"
    raise ModelFileError(
        f"the task of {model.path} is unknown: its model_type is {named or 'not given'!r}, "
        f"its output {model.graph.output(0).get_partial_shape()}",
        f"Set it with --task: {either(list(TASKS))}.",
    )


def _activation(info: GraphInfo, task: str, found: Mapping[str, str]) -> str:
    if not TASKS[task].model_type or found.get("output_raw_scores", "").lower() in TRUE:
        return "none"
    if info.activation:
        return "none"
    if found.get("multilabel", "").lower() in TRUE:
        return "sigmoid"
    return "softmax" if task == "classification" else "none"


def _assumed(manifest: Manifest, found: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    notes = []
    if not found and "color" not in given and manifest.channels == 3:
        notes.append("channel order RGB (--color)")
    if not manifest.mean and not manifest.scale and not found:
        notes.append("pixels go in as 0..255, without mean and scale (--mean, --scale)")
    if not found and "task" not in given:
        notes.append(f"task {manifest.task} from the output's shape (--task)")
    if manifest.activation == "softmax" and "activation" not in given:
        notes.append("softmax turns the output into scores (--activation)")
    return notes
