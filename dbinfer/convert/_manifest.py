"""The manifest of a source: options, its manifest file, the zoo, what is published of a known network, its shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbinfer.convert._known import published
from dbinfer.convert._options import ConvertOptions
from dbinfer.convert._source import Source
from dbinfer.errors import ConvertError
from dbinfer.ir.graph import GraphInfo
from dbinfer_udf.manifest import Manifest, ManifestError

MANIFEST_NAME = "manifest.json"
SHAPE_KEYS = ("height", "width", "channels")
# What the zoo and the manifest of a training say of the last layer, and of no other
MEANING = ("task", "name", "labels", "activation", "metrics", "threshold")
# What most models use; the report names those that were taken for granted
ASSUMED = {"resize": "standard", "precision": "auto"}


def make_manifest(
    source: Path,
    original: Source,
    info: GraphInfo,
    options: ConvertOptions,
    of_detector: Mapping[str, Any] | None = None,
) -> tuple[Manifest, list[str]]:
    """Return the manifest, and the names of the keys that were assumed.

    Args:
        source: the file or folder; original: what was read from it.
        of_detector: what the publishers of a detector's head set.

    Raises:
        ConvertError: something needed is not known, or two statements contradict each other.
    """
    stated = _from_zoo(options.network or original.name, info, bool(options.network))
    stated.update(original.values)
    stated.update(_from_file(source, options.manifest))
    if original.inner and options.manifest is None:
        stated = {key: value for key, value in stated.items() if key not in MEANING}
    stated.update(options.values)
    known = original.known
    if known and options.output_name:
        # of several outputs the one that was chosen may be any
        known = replace(known, head=False if original.inner else None)
    if of_detector:
        # the head says it, whatever a manifest beside the source calls its raw outputs
        stated.update(task="detection", activation="none")
    assumed = published(known, info, stated)
    assumed.update({key: value for key, value in (of_detector or {}).items() if key not in stated})
    if original.inner and info.classes and "task" not in stated:
        assumed["task"] = "embedding"
    guessed = _from_shapes(info, {**assumed, **stated})
    if "color" not in stated and info.channels == 3:
        assumed.setdefault("color", guessed["color"])
    for key, value in ASSUMED.items():
        if key not in stated:
            assumed.setdefault(key, value)
    name = source.stem
    if original.inner:
        # beside the network that ends where it was trained to end
        name = re.sub(r"\W", "_", f"{name}_{options.output_name}")
    values = {"name": name, **guessed, **assumed, **stated}
    _require(values, info)
    try:
        manifest = Manifest.from_dict(values)
    except (ManifestError, TypeError, ValueError) as err:
        raise ConvertError(f"cannot create the manifest: {err}") from err
    _agree(manifest, info)
    return manifest, sorted(assumed)


def stated_task(source: Path, original: Source, options: ConvertOptions) -> str | None:
    """Return the task as the user, the manifest beside the source or the zoo says it; None where nobody does."""
    from dbinfer_models import NETWORKS

    name = options.network or original.name
    zoo = NETWORKS[name].manifest().task if name in NETWORKS else None
    told: str | None = (
        options.values.get("task")
        or _from_file(source, options.manifest).get("task")
        or original.values.get("task")
        or zoo
    )
    return told


def _from_zoo(name: str, info: GraphInfo, asked: bool) -> dict[str, Any]:
    from dbinfer_models import NETWORKS

    if name not in NETWORKS:
        if asked:
            raise ConvertError(f"the zoo has no network {name!r}; it has {', '.join(sorted(NETWORKS))}")
        return {}
    values = NETWORKS[name].manifest().to_dict()
    if len(values["labels"]) != info.classes:
        del values["labels"]
    if values["channels"] != info.channels:
        del values["color"]
    return {key: value for key, value in values.items() if key not in SHAPE_KEYS}


def _from_file(source: Path, given: Path | None) -> dict[str, Any]:
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


def _task(info: GraphInfo, stated: dict[str, Any]) -> str:
    if info.classes and (info.activation == "softmax" or stated.get("labels")):
        return "classification"
    if len(info.output) == 4 and info.activation:
        return "segmentation"
    return ""


def _one_class(info: GraphInfo) -> bool:
    channel = -1 if info.layout == "NHWC" else 1
    return len(info.output) > 2 and info.output[channel] == 1


def _require(values: dict[str, Any], info: GraphInfo) -> None:
    needs = (
        (
            "task",
            "--task",
            "what the result is: classification, segmentation, embedding, detection or tensor",
        ),
        ("height", "--input-size", "the size of the input in pixels, 224 or 480x640 (height x width)"),
        ("width", "--input-size", "the size of the input in pixels, 224 or 480x640 (height x width)"),
        ("activation", "--activation", "softmax or sigmoid for raw scores, or none"),
    )
    for key, option, meaning in needs:
        if key not in values:
            raise ConvertError(f"the model does not say its {key}", f"Set {option}: {meaning}.")
    if info.element != "u8" and "scale" not in values and "mean" not in values:
        raise ConvertError(
            "the model does not say how pixels become its input",
            "Set --scale (255 for an input of 0..1, 1 for 0..255) and, if the model needs it, --mean.",
        )


def _agree(manifest: Manifest, info: GraphInfo) -> None:
    for key in ("height", "width", "channels"):
        inside, said = getattr(info, key), getattr(manifest, key)
        if inside is not None and inside != said:
            raise ConvertError(f"the manifest says {key} {said}, but the model's input has {inside}")
    labels = len(manifest.labels)
    if manifest.task == "classification" and labels and info.classes not in (None, labels):
        raise ConvertError(f"there are {labels} labels, but the model has {info.classes} classes")
    if any(abs(value) < 1 for value in manifest.scale):
        raise ConvertError(
            f"scale is {list(manifest.scale)}, but must be in grey levels of 0..255",
            "If mean and scale are for pixels of 0..1, multiply them by 255.",
        )
