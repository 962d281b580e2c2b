"""What an answer is: one label for an image, or the boxes of the objects in it, as `dbinfer train` reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from dbinfer.base.errors import UsageError
from dbinfer.images.boxes import SIDES, labels_of, packed
from dbinfer.label.options import check_label
from dbinfer.report.pictures import name

THIS = "this image"


class Value(NamedTuple):
    """One of the two.

    Attributes:
        column: of the table of answers, and name in the page's requests; kind: its type.
        suffix: of the table's name, where no other was asked for.
        check: returns what was given, or raises DataError or UsageError; classes: None where there may be others.
        read: makes the value of a text of the database, write a text of the value.
    """

    column: str
    kind: str
    suffix: str
    check: Callable[[Any, Collection[str] | None], Any]
    read: Callable[[str], Any]
    write: Callable[[Any], str]


def _label(given: Any, classes: Collection[str] | None) -> str:
    label = check_label(given)
    if classes is not None and label not in classes:
        raise UsageError(f"{label!r} is none of the classes {', '.join(classes)}")
    return label


def _boxes(given: Any, classes: Collection[str] | None) -> list[dict[str, Any]]:
    """Return the boxes without what else they have; each has a label and an area."""
    labels = [_label(label, classes) for label in labels_of(given, THIS)]
    packed(given, dict.fromkeys(labels, 0), THIS)
    return [_box(label, box) for label, box in zip(labels, given, strict=True)]


def _box(label: str, box: dict[str, Any]) -> dict[str, Any]:
    # a tenth of a pixel is less than anybody sees
    return {"label": label, **{side: round(float(box[side]), 1) for side in SIDES}}


def _found(text: str) -> list[dict[str, Any]]:
    """Return the boxes of dbinfer.detect; JSON has no NaN, which the server writes as a text."""
    found = json.loads(text)
    whole = [box for box in found if all(isinstance(box.get(side), int | float) for side in SIDES)]
    return [_box(name({"class": None, **box}), box) for box in whole]


def labels_in(value: Any) -> list[str]:
    """Return the labels of an answer: the one, or those of its boxes."""
    return [value] if isinstance(value, str) else [box["label"] for box in value]


LABEL = Value(column="label", kind="text", suffix="_labels", check=_label, read=str, write=str)
BOXES = Value(column="boxes", kind="jsonb", suffix="_boxes", check=_boxes, read=_found, write=json.dumps)
