"""The manifest: how an image becomes a model's input tensor, and what its output means.

It travels inside the IR (rt_info) and, at deploy, into the registry as JSON, so that the backend that scores and the
client that trained read the same numbers. The keys under `model_info` are those of OpenVINO's Model API; the complete
manifest lies beside them under `dbinfer`/`manifest`. Standard library only: both sides import it, Python 3.9 included.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from numbers import Integral, Real
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from .tasks import TASKS, TILE_KEYS

_TEXTS = ("name", "task", "color", "resize", "interpolation", "precision", "activation", "decode")
_TYPES: Tuple[Tuple[type, str, Tuple[str, ...]], ...] = (
    (str, "a text", _TEXTS),
    (Integral, "a whole number", ("height", "width", "channels", "pad_value", "max_detections")),
    (Real, "a number", ("threshold", "iou_threshold", "pixel_threshold", "unclip_ratio", "tile_overlap")),
    (bool, "true or false", ("l2_normalize", "tile")),
    (dict, "an object", ("metrics", "provenance")),
)


def wrong_type(values: Mapping[str, Any]) -> Optional[Tuple[str, Any, str]]:
    """Return (key, value, what it must be) of the first value that is of another kind; None where all are right."""
    for kind, words, keys in _TYPES:
        for key in keys:
            value = values[key]
            # True is a whole number for Python, and `height: true` is none for us
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                return key, value, words
    for key, numbers in (
        ("mean", values["mean"]),
        ("scale", values["scale"]),
        ("thresholds", values["thresholds"]),
        *((key, (values[key],)) for key in _TYPES[2][2]),
    ):
        # Python's json reads NaN and Infinity
        if not all(isfinite(number) for number in numbers):
            return key, values[key], "finite"
    if "" in values["outputs"] or len(set(values["outputs"])) < len(values["outputs"]):
        return "outputs", values["outputs"], "different names"
    if values["labels"] and len(values["thresholds"]) not in (0, len(values["labels"])):
        return (
            "thresholds",
            values["thresholds"],
            "one number for each of the %d labels" % len(values["labels"]),
        )
    return None


def tuple_of(values: Any, kind: Callable[[Any], Any]) -> Tuple[Any, ...]:
    """Return the values of a list as a tuple of one type; the empty one for None.

    Raises:
        TypeError, ValueError, OverflowError: it is no list, or a value is of another type.
    """
    if values is None:
        return ()
    if isinstance(values, (str, bytes, dict)):  # a text is a list of letters for Python
        raise TypeError
    return tuple(kind(value) for value in values)


# Raised when a key is added that changes results where it is not understood; a manifest without the key `schema` has 1
SCHEMA = 1

COLORS = ("RGB", "BGR", "GRAY")
# Of Model API
FIXED_SIZE = ("standard", "fit_to_window", "fit_to_window_letterbox", "crop")
# The input's size follows the image's
ANY_SIZE = ("keep_height", "keep_size")
# Then in whole multiples: networks halve their sides five times, and each new size costs 20 ms
STEP = 32
RESIZES = FIXED_SIZE + ANY_SIZE
INTERPOLATIONS = ("linear", "area", "cubic", "nearest")
PRECISIONS = ("f32", "bf16", "f16", "auto")
ACTIVATIONS = ("none", "softmax", "sigmoid")
DECODES = ("fast", "exact")
MOST_DETECTIONS = 10000
# How Model API writes what it reads of some tasks only, see tasks.Task.model_info
MODEL_INFO: Dict[str, Callable[[Manifest], str]] = {
    "output_raw_scores": lambda manifest: "True" if manifest.activation == "none" else "False",
    "confidence_threshold": lambda manifest: repr(manifest.threshold),
    "iou_threshold": lambda manifest: repr(manifest.iou_threshold),
}


class ManifestError(ValueError):
    """A manifest whose values cannot be used; the message names the key, the value and what is allowed."""


@dataclass(frozen=True)
class Manifest:
    """What the backend must know of a model beside its graph.

    Attributes:
        task: what the network does; decides which SQL functions accept the model.
        height, width: size of the input tensor in pixels; for a text 1 and its most bytes in UTF-8.
        channels: 1 or 3.
        name: under which `dbinfer deploy` stores the model, unless `--name` says another.
        color: order of the channels with which the network was trained.
        resize: how an image of another size is fitted (names of OpenVINO Model API): `standard` stretches,
            `fit_to_window` keeps the aspect ratio and pads right and below, `fit_to_window_letterbox` pads on
            both sides, `crop` scales the short side and cuts the centre. For networks that take images of any size:
            `keep_height` scales to `height` and keeps the aspect ratio, so that the input is as wide as the image is,
            at least `width`, at most ten times that, padded at the right; an image that is 1.5 times as high as wide
            is first turned by a quarter, counterclockwise. `keep_size` takes images as they are: enlarged until the
            short side has the smaller of `height` and `width`, shrunk until the long side has the larger, and
            stretched a little to whole multiples of 32.
        interpolation: how that resize computes a pixel; where the image shrinks, `linear` averages areas as training
            with antialiasing does, but faster and not exactly (unless `decode` is `exact`), `area` exactly.
        pad_value: grey level of padding, 0 to 255.
        mean, scale: one number, or one for each channel in the order of `color`, for pixels of 0 to 255: the network's
            input is (pixel - mean) / scale.
        labels: name of each class, in the order of the output.
        outputs: names of the network's outputs in their order, where it has several; a task's functions read the first.
        precision: the precision in which the network computes; `auto`, in a file that is not deployed yet, lets
            `dbinfer deploy` choose the fastest one that agrees with f32.
        activation: what turns the output into scores for `classify` and `segment`; `predict` returns the raw output.
        threshold: score above which a pixel of a one-class mask is set, and below which a detected box, or a class of
            `classify_all`, is dropped.
        thresholds: one for each class of `classify_all`, in the order of the output; without them `threshold` counts.
        iou_threshold: a detected box that overlaps a better one of its class by more (intersection over union) is
            dropped; 1 drops none, for graphs that drop such boxes themselves.
        max_detections: the most boxes that an image gets, or each of its tiles.
        pixel_threshold: probability above which a pixel belongs to a line of text.
        unclip_ratio: how far the box of a line grows beyond its pixels: by so many times area / circumference.
        tile: whether `segment` and `detect` put images through the network in overlapping tiles of `width` x `height`
            pixels, each as it is, and not resized as a whole.
        tile_overlap: by how much neighbouring tiles overlap at least, as a part of their sides, 0 to 0.5; the tiles are
            placed by multiples of 32 pixels.
        l2_normalize: whether `embed` returns vectors of length one.
        decode: `fast` lets libjpeg decode at a reduced scale that still covers the input, `exact` at full size only.
        metrics: metrics of the training run, shown by `dbinfer models`.
        provenance: where the model comes from: framework, data and options of its training.
    """

    task: str
    height: int
    width: int
    channels: int = 3
    name: str = ""
    color: str = "RGB"
    resize: str = "standard"
    interpolation: str = "linear"
    pad_value: int = 0
    mean: Tuple[float, ...] = ()
    scale: Tuple[float, ...] = ()
    labels: Tuple[str, ...] = ()
    outputs: Tuple[str, ...] = ()
    precision: str = "f32"
    activation: str = "none"
    threshold: float = 0.5
    thresholds: Tuple[float, ...] = ()
    iou_threshold: float = 1.0
    max_detections: int = 100
    pixel_threshold: float = 0.3
    unclip_ratio: float = 1.6
    tile: bool = False
    tile_overlap: float = 0.25
    l2_normalize: bool = False
    decode: str = "fast"
    metrics: Dict[str, Any] = field(default_factory=dict)
    provenance: Dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrong = wrong_type(vars(self))
        if wrong:
            raise ManifestError("%s is %r, but must be %s" % wrong)
        for key, allowed in (
            ("task", TASKS),
            ("color", COLORS),
            ("resize", RESIZES),
            ("interpolation", INTERPOLATIONS),
            ("precision", PRECISIONS),
            ("activation", ACTIVATIONS),
            ("decode", DECODES),
        ):
            value = getattr(self, key)
            if value not in allowed:
                raise ManifestError("%s is %r, but must be one of %s" % (key, value, ", ".join(allowed)))
        self._check_size()
        if self.channels not in (1, 3):
            raise ManifestError("channels is %r, but must be 1 or 3" % (self.channels,))
        if (self.color == "GRAY") != (self.channels == 1):
            raise ManifestError("color %s does not fit channels %d" % (self.color, self.channels))
        for key in ("mean", "scale"):
            values = getattr(self, key)
            if values and len(values) not in (1, self.channels):
                raise ManifestError(
                    "%s has %d values, but the network has %d channels" % (key, len(values), self.channels)
                )
        if 0 in self.scale:
            raise ManifestError("scale contains 0, but must not")
        for key, least, most in (
            ("pad_value", 0, 255),
            ("iou_threshold", 0, 1),
            ("max_detections", 1, MOST_DETECTIONS),
            ("pixel_threshold", 0, 1),
            ("unclip_ratio", 0, 10),
            ("tile_overlap", 0, 0.5),
        ):
            if not least <= getattr(self, key) <= most:
                raise ManifestError("%s is %r, but must be %g to %g" % (key, getattr(self, key), least, most))
        if self.tile and "tile" not in TASKS[self.task].keys:
            raise ManifestError("tile is true, but %s looks at images as a whole" % self.task)

    def _check_size(self) -> None:
        for key in ("height", "width"):
            if not 1 <= getattr(self, key) <= 16384:
                raise ManifestError("%s is %r, but must be 1 to 16384 pixels" % (key, getattr(self, key)))
        if self.resize in ANY_SIZE and TASKS[self.task].one_size:
            raise ManifestError("resize is %r, but %s needs one size for all" % (self.resize, self.task))
        if self.resize == "keep_size" and (self.height % STEP or self.width % STEP):
            raise ManifestError(
                "height and width are %d and %d, but for resize keep_size must be multiples of %d"
                % (self.height, self.width, STEP)
            )

    def to_dict(self) -> Dict[str, Any]:
        """Return plain JSON values (tuples become lists)."""
        out = asdict(self)
        for key in ("mean", "scale", "labels", "outputs", "thresholds"):
            out[key] = list(out[key])
        # a manifest that does not need them stays that of 0.1.0, by which registries know content
        for key in ("outputs", "thresholds", *TILE_KEYS):
            if getattr(self, key) == getattr(Manifest, key):
                del out[key]
        # likewise without the keys of other tasks
        for key in {key for task in TASKS.values() for key in task.keys}.difference(TASKS[self.task].keys):
            out.pop(key, None)
        return out

    def to_json(self) -> str:
        """Return the manifest as one line of JSON with sorted keys, equal for equal manifests."""
        return json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Manifest:
        """Make a manifest from JSON values.

        Raises:
            ManifestError: a key is unknown or missing, or a value is out of range.
        """
        if not isinstance(values, dict):
            raise ManifestError("the manifest is a JSON %s, but must be an object" % type(values).__name__)
        if values.get("schema", SCHEMA) != SCHEMA:
            raise ManifestError(
                "schema %s is newer than %d, which this version of dbinfer knows" % (values["schema"], SCHEMA)
            )
        values = {key: value for key, value in values.items() if key != "schema"}
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ManifestError("unknown key %r; known keys: %s" % (unknown[0], ", ".join(sorted(known))))
        missing = [k for k in ("task", "height", "width") if k not in values]
        if missing:
            raise ManifestError("key %r is missing" % missing[0])
        typed = dict(values)
        kinds = {"mean": float, "scale": float, "thresholds": float, "labels": str, "outputs": str}
        for key, kind in kinds.items():
            try:
                typed[key] = tuple_of(typed.get(key), kind)
            except (TypeError, ValueError, OverflowError):
                raise ManifestError("%s is %r, but must be a list" % (key, typed.get(key))) from None
        return cls(**typed)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Make a manifest from its JSON text; ManifestError where it is none."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as err:
            # RecursionError: brackets nested too deeply
            raise ManifestError("the manifest is not JSON: %s" % err) from err
        return cls.from_dict(values)

    def model_info(self) -> Dict[str, str]:
        """Return the part that OpenVINO's Model API knows, with its key names and its string values."""
        info = {
            "resize_type": self.resize if self.resize in FIXED_SIZE else "",
            "pad_value": str(self.pad_value),
            # Model API reads images as BGR
            "reverse_input_channels": "True" if self.color == "RGB" else "False",
            # Model API separates labels with spaces
            "labels": " ".join(label.replace(" ", "_") for label in self.labels),
            "mean_values": " ".join(repr(v) for v in self.mean),
            "scale_values": " ".join(repr(v) for v in self.scale),
        }
        task = TASKS[self.task]
        info["model_type"] = task.model_type
        info.update({key: MODEL_INFO[key](self) for key in task.model_info})
        return {key: value for key, value in info.items() if value}
