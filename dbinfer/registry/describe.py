"""Finds the manifest of an IR: ours where it is inside, else from Model API's `model_info`, the shapes and options.

What can be known is not asked for; what cannot is asked for by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbinfer.errors import ModelFileError
from dbinfer.ir import read_manifest
from dbinfer.registry.source import SourceModel
from dbinfer_udf.manifest import Manifest, ManifestError

TRUE = ("true", "yes", "1")
TASKS = {"classification": "classification", "segmentation": "segmentation"}


def describe(source: SourceModel, options: Mapping[str, Any]) -> tuple[Manifest, list[str]]:
    """Return the manifest of an IR and a sentence for each value that was assumed.

    Args:
        options: manifest keys given by the user; they win. `layout` and `input_size` help with dynamic shapes.

    Raises:
        ModelFileError: something cannot be known; the message names the option that says it.
    """
    ours = read_manifest(source.graph)
    given = {
        key: value
        for key, value in options.items()
        if key not in ("layout", "input_size") and value is not None
    }
    try:
        if ours is not None:
            return Manifest.from_dict({**ours.to_dict(), **given}), []
        info = _model_info(source.graph)
        height, width, channels = _size(source, options)
        found = {"height": height, "width": width, "channels": channels, **_from_info(info, channels)}
        found["task"] = given.get("task") or _task(source, info)
        if "activation" not in given:
            found["activation"] = _activation(source.graph, found["task"], info)
        manifest = Manifest.from_dict({**found, **given})
    except ManifestError as err:
        raise ModelFileError(f"{source.path}: {err}.") from err
    return manifest, _assumed(manifest, info, given)


def layout(graph: Any, option: str | None) -> str:
    """Return `NHWC` or `NCHW` for a graph's input.

    Raises:
        ModelFileError: neither the graph nor its shape says it.
    """
    if option:
        return option
    parameter = graph.get_parameters()[0]
    named = str(parameter.layout).strip("[]").replace(",", "")
    if named in ("NHWC", "NCHW"):
        return named
    dims = [d.get_length() if d.is_static else None for d in graph.input(0).get_partial_shape()]
    last, first = dims[3] in (1, 3), dims[1] in (1, 3)
    if last == first:
        raise ModelFileError(
            f"the input shape {graph.input(0).get_partial_shape()} does not tell where the channels are.",
            "Say it with --layout NHWC or --layout NCHW.",
        )
    return "NHWC" if last else "NCHW"


def _size(source: SourceModel, options: Mapping[str, Any]) -> tuple[int, int, int]:
    order = layout(source.graph, options.get("layout"))
    dims = [d.get_length() if d.is_static else None for d in source.graph.input(0).get_partial_shape()]
    height, width, channels = (dims[order.index(axis)] for axis in "HWC")
    if options.get("input_size"):
        height, width = options["input_size"]
    if height is None or width is None:
        raise ModelFileError(
            f"the input of {source.path} has no fixed size: {source.graph.input(0).get_partial_shape()}.",
            "Say it with --input-size HEIGHTxWIDTH, e.g. --input-size 224x224.",
        )
    if channels is None:
        channels = 3
    return height, width, channels


def _model_info(graph: Any) -> dict[str, str]:
    if not graph.has_rt_info(["model_info"]):
        return {}
    return {
        key: str(graph.get_rt_info(["model_info", key]).value)
        for key in graph.get_rt_info("model_info").value
    }


def _from_info(info: Mapping[str, str], channels: int) -> dict[str, Any]:
    reverse = info.get("reverse_input_channels", "False" if info else "True").lower() in TRUE
    embedded = info.get("embedded_processing", "").lower() in TRUE
    found: dict[str, Any] = {"color": "GRAY" if channels == 1 else ("RGB" if reverse else "BGR")}
    if info.get("labels"):
        found["labels"] = info["labels"].split()
    if info.get("resize_type"):
        found["resize"] = info["resize_type"]
    if info.get("pad_value"):
        found["pad_value"] = int(_numbers(info, "pad_value")[0])
    if info.get("confidence_threshold"):
        found["threshold"] = _numbers(info, "confidence_threshold")[0]
    for key, name in (("mean", "mean_values"), ("scale", "scale_values")):
        if info.get(name) and not embedded:
            found[key] = _numbers(info, name)
    return found


def _numbers(info: Mapping[str, str], key: str) -> list[float]:
    """Return the numbers of a model_info value: `1 2 3`, `1,2,3` or `[1, 2, 3]`."""
    try:
        numbers = [float(x) for x in info[key].replace(",", " ").strip("[] ").split()]
    except ValueError:
        numbers = []
    if not numbers:
        raise ManifestError(f"{key} of its model_info is {info[key]!r}, but must be numbers")
    return numbers


def _task(source: SourceModel, info: Mapping[str, str]) -> str:
    named = info.get("model_type", "").lower()
    if named in TASKS:
        return TASKS[named]
    rank = source.graph.output(0).get_partial_shape().rank
    length = rank.get_length() if rank.is_static else 0
    if named == "" and length == 2:
        return "classification"
    if named == "" and length == 4:
        return "segmentation"
    raise ModelFileError(
        f"the task of {source.path} is not known: its model_type is {named or 'not given'!r}, "
        f"its output {source.graph.output(0).get_partial_shape()}.",
        "Say it with --task classification, segmentation, embedding or tensor.",
    )


def _activation(graph: Any, task: str, info: Mapping[str, str]) -> str:
    if task not in ("classification", "segmentation") or info.get("output_raw_scores", "").lower() in TRUE:
        return "none"
    last = graph.get_results()[0].input_value(0).get_node().get_type_name()
    if last in ("Softmax", "SoftMax", "Sigmoid"):
        return "none"
    if info.get("multilabel", "").lower() in TRUE:
        return "sigmoid"
    if task == "segmentation":
        return "none"
    return "softmax"


def _assumed(manifest: Manifest, info: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    notes = []
    if not info and "color" not in given and manifest.channels == 3:
        notes.append("channel order RGB (--color)")
    if not manifest.mean and not manifest.scale and not info:
        notes.append("pixels go in as 0..255, without mean and scale (--mean, --scale)")
    if not info and "task" not in given:
        notes.append(f"task {manifest.task} from the output's shape (--task)")
    return notes
