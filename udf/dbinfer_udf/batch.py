"""Scores many rows with a few inferences: for small networks one of many images costs half of many of one."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .detection import detections, literal, way_of
from .errors import ImageError
from .infer import Compiled
from .mask import mask
from .postprocess import float_array_literal, l2_normalize, quoted, scores

Row = Tuple[int, Optional[bytes]]
Slot = Tuple[int, Any, Any]


def rows(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    """Return the result of each row as the function of that name gives it; None where there is no image.

    Args:
        null: None for a bad image, too.

    Raises:
        ImageError: a bad image.
    """
    network: Compiled = model.wide
    found: List[Any] = []
    for first in range(0, len(wanted), network.rows):
        found += _inference(model, function, null, wanted[first : first + network.rows])
    return found


def _inference(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    """Return the results of as many rows as the network takes; bad ones take no slot of its input."""
    slots: List[Slot] = []
    found: List[Any] = [None] * len(wanted)
    for place, (number, img) in enumerate(wanted):
        if img is not None:
            try:
                _put(model, img, place, slots)
            except ImageError as err:
                if not null:
                    raise err.of_row(number) from err
    # without an image in it, the batch needs no inference
    if slots:
        model.wide.infer()
        for (place, _, _), result in zip(slots, FINISH[function](model, model.wide.output, slots)):
            found[place] = result
    return found


def _put(model: Any, img: bytes, place: int, slots: List[Slot]) -> None:
    """Decode and resize the image into the next slot of the input."""
    image, header = model.decode(img)
    slots.append((place, model.resize(image, model.wide.inputs[len(slots)]), header))


def _classify(model: Any, output: np.ndarray, slots: Sequence[Slot]) -> List[str]:
    manifest, used = model.manifest, output[: len(slots)]
    # raw scores need no work per row; a single value is the probability of the second of two classes
    if manifest.activation == "none" and used[0].size > 1:
        table = used.reshape(len(slots), -1)
    else:
        table = np.stack([scores(one, manifest.activation, len(manifest.labels)) for one in used])
    winners = table.argmax(axis=1)
    best = table[np.arange(len(slots)), winners].tolist()
    labels = model.quoted_labels
    # more outputs than labels: an empty field of a composite literal is NULL; nine digits give the same float32 again
    return [
        "(%d,%s,%.9g)" % (winner, labels[winner] if winner < len(labels) else "", score)
        for winner, score in zip(winners.tolist(), best)
    ]


def _each(finish: Callable[[Any, np.ndarray, Any, Any], Any]) -> Callable[..., List[Any]]:
    def finish_all(model: Any, output: np.ndarray, slots: Sequence[Slot]) -> List[Any]:
        # a slice, not an element: an output of one image, as without a batch
        return [
            finish(model, output[slot : slot + 1], placement, header)
            for slot, (_, placement, header) in enumerate(slots)
        ]

    return finish_all


def _embed(model: Any, output: np.ndarray, _placement: Any, _header: Any) -> str:
    return float_array_literal(l2_normalize(output) if model.manifest.l2_normalize else output)


def _detect(model: Any, output: np.ndarray, placement: Any, header: Any) -> str:
    found = detections(output, model.manifest, way_of(model, placement, header), header.size)
    return literal(found, model.layout)


FINISH: Dict[str, Callable[..., List[Any]]] = {
    "predict": _each(lambda model, output, placement, header: float_array_literal(output)),
    "classify": _classify,
    "embed": _each(_embed),
    "detect": _each(_detect),
    "segment": _each(
        lambda model, output, placement, header: mask(
            output, model.layout, model.manifest, placement, header.size
        )
    ),
}


def quoted_labels(labels: Sequence[str]) -> List[str]:
    """Return labels as fields of a composite literal, once for all rows."""
    return [quoted(label) for label in labels]
