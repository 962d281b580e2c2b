"""What the SQL functions do with one image, by name: each returns the text or the bytes that leave the backend."""

from __future__ import annotations

import json
import os
import socket
from time import perf_counter
from typing import Any, Callable, Dict, Optional

from ..errors import UsageError
from ..host import process
from ..result.detection import detections, literal, way_of
from ..result.mask import mask
from ..result.postprocess import best, float_array_literal, l2_normalize, quoted, scores, tensor_bytes, top
from .model import Model
from .waiting import batch, rest

Task = Callable[[Any, bytes, Any], Any]


def predict(model: Model, img: bytes, k: Any) -> str:
    """Return an output, of name or number k, as a real[] literal."""
    # asked for before the image is decoded: a wrong name costs nothing
    values = model.flat if k is None else model.values(k)
    model.score(img)
    return float_array_literal(values)


def tensor(model: Model, img: bytes, k: Any) -> bytes:
    """Return the same as little-endian float32."""
    values = model.flat if k is None else model.values(k)
    model.score(img)
    return tensor_bytes(values)


def classify(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the best class as a literal of dbinfer.classification."""
    # asked here first, without two calls: every row comes here
    if model.manifest.task != "classification":
        model.require("classification", "classify")
    model.score(img)
    winner, score = best(_class_scores(model))
    # nine digits give the same float32 again
    return "(%d,%s,%.9g)" % (winner, _label(model, winner), score)


def classify_top(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the k best classes as a literal of dbinfer.classification[]."""
    model.require("classification", "classify_top")
    if k is None:
        raise UsageError(
            "k is NULL, but must be at least 1", hint="Set k to the number of classes to return."
        )
    model.score(img)
    rows = ["(%d,%s,%.9g)" % (c, _label(model, c), score) for c, score in top(_class_scores(model), k)]
    return "{%s}" % ",".join(quoted(row) for row in rows)


def segment(model: Model, img: bytes, k: Optional[int]) -> bytes:
    """Return the mask as a PNG in the size of the image as shown."""
    model.require("segmentation", "segment")
    placement, header = model.score(img)
    return mask(model.output, model.layout, model.manifest, placement, header.size)


def detect(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the objects found as a literal of dbinfer.detection[], boxes in pixels of the image as shown."""
    model.require("detection", "detect")
    return _detections(model, *model.score(img))


def embed(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the embedding as a real[] literal."""
    model.require("embedding", "embed")
    model.score(img)
    return float_array_literal(l2_normalize(model.flat) if model.manifest.l2_normalize else model.flat)


def profile(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the microseconds of each step as JSON."""
    finish = POSTPROCESS[model.manifest.task]
    return json.dumps(model.profile(img, lambda placement, header: finish(model, placement, header)))


def warm(model: Model, img: bytes, k: Optional[int]) -> str:
    """Run the network once on a blank image; return segment, pid and milliseconds, with loading where needed."""
    started = perf_counter()
    model.compiled.input.fill(0)
    # with an inference: the first one is slower, and part of what a first row waits for
    model.compiled.infer()
    milliseconds = (perf_counter() - started) * 1e3 + model.take_load_time()
    row = {"content": process.content_id(), "pid": os.getpid()}
    return json.dumps(dict(row, milliseconds=round(milliseconds, 1)))


def warm_with_host(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the same with the host, for administrators."""
    return json.dumps(dict(json.loads(warm(model, img, k)), host=socket.gethostname()))


def _detections(model: Model, placement: Any, header: Any) -> str:
    found = detections(model.output, model.manifest, way_of(model, placement, header), header.size)
    return literal(found, model.layout)


def _class_scores(model: Model) -> Any:
    manifest = model.manifest
    if manifest.activation == "none" and model.flat.size > 1:
        return model.flat
    return scores(model.output, manifest.activation, len(manifest.labels))


def _label(model: Model, number: int) -> str:
    labels = model.manifest.labels
    # more outputs than labels: an empty field of a composite literal is NULL
    return quoted(labels[number]) if number < len(labels) else ""


POSTPROCESS: Dict[str, Callable[[Model, Any, Any], Any]] = {
    "classification": lambda model, placement, header: best(_class_scores(model)),
    "segmentation": lambda model, placement, header: mask(
        model.output, model.layout, model.manifest, placement, header.size
    ),
    "detection": _detections,
    "embedding": lambda model, placement, header: float_array_literal(model.flat),
    "tensor": lambda model, placement, header: float_array_literal(model.flat),
}

TASKS: Dict[str, Task] = {
    "predict": predict,
    "tensor": tensor,
    "classify": classify,
    "classify_top": classify_top,
    "segment": segment,
    "detect": detect,
    "embed": embed,
    "profile": profile,
    "warm": warm,
    "batch": batch,
    "rest": rest,
}
