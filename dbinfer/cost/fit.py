"""Fits coefficients to measured points: least squares of relative errors, no coefficient below zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Sample = tuple[Mapping[str, float], float]


def fit(samples: Sequence[Sample], wholes: Sequence[float] = ()) -> dict[str, float]:
    """Return seconds by term for (terms, seconds) of many samples.

    Args:
        wholes: seconds to which each sample's error is compared; those of the sample where none are given.

    A term that would get a negative coefficient is left out, the worst one first: noise makes such where two terms
    grow together.
    """
    import numpy as np

    names = sorted({name for amounts, _ in samples for name in amounts})
    seconds = np.array([taken for _, taken in samples])
    against = np.array(wholes) if len(wholes) else seconds
    while names:
        matrix = np.array([[amounts.get(name, 0.0) for name in names] for amounts, _ in samples])
        weighted = matrix / against[:, None]
        # columns differ by many powers of ten
        size = np.linalg.norm(weighted, axis=0)
        size[size == 0] = 1.0
        found = np.linalg.lstsq(weighted / size, seconds / against, rcond=None)[0]
        if found.min() >= 0:
            return {name: float(value) for name, value in zip(names, found / size, strict=True)}
        names.pop(int(found.argmin()))
    return {}
