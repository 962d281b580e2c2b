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
from dbinfer_udf.manifest import Manifest, ManifestError

SHAPE_KEYS = ("height", "width", "channels")
PIXEL_KEYS = frozenset(("mean", "scale"))
# What the zoo and the manifest of a training say of the last layer, and of no other
MEANING = ("task", "name", "labels", "activation", "metrics", "threshold")
# What most models use; the report names those that were taken for granted
ASSUMED = {"resize": "standard", "precision": "auto"}


class Need(NamedTuple):
    """Something that must be known: its option with an example, what that means, and how its lack is told."""

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
    stated = _from_zoo(options.network or original.name, info, bool(options.network))
    stated.update(fitting(original.values, info) if original.told else original.values)
    stated.pop("outputs", None)  # of an IR of ours, of which others may be kept now
    stated.update(_from_file(source, options.manifest))
    if original.inner and options.manifest is None:
        stated = {key: value for key, value in stated.items() if key not in MEANING}
    stated.update(options.values)
    _check_outputs(stated.pop("outputs", outputs), outputs)
    known = original.known
    if known and (options.outputs or outputs):
        # of several outputs the first may be any
        known = replace(known, head=False if original.inner else None)
    if of_detector:
        # the head says it, whatever a manifest beside the source calls its raw outputs
        stated.update(task="detection", activation="none")
    assumed = published(known, info, stated)
    assumed.update({key: value for key, value in (of_detector or {}).items() if key not in stated})
    if original.inner and info.classes and "task" not in stated:
        assumed["task"] = "embedding"
    if outputs and "task" not in assumed and not _task(info, {**assumed, **stated}):
        assumed["task"] = "tensor"
    scaled = _scaled_inside(source, original, info, {**assumed, **stated}, options)
    if scaled and not PIXEL_KEYS & {*assumed, *stated}:
        assumed["scale"] = [1.0]
    guessed = _from_shapes(info, {**assumed, **stated})
    if "color" not in stated and info.channels == 3:
        assumed.setdefault("color", guessed["color"])
    for key, value in ASSUMED.items():
        if key not in stated:
            assumed.setdefault(key, value)
    name = source.stem
    if original.inner:
        # beside the network that ends where it was trained to end
        name = re.sub(r"\W", "_", f"{name}_{options.outputs[0]}")
    values = {"name": name, "outputs": outputs, **guessed, **assumed, **stated}
    _require(values, info)
    try:
        manifest = Manifest.from_dict(values)
    except (ManifestError, TypeError, ValueError) as err:
        raise ConvertError(f"cannot create the manifest: {err}") from err
    _agree(manifest, info)
    return manifest, sorted(assumed), scaled


def stated_early(source: Path, original: Source, options: ConvertOptions) -> dict[str, Any]:
    """Return what is stated before the graph is understood: by the user, files, the exporter; the zoo's task."""
    from dbinfer_models import NETWORKS

    name = options.network or original.name
    zoo = {"task": NETWORKS[name].manifest().task} if name in NETWORKS else {}
    return {**zoo, **original.values, **_from_file(source, options.manifest), **options.values}


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


def _scaled_inside(
    source: Path, original: Source, info: GraphInfo, known: dict[str, Any], options: ConvertOptions
) -> bool:
    """Look, where nobody else has said how pixels become the input, whether the network does it itself."""
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
    """Ask for all that nobody said, at once."""
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
    """Yield what nobody said, each with the value that fits most models of these shapes."""
    one = info.classes == 1 or _one_class(info)
    # a map of one pixel is none
    rank = 2 if info.output[-1:] == info.output[-2:-1] == (1,) else len(info.output)
    task = values.get("task") or {2: "classification", 4: "segmentation"}.get(rank, "tensor")
    if "task" not in values:
        yield Need(
            "--task",
            task,
            "what the result is: classification, segmentation, embedding, detection or tensor",
            "its task",
        )
    if "height" not in values or "width" not in values:
        yield Need(
            "--input-size",
            "224x224",
            "the size of the input in pixels, 224 or 480x640 (height x width)",
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
    # one output is the probability of the second of two classes
    fitting = (None, labels, 1) if labels == 2 else (None, labels)
    if manifest.task == "classification" and labels and info.classes not in fitting:
        raise ConvertError(f"there are {labels} labels, but the model has {info.classes} classes")
    if any(abs(value) < 1 for value in manifest.scale):
        raise ConvertError(
            f"scale is {list(manifest.scale)}, but must be in grey levels of 0..255",
            "If mean and scale are for pixels of 0..1, multiply them by 255.",
        )
