"""How far float32 may lead two computations apart that are equal on paper: tolerances follow from here."""

from __future__ import annotations

from typing import Any

import numpy as np

EPSILON = float(np.finfo(np.float32).eps)  # from 1 to the next float32


def tolerance(size: Any, steps: int = 1, terms: int = 1) -> float:
    """Return the largest difference between two float32 results that is rounding, and no defect.

    Another instruction set, number of threads or devices, or another framework, adds up in another order. A rounding
    is wrong by half an ulp at most, in either direction, so two sums of n terms come to lie about sqrt(n) ulps apart
    (Higham and Mary 2019: A new approach to probabilistic rounding error analysis), and sums of sums add this up.

    Args:
        size: the largest value on the way, or arrays (lists of them) that have it.
        steps: sums that follow each other: layers of a network, updates of its weights.
        terms: numbers in the longest of these sums.
    """
    if not isinstance(size, float | int):
        size = max(float(np.abs(each).max()) for each in (size if isinstance(size, list) else [size]))
    return EPSILON * size * steps * terms**0.5
