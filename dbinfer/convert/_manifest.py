"""The manifest of a source: options before its manifest file, before the zoo, before what the shapes say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dbinfer.convert._graph import Facts
from dbinfer.convert._options import ConvertOptions
from dbinfer.errors import ConvertError
from dbinfer_udf.manifest import Manifest, ManifestError

MANIFEST_NAME = "manifest.json"
SHAPE_KEYS = ("height", "width", "channels")
# What most models use; the report names those that were taken for granted
ASSUMED = {"resize": "standard", "precision": "f32"}


def make_manifest(
    source: Path, own_name: str, known: Facts, options: ConvertOptions
) -> tuple[Manifest, list[str]]:
    """Return the manifest, and the names of the keys that were assumed.

    Raises:
        ConvertError: something needed is not known, or two statements contradict each other.
    """
    stated = _from_zoo(options.network or own_name, known, bool(options.network))
    stated.update(_from_file(source, options.manifest))
    stated.update(options.values)
    guessed = _from_shapes(known, stated)
    assumed = {key: value for key, value in ASSUMED.items() if key not in stated}
    if "color" not in stated and known.channels == 3:
        assumed["color"] = guessed["color"]
    values = {"name": source.stem, **assumed, **guessed, **stated}
    _require(values, known)
    try:
        manifest = Manifest.from_dict(values)
    except (ManifestError, TypeError, ValueError) as err:
        raise ConvertError(f"The manifest cannot be made: {err}.") from err
    _agree(manifest, known)
    return manifest, sorted(assumed)


def _from_zoo(name: str, known: Facts, asked: bool) -> dict[str, Any]:
    from dbinfer_models import NETWORKS

    if name not in NETWORKS:
        if asked:
            raise ConvertError(f"The zoo has no network {name!r}; it has {', '.join(sorted(NETWORKS))}.")
        return {}
    values = NETWORKS[name].manifest().to_dict()
    if len(values["labels"]) != known.classes:
        del values["labels"]
    if values["channels"] != known.channels:
        del values["color"]
    return {key: value for key, value in values.items() if key not in SHAPE_KEYS}


def _from_file(source: Path, given: Path | None) -> dict[str, Any]:
    path = given or _beside(source)
    if path is None:
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise ConvertError(f"The manifest {path} cannot be read: {err.strerror}.") from err
    except ValueError as err:
        raise ConvertError(f"The manifest {path} is not JSON: {err}.") from err
    if not isinstance(values, dict):
        raise ConvertError(f"The manifest {path} is a JSON {type(values).__name__}, but must be an object.")
    return values


def _beside(source: Path) -> Path | None:
    places = [source.parent / f"{source.stem}.{MANIFEST_NAME}", source.parent / MANIFEST_NAME]
    if source.is_dir():
        places.insert(0, source / MANIFEST_NAME)
    return next((place for place in places if place.is_file()), None)


def _from_shapes(known: Facts, stated: dict[str, Any]) -> dict[str, Any]:
    sizes = {"height": known.height, "width": known.width, "channels": known.channels}
    values: dict[str, Any] = {key: value for key, value in sizes.items() if value is not None}
    values["color"] = "GRAY" if known.channels == 1 else "RGB"
    task = stated.get("task") or _task(known, stated)
    if task:
        values["task"] = task
    if known.ending or task in ("embedding", "tensor") or (task == "segmentation" and not _one_class(known)):
        values["activation"] = "none"
    return values


def _task(known: Facts, stated: dict[str, Any]) -> str:
    if known.classes and (known.ending == "softmax" or stated.get("labels")):
        return "classification"
    if len(known.output) == 4 and known.ending:
        return "segmentation"
    return ""


def _one_class(known: Facts) -> bool:
    return known.output[-1 if known.layout == "NHWC" else 1 : None][:1] == (1,)


def _require(values: dict[str, Any], known: Facts) -> None:
    needs = (
        ("task", "--task", "what the result is: classification, segmentation, embedding or tensor"),
        ("height", "--size", "the size of the input in pixels, 224 or 480x640 (height x width)"),
        ("width", "--size", "the size of the input in pixels, 224 or 480x640 (height x width)"),
        ("activation", "--activation", "softmax or sigmoid for raw scores, or none"),
    )
    for key, option, meaning in needs:
        if key not in values:
            raise ConvertError(f"The model does not say its {key}.", f"Give {option}: {meaning}.")
    if known.element != "u8" and "scale" not in values and "mean" not in values:
        raise ConvertError(
            "The model does not say how pixels become its input.",
            "Give --scale (255 for an input of 0..1, 1 for 0..255) and, where it has one, --mean.",
        )


def _agree(manifest: Manifest, known: Facts) -> None:
    for key in ("height", "width", "channels"):
        inside, said = getattr(known, key), getattr(manifest, key)
        if inside is not None and inside != said:
            raise ConvertError(f"The manifest says {key} {said}, but the model's input has {inside}.")
    labels = len(manifest.labels)
    if manifest.task == "classification" and labels and known.classes not in (None, labels):
        raise ConvertError(f"There are {labels} labels, but the model has {known.classes} classes.")
    if any(abs(value) < 1 for value in manifest.scale):
        raise ConvertError(
            f"scale is {list(manifest.scale)}, but is given in grey levels of 0..255.",
            "Multiply mean and scale by 255 where they were made for pixels of 0..1.",
        )
