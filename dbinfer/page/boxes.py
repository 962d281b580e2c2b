"""Objects that a detector found: how many of each class, and the images with their boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np

from dbinfer.page.classes import Count
from dbinfer.page.pictures import MASK_SIDE, Picture, Thumbnail, decode, encode, shrunk
from dbinfer.page.rows import Key, Row
from dbinfer_udf.draw import put_on
from dbinfer_udf.errors import UdfError

SHOWN = 24
FIELDS = ("x", "y", "width", "height")


class Boxed(NamedTuple):
    """An image with its boxes, and how many there are."""

    key: Key
    overlay: Thumbnail
    objects: int


@dataclass(frozen=True)
class BoxSection:
    """Objects by class, the frequent ones first, how many images have none, and images with many."""

    counts: list[Count]
    without: int
    shown: list[Boxed]


def section(sample: Sequence[Row]) -> BoxSection:
    """Return the figures of the objects in a sample; its pictures come later."""
    found = [row.result[0] for row in sample if row.result[0] is not None]
    names = Counter(name(one) for objects in found for one in objects)
    counts = [Count(label, number, None) for label, number in names.most_common()]
    return BoxSection(counts, sum(not objects for objects in found), [])


def name(one: dict[str, Any]) -> str:
    """Return the label of an object, or its class where it has none."""
    return str(one["label"] if one["label"] is not None else one["class"])


def most_objects(sample: Sequence[Row]) -> dict[Key, list[dict[str, Any]]]:
    """Return the objects of the images to show: those with most."""
    there = [row for row in sample if row.found and row.result[0]]
    return {
        row.key: row.result[0]
        for row in sorted(there, key=lambda row: (-len(row.result[0]), row.key))[:SHOWN]
    }


def boxed(picture: Picture, objects: list[dict[str, Any]]) -> Boxed:
    """Return the image with its boxes, small."""
    try:
        # every pixel: boxes are in pixels of the whole image
        whole = decode(picture.image, "BGR", None)
    except (UdfError, cv2.error) as err:
        return Boxed(picture.key, Thumbnail(problem=str(err).splitlines()[0]), len(objects))
    small = np.ascontiguousarray(shrunk(whole, MASK_SIDE * 2))
    scale = small.shape[1] / whole.shape[1]
    put_on(small, [{**one, **{field: _scaled(one[field], scale) for field in FIELDS}} for one in objects])
    return Boxed(picture.key, encode(small), len(objects))


def _scaled(value: Any, scale: float) -> float | None:
    # JSON has no NaN: the server writes it as a text
    return None if value is None else float(value) * scale
