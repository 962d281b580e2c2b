"""What exporters say of a model in its file or beside it: Ultralytics, the ONNX standard, TFLite, Hugging Face, timm.

What a file says counts less than options and a manifest, and more than what is published of a known network.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbinfer.base.errors import ConvertError
from dbinfer.convert.options import BESIDE
from dbinfer.convert.source import Source
from dbinfer.convert.tflite import Described
from dbinfer.models.graph import GraphInfo

MOST_BYTES = 4 << 20  # of a file beside the model, or of one text inside: 21,000 labels have 400 kB
LETTERBOX = {"resize": "fit_to_window_letterbox", "pad_value": 114}
ULTRALYTICS_TASKS = {
    "detect": "detection",
    "classify": "classification",
    "segment": "detection",
    "pose": "detection",
    "obb": "tensor",
}
# ONNX' own names for pixels (MetadataProps.md): formats of colour, and ranges as (mean, scale)
ONNX_COLORS = {"Gray8": "GRAY", "Rgb8": "RGB", "Bgr8": "BGR", "Rgba8": "RGB", "Bgra8": "BGR"}
ONNX_RANGES = {
    "NominalRange_0_255": (0.0, 1.0),
    "Normalized_0_1": (0.0, 255.0),
    "Normalized_1_1": (127.5, 127.5),
}
# Endings of Hugging Face's network names
HUGGING_FACE_TASKS = {
    "ForImageClassification": "classification",
    "ForSemanticSegmentation": "segmentation",
    "ForObjectDetection": "detection",
}
ULTRALYTICS, *HUGGING_FACE = BESIDE
NEAREST = 0  # as Pillow numbers its filters


@dataclass(frozen=True)
class Told:
    """What an exporter says.

    Attributes:
        by: who said it, as a person would say.
        values: keys of the manifest.
        relative_boxes: coordinates of boxes are shares of the image's sides, not pixels.
        detector: the head, where outputs do not tell.
    """

    by: str
    values: dict[str, Any]
    relative_boxes: bool = False
    detector: str = ""


def with_told(source: Source, path: Path) -> Source:
    """Return the source with what its exporter says of it; what the file's reader found has priority.

    Raises:
        ConvertError: a text cannot be read, or says nonsense.
    """
    found = [told for told in _all_told(source, path) if told is not None]
    if not found:
        return source
    values: dict[str, Any] = {}
    # Texts in the file count more than files beside it
    for told in reversed(found):
        values.update(told.values)
    return replace(
        source,
        values={**values, **source.values},
        told=" and ".join(filter(None, (*(told.by for told in found), source.told))),
        relative_boxes=any(told.relative_boxes for told in found),
        detector=next((told.detector for told in found if told.detector), ""),
    )


def fitting(values: Mapping[str, Any], info: GraphInfo) -> dict[str, Any]:
    """Return what an exporter says, except what the graph itself settles."""
    inside = [key for key in ("height", "width") if getattr(info, key) is not None]
    if info.channels == 1:
        inside.append("color")
    if info.element == "u8":
        # The graph converts pixels itself
        inside += ["mean", "scale"]
    return {key: value for key, value in values.items() if key not in inside}


def _all_told(source: Source, path: Path) -> list[Told | None]:
    properties = source.properties
    return [
        _ultralytics(properties),
        _onnx_image(properties),
        _paddle(properties),
        _tflite(source.described) if source.described else None,
        _ultralytics_beside(path),
        _hugging_face(path),
    ]


def _ultralytics(properties: Mapping[str, str], relative: bool = False) -> Told | None:
    """YOLO's exports: Ultralytics' own have a task, those of the older YOLOv5 only `stride` and `names`."""
    if properties.get("author") != "Ultralytics" and not {"stride", "names"} <= properties.keys():
        return None
    task = ULTRALYTICS_TASKS.get(properties.get("task", "detect"))
    pose = properties.get("task") == "pose"
    if pose and re.findall(r"\d+", properties.get("kpt_shape", "3"))[-1:] != ["3"]:
        # points without scores
        task = "tensor"
    if task is None:
        raise _nonsense("task", properties["task"], f"one of {', '.join(ULTRALYTICS_TASKS)}")
    values: dict[str, Any] = {"task": task, "color": "RGB", "scale": [255.0]}
    values.update({"resize": "crop"} if task == "classification" else LETTERBOX)
    if task == "tensor":
        values["activation"] = "none"
    if "names" in properties:
        values["labels"] = _labels("names", _literal("names", properties["names"]))
    if "imgsz" in properties:
        values["height"], values["width"] = _size("imgsz", _literal("imgsz", properties["imgsz"]))
    by = f"Ultralytics {properties.get('version', '')}".strip()
    return Told(by, values, relative, "yolov8_pose" if pose else "")


def _onnx_image(properties: Mapping[str, str]) -> Told | None:
    values: dict[str, Any] = {}
    color = ONNX_COLORS.get(properties.get("Image.BitmapPixelFormat", ""))
    if color:
        values["color"] = color
    pixels = ONNX_RANGES.get(properties.get("Image.NominalPixelRange", ""))
    if pixels:
        values.update(mean=[pixels[0]], scale=[pixels[1]])
    return Told("ONNX image metadata", values) if values else None


def _paddle(properties: Mapping[str, str]) -> Told | None:
    """PaddleOCR's networks that read lines carry their characters; RapidOCR's code shows what else they take."""
    if "character" not in properties:
        return None
    # blank and space are added as to any list of characters
    labels = properties["character"].splitlines()
    return Told(
        "PaddleOCR", {"task": "text", "labels": labels, "color": "BGR", "mean": [127.5], "scale": [127.5]}
    )


def _tflite(described: Described) -> Told | None:
    if "metadata.json" in described.files:
        # Ultralytics' boxes are shares of the sides in this format alone
        said = _json("metadata.json", described.files["metadata.json"])
        return _ultralytics({key: str(value) for key, value in said.items()}, relative=True)
    values: dict[str, Any] = {}
    if described.color:
        values["color"] = described.color
    if described.mean and described.std:
        values.update(mean=list(described.mean), scale=list(described.std))
    # With several outputs it is unknown whose labels these are: some files list them in another order
    if described.outputs == 1 and (data := described.files.get(described.labels)) is not None:
        values["labels"] = _text(described.labels, data).split("\n")
        while values["labels"] and not values["labels"][-1].strip():
            values["labels"].pop()
    return Told("TFLite metadata", values) if values else None


def _ultralytics_beside(path: Path) -> Told | None:
    """`metadata.yaml`, which Ultralytics writes beside an IR and into a SavedModel."""
    data = _beside(path, ULTRALYTICS)
    return None if data is None else _ultralytics(_flat_yaml(_text(ULTRALYTICS, data)))


def _flat_yaml(text: str) -> dict[str, str]:
    """Return `key: value` lines, lists (`- 640`) and maps (`  0: cat`) as Python writes them; no more than that."""
    found: dict[str, Any] = {}
    key = ""
    for line in text.splitlines():
        if item := re.fullmatch(r"(\w+):(?: (.*))?", line):
            key, found[item[1]] = item[1], _unquoted(item[2] or "")
        elif key and (item := re.fullmatch(r"\s*- (.+)", line)):
            found[key] = [*(found[key] or []), int(item[1]) if item[1].isdigit() else _unquoted(item[1])]
        elif key and (item := re.fullmatch(r"\s+(\d+): (.+)", line)):
            found[key] = {**(found[key] or {}), int(item[1]): _unquoted(item[2])}
    return {key: str(value) for key, value in found.items()}


def _unquoted(text: str) -> str:
    text = text.strip()
    return (
        text[1:-1].replace("''", "'") if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    )


def _hugging_face(path: Path) -> Told | None:
    """Transformers' two files beside the model, or timm's one."""
    values: dict[str, Any] = {}
    names = []
    for name, read in zip(HUGGING_FACE, (_network_config, _processor_config), strict=True):
        data = _beside(path, name)
        said = {} if data is None else read(name, data)
        if said:
            values.update(said)
            names.append(name)
    return Told(" and ".join(names), values) if values else None


def _network_config(name: str, data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data)
    except ValueError:
        return {}  # another program's config.json
    if not isinstance(said, dict):
        return {}
    if isinstance(said.get("pretrained_cfg"), dict):
        return _timm(name, said)
    networks = said.get("architectures")
    network = str(networks[0]) if isinstance(networks, list) and networks else ""
    values: dict[str, Any] = {}
    for end, task in HUGGING_FACE_TASKS.items():
        if network.endswith(end):
            values["task"] = task
    if values.get("task") == "classification":
        several = said.get("problem_type") == "multi_label_classification"
        values["activation"] = "sigmoid" if several else "softmax"
    if values and isinstance(said.get("id2label"), dict):
        values["labels"] = _labels("id2label", said["id2label"])
    return values


def _timm(name: str, said: dict[str, Any]) -> dict[str, Any]:
    trained = said["pretrained_cfg"]
    values: dict[str, Any] = {"color": "RGB", "resize": "crop"}
    if trained.get("mean") and trained.get("std"):
        values.update(_pixels(name, trained["mean"], trained["std"], 1 / 255))
    if isinstance(trained.get("input_size"), list):
        values["height"], values["width"] = _size("input_size", trained["input_size"][1:])
    if said.get("num_classes"):
        values.update(task="classification", activation="softmax")
    if labels := said.get("label_names") or trained.get("label_names"):
        values["labels"] = _labels("label_names", labels)
    return values


def _processor_config(name: str, data: bytes) -> dict[str, Any]:
    said = _json(name, data)
    if not said.keys() & {"do_normalize", "do_rescale", "image_mean", "image_processor_type", "size"}:
        return {}
    factor = said.get("rescale_factor", 1 / 255) if said.get("do_rescale", True) else 1.0
    normalize = said.get("do_normalize", True) and said.get("image_mean") and said.get("image_std")
    mean, std = (said["image_mean"], said["image_std"]) if normalize else ([0.0], [1.0])
    values = {
        "color": "BGR" if said.get("do_flip_channel_order") else "RGB",
        **_pixels(name, mean, std, factor),
    }
    size = said.get("size")
    if isinstance(size, dict) and "shortest_edge" in size and "longest_edge" in size:
        return values  # any size: the user chooses one for all images
    crop = said.get("do_center_crop") or (isinstance(size, dict) and "shortest_edge" in size)
    values["resize"] = "crop" if crop else "standard"
    if said.get("resample") == NEAREST:
        values["interpolation"] = "nearest"
    size = said.get("crop_size", size) if said.get("do_center_crop") else size
    if size is not None:
        values["height"], values["width"] = _size("size", size)
    return values


def _pixels(name: str, mean: Any, std: Any, factor: Any) -> dict[str, Any]:
    """Return mean and scale in grey levels of x = (pixel * factor - mean) / std."""
    try:
        factor = float(factor)
        mean, std = ([float(one) / factor for one in several] for several in (_list(mean), _list(std)))
    except (TypeError, ValueError, ZeroDivisionError):
        raise _nonsense(name, f"{mean!r} and {std!r}", "mean and deviation of channels") from None
    return {"mean": [round(one, 6) for one in mean], "scale": [round(one, 6) for one in std]}


def _list(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def _size(key: str, said: Any) -> tuple[int, int]:
    """Return (height, width) of 224, [224, 224], {"height": 224, "width": 224} or {"shortest_edge": 224}."""
    sides = said
    if isinstance(said, dict):
        sides = [said.get("height", said.get("shortest_edge")), said.get("width", said.get("shortest_edge"))]
    elif not isinstance(said, list | tuple):
        sides = [said]
    if not 1 <= len(sides) <= 2 or not all(type(side) is int and 0 < side <= 16384 for side in sides):
        raise _nonsense(key, said, "a height and a width in pixels")
    return sides[0], sides[-1]


def _labels(key: str, said: Any) -> list[str]:
    """Return names of a list, or of a map from the numbers 0, 1, ... (which JSON keeps as texts)."""
    names = said
    if isinstance(said, dict):
        numbered = {str(number): name for number, name in said.items()}
        names = [numbered.get(str(number)) for number in range(len(numbered))]
    if not isinstance(names, list | tuple) or not all(isinstance(name, str | int | float) for name in names):
        raise _nonsense(key, said, "a list of names, or a map from 0, 1, ... to names")
    return [str(name) for name in names]


def _literal(key: str, text: str) -> Any:
    """Return the value of a text as Python's str() writes it."""
    try:
        if len(text) > MOST_BYTES:
            raise ValueError
        return ast.literal_eval(text)
    # Endless brackets: MemoryError or RecursionError, whichever comes first
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise _nonsense(key, text, "a list or a map as Python writes it") from None


def _json(name: str, data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(_text(name, data))
    except (ValueError, RecursionError) as err:
        raise ConvertError(f"{name} is not JSON: {err}", _HINT) from err
    if not isinstance(said, dict):
        raise _nonsense(name, said, "an object")
    return said


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise ConvertError(f"{name} is not UTF-8: {err}", _HINT) from err


def _beside(path: Path, name: str) -> bytes | None:
    """Return a file of the model's folder; None where there is none."""
    file = (path if path.is_dir() else path.parent) / name
    try:
        if not file.is_file():
            return None
        if file.stat().st_size > MOST_BYTES:
            raise ConvertError(
                f"{file} has {file.stat().st_size} bytes, but at most {MOST_BYTES} are read", _HINT
            )
        return file.read_bytes()
    except OSError as err:
        raise ConvertError(f"{file} cannot be read: {err.strerror}") from err


_HINT = (
    "Export the model again, or convert a copy of it without this text and state what it means with options."
)


def _nonsense(key: str, value: Any, wanted: str) -> ConvertError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:59]}…"
    return ConvertError(f"{key} in the model's metadata is {shown}, but must be {wanted}", _HINT)
