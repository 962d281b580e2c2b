"""The manifest of a source: options, its manifest file, the zoo, what is published of a known network, its shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from dbinfer.base.errors import ConvertError
from dbinfer.convert.exporters import fitting
from dbinfer.convert.known import published
from dbinfer.convert.options import MANIFEST_NAME, ConvertOptions
from dbinfer.convert.source import Source, as_read
from dbinfer.models.graph import GraphInfo, scales_pixels
from dbinfer_models import NETWORKS
from dbinfer_udf.manifest import Manifest, ManifestError
from dbinfer_udf.tasks import TASKS, either

SHAPE_KEYS = ("height", "width", "channels")
PIXEL_KEYS = frozenset(("mean", "scale"))
# What the zoo and a training's manifest say of the last layer only
MEANING = ("task", "name", "labels", "activation", "metrics", "threshold", "thresholds")
# What most models use; the report names the ones that were assumed
ASSUMED = {"resize": "standard", "precision": "auto"}
# What networks that read take, where their inputs are open: PaddleOCR's sizes
OF_OPEN_INPUTS: dict[str, dict[str, Any]] = {
    "text_detection": {"resize": "keep_size", "height": 736, "width": 1984, "max_detections": 1000},
    "text": {"resize": "keep_height", "height": 48, "width": 320, "pad_value": 127},
}


class Need(NamedTuple):
    """Something that must be known: its option with an example, what that means, and its name in messages."""

    option: str
    example: str
    meaning: str
    lack: str


def make_manifest(
    source: Path,
    original: Source,
    info: GraphInfo,
    options: ConvertOptions,
    outputs: tuple[str, ...] = (),
    of_detector: Mapping[str, Any] | None = None,
) -> tuple[Manifest, list[str], bool]:
    """Return the manifest, the names of the keys that were assumed, and whether the network scales pixels itself.

    Args:
        source: the file or folder; original: what was read from it.
        outputs: names of the network's outputs, where it has several.
        of_detector: what the publishers of a detector's head set.

    Raises:
        ConvertError: something needed is not known, or two statements contradict each other.
    """
    stated = _stated(source, original, info, options, outputs)
    if of_detector:
        # The head decides, whatever a manifest beside the source calls its raw outputs
        stated.update(task="detection", activation="none")
    assumed = _assumed(original, info, options, outputs, stated=stated, of_detector=of_detector or {})
    scaled = _scaled_inside(source, original, info, {**assumed, **stated}, options)
    if scaled and not PIXEL_KEYS & {*assumed, *stated}:
        assumed["scale"] = [1.0]
    guessed = _from_shapes(info, {**assumed, **stated})
    if "color" not in stated and info.channels == 3:
        assumed.setdefault("color", guessed["color"])
    for key in ASSUMED.keys() - stated.keys():
        assumed.setdefault(key, ASSUMED[key])
    name = _name(source, original, options)
    values = {"name": name, "outputs": outputs, **guessed, **assumed, **stated}
    if values.get("task") == "text" and values.get("labels"):
        values["labels"] = _characters(tuple(values["labels"]), info)
    _require(values, info)
    try:
        manifest = Manifest.from_dict(values)
    except (ManifestError, TypeError, ValueError) as err:
        raise ConvertError(f"cannot create the manifest: {err}") from err
    _agree(manifest, info)
    return manifest, sorted(assumed), scaled


def _stated(
    source: Path, original: Source, info: GraphInfo, options: ConvertOptions, outputs: tuple[str, ...]
) -> dict[str, Any]:
    """Return what is stated: by the zoo, the file or its exporter, a manifest file, options; the last one counts."""
    stated = _from_zoo(options.network or original.name, info)
    stated.update(fitting(original.values, info) if original.told else original.values)
    stated.pop("outputs", None)  # of our own IR; now other outputs may be kept
    stated.update(stated_beside(source, options.manifest))
    if original.inner and options.manifest is None:
        stated = {key: value for key, value in stated.items() if key not in MEANING}
    stated.update(options.values)
    stated.pop("anchors", None)  # of a detector, whose graph has them now
    _check_outputs(stated.pop("outputs", outputs), outputs)
    return stated


def _assumed(
    original: Source,
    info: GraphInfo,
    options: ConvertOptions,
    outputs: tuple[str, ...],
    *,
    stated: dict[str, Any],
    of_detector: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what follows from a known network or head, and the task of outputs that were not trained for one."""
    known = original.known
    if known and (options.outputs or outputs):
        # With several outputs, the first may be any of them
        known = replace(known, head=False if original.inner else None)
    assumed = published(known, info, stated)
    assumed.update({key: value for key, value in of_detector.items() if key not in stated})
    task = stated.get("task")
    if task in OF_OPEN_INPUTS:
        assumed["activation"] = "none"
        if info.width is None:
            assumed.update(OF_OPEN_INPUTS[task])
        assumed = {key: value for key, value in assumed.items() if key not in stated}
    if original.inner and info.classes and "task" not in stated:
        assumed["task"] = "embedding"
    if outputs and "task" not in {**assumed, **stated} and not _task(info, {**assumed, **stated}):
        assumed["task"] = "tensor"
    return assumed


def _characters(labels: tuple[str, ...], info: GraphInfo) -> tuple[str, ...]:
    """Return the text of each class; lists of characters mostly lack CTC's blank, and often the space."""
    missing = info.output[-1] - len(labels) if info.output else 0
    return {1: ("", *labels), 2: ("", *labels, " ")}.get(missing, labels)


def _name(source: Path, original: Source, options: ConvertOptions) -> str:
    """Return the model's name; up to an inner layer it differs from that of the whole network."""
    return re.sub(r"\W", "_", f"{source.stem}_{options.outputs[0]}") if original.inner else source.stem


def stated_early(source: Path, original: Source, options: ConvertOptions) -> dict[str, Any]:
    """Return what is stated before the graph is understood: by the user, files, the exporter; the zoo's task."""
    name = options.network or original.name
    zoo = {"task": NETWORKS[name].manifest().task} if name in NETWORKS else {}
    return {**zoo, **original.values, **stated_beside(source, options.manifest), **options.values}


def check_stated(source: Path, options: ConvertOptions) -> None:
    """Raise ConvertError for a network that the zoo lacks or a broken manifest file, before the source is read."""
    if options.network and options.network not in NETWORKS:
        raise ConvertError(
            f"the zoo has no network {options.network!r}; it has {', '.join(sorted(NETWORKS))}"
        )
    stated_beside(source, options.manifest)


def _from_zoo(name: str, info: GraphInfo) -> dict[str, Any]:
    if name not in NETWORKS:
        return {}
    values = NETWORKS[name].manifest().to_dict()
    if len(values["labels"]) != info.classes:
        del values["labels"]
    if values["channels"] != info.channels:
        del values["color"]
    return {key: value for key, value in values.items() if key not in SHAPE_KEYS}


def stated_beside(source: Path, given: Path | None = None) -> dict[str, Any]:
    """Return the keys of the manifest file: the given one, or the one beside a source; none where there is none."""
    path = given or _beside(source)
    if path is None:
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise ConvertError(f"the manifest {path} cannot be read: {err.strerror}") from err
    except ValueError as err:
        raise ConvertError(f"the manifest {path} is not JSON: {err}") from err
    if not isinstance(values, dict):
        raise ConvertError(f"the manifest {path} is a JSON {type(values).__name__}, but must be an object")
    return values


def _beside(source: Path) -> Path | None:
    places = [source.parent / f"{source.stem}.{MANIFEST_NAME}", source.parent / MANIFEST_NAME]
    if source.is_dir():
        places.insert(0, source / MANIFEST_NAME)
    return next((place for place in places if place.is_file()), None)


def _from_shapes(info: GraphInfo, stated: dict[str, Any]) -> dict[str, Any]:
    sizes = {"height": info.height, "width": info.width, "channels": info.channels}
    values: dict[str, Any] = {key: value for key, value in sizes.items() if value is not None}
    values["color"] = "GRAY" if info.channels == 1 else "RGB"
    task = stated.get("task") or _task(info, stated)
    if task:
        values["task"] = task
    if (
        info.activation
        or task in ("embedding", "tensor")
        or (task == "segmentation" and not _one_class(info))
    ):
        values["activation"] = "none"
    return values


def _scaled_inside(
    source: Path, original: Source, info: GraphInfo, known: dict[str, Any], options: ConvertOptions
) -> bool:
    """Return whether the network scales pixels itself, where nothing else says how pixels become its input."""
    if info.element == "u8" or (PIXEL_KEYS & known.keys() and not PIXEL_KEYS & options.values.keys()):
        return False
    return scales_pixels(original.as_read() if original.as_read else as_read(source), info)


def _task(info: GraphInfo, stated: dict[str, Any]) -> str:
    if info.classes and (info.activation == "softmax" or stated.get("labels")):
        return "classification"
    if len(info.output) == 4 and info.activation:
        return "segmentation"
    return ""


def _one_class(info: GraphInfo) -> bool:
    channel = -1 if info.layout == "NHWC" else 1
    return len(info.output) > 2 and info.output[channel] == 1


def _check_outputs(said: Any, outputs: tuple[str, ...]) -> None:
    if not isinstance(said, list | tuple) or tuple(said) != outputs:
        there = ", ".join(outputs) or "one, without a name"
        raise ConvertError(
            f"the manifest says outputs {said!r}, but the model has {there}",
            "Leave the key out, and choose outputs with --output-name.",
        )


def _require(values: dict[str, Any], info: GraphInfo) -> None:
    """Ask for everything that is not known, at once."""
    lacking = list(_lacking(values, info))
    if not lacking:
        return
    *others, last = [need.lack for need in lacking]
    raise ConvertError(
        f"the model does not say {', '.join(others)}{' and ' if others else ''}{last}",
        " ".join(f"Set {need.option}: {need.meaning}." for need in lacking),
        [word for need in lacking for word in (need.option, need.example)],
    )


def _lacking(values: dict[str, Any], info: GraphInfo) -> Iterator[Need]:
    """Yield what is not known, each with the value that fits most models of these shapes."""
    one = info.classes == 1 or _one_class(info)
    # A map of one pixel is not a mask
    rank = 2 if info.output[-1:] == info.output[-2:-1] == (1,) else len(info.output)
    task = values.get("task") or {2: "classification", 4: "segmentation"}.get(rank, "tensor")
    if "task" not in values:
        yield Need(
            "--task",
            task,
            f"what the result is: {either(list(TASKS))}",
            "its task",
        )
    if task == "text" and not values.get("labels"):
        yield Need(
            "--labels",
            "@characters.txt",
            "a file with a line for each character, in the order of the classes",
            "its characters",
        )
    if "height" not in values or "width" not in values:
        lines = "; or --task text_detection, if it finds lines of text in images of any size"
        yield Need(
            "--input-size",
            "224x224",
            "the size of the input in pixels, 224 or 480x640 (height x width)"
            + (lines if task == "segmentation" and one else ""),
            "its height and width",
        )
    if "activation" not in {**_from_shapes(info, {**values, "task": task}), **values}:
        yield Need(
            "--activation",
            "sigmoid" if one else "softmax",
            "softmax or sigmoid for raw scores, or none",
            "its activation",
        )
    if info.element != "u8" and not PIXEL_KEYS & values.keys():
        yield Need(
            "--scale",
            "255",
            "255 for an input of 0..1, 1 for 0..255, and --mean if the model needs it",
            "how pixels become its input",
        )


def _agree(manifest: Manifest, info: GraphInfo) -> None:
    for key in ("height", "width", "channels"):
        inside, said = getattr(info, key), getattr(manifest, key)
        if inside is not None and inside != said:
            raise ConvertError(f"the manifest says {key} {said}, but the model's input has {inside}")
    labels = len(manifest.labels)
    # A single output is the probability of the second of two classes
    fitting = (None, labels, 1) if labels == 2 else (None, labels)
    if manifest.task == "classification" and labels and info.classes not in fitting:
        raise ConvertError(f"there are {labels} labels, but the model has {info.classes} classes")
    if manifest.task == "text" and info.output[-1:] not in ((labels,), (-1,)):
        raise ConvertError(
            f"there are {labels} labels, but the model has {info.output[-1]} classes: CTC's blank and the characters"
        )
    if any(abs(value) < 1 for value in manifest.scale):
        raise ConvertError(
            f"scale is {list(manifest.scale)}, but must be in grey levels of 0..255",
            "If mean and scale are for pixels of 0..1, multiply them by 255.",
        )
