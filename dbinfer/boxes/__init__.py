"""Boxes of objects: as people write them down, and how good found ones are."""

from __future__ import annotations

from dbinfer.boxes._labels import CURE, MOST, Corners, in_order, labels_of, packed, padded, unpacked
from dbinfer.boxes._precision import Boxes, average_precision, check_installed

__all__ = [
    "CURE",
    "MOST",
    "Boxes",
    "Corners",
    "average_precision",
    "check_installed",
    "in_order",
    "labels_of",
    "packed",
    "padded",
    "unpacked",
]
