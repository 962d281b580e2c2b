"""Figures of a segmentation: how well masks cover the true ones, and pictures that show where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from dbinfer.page.pictures import MASK_SIDE, Picture, Thumbnail, decode, encode, shrunk
from dbinfer.page.rows import Key
from dbinfer_udf.errors import UdfError

SET = 255
OPACITY = 0.6
# BGR, colours of Okabe and Ito that people tell apart who do not see red or green; the legend in page.css is the same
HIT, EXTRA, MISSED = (115, 158, 0), (0, 94, 213), (167, 121, 204)
PALETTE = (EXTRA, MISSED, HIT, (66, 228, 240), (0, 159, 230), (178, 114, 0), (233, 180, 86), (160, 160, 160))


@dataclass(frozen=True)
class Mask:
    """One mask and what it says.

    Attributes:
        covered: share of the pixels that are set; classes: the class numbers in it (255: a mask of one class).
        iou, dice: against the true mask, the mean over the classes of both; None without one.
        overlay: the image with the mask on it; problem: why there is none, or what is odd.
        agreement: IoU with the mask of the other version; before: that mask's dice. None without one.
    """

    key: Key
    overlay: Thumbnail
    covered: float | None = None
    classes: tuple[int, ...] = ()
    iou: float | None = None
    dice: float | None = None
    problem: str = ""
    agreement: float | None = None
    before: float | None = None


def judge(picture: Picture) -> Mask:
    """Return the figures of one mask, and the image with it."""
    try:
        found = decode(picture.mask, "GRAY", None)
        truth = None if picture.truth is None else decode(picture.truth, "GRAY", None)
        other = None if picture.other is None else decode(picture.other, "GRAY", None)
    except (UdfError, cv2.error) as err:
        return Mask(
            picture.key, Thumbnail(problem=str(err).splitlines()[0]), problem=str(err).splitlines()[0]
        )
    problem = ""
    if truth is not None:
        if truth.shape != found.shape:
            size = f"{truth.shape[1]} x {truth.shape[0]}"
            problem = f"the true mask has {size} pixels and was scaled to the image's"
            truth = _scaled(truth, found.shape)
        if set(np.unique(found)) <= {0, SET}:
            # True masks of one class are also written as 0 and 1, or lost a little in a JPEG
            truth = np.where(truth > truth.max() / 2, SET, 0).astype(np.uint8)
    iou, dice = overlap(found, truth) if truth is not None else (None, None)
    classes = tuple(int(value) for value in np.unique(found) if value)
    overlay = _overlay(picture.image, found, truth)
    agreement = before = None
    if other is not None and other.shape == found.shape:
        agreement = overlap(found, other)[0]
        before = overlap(other, truth)[1] if truth is not None else None
    covered = float((found > 0).mean())
    return Mask(picture.key, overlay, covered, classes, iou, dice, problem, agreement, before)


def overlap(found: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return IoU and dice, each the mean over the classes (but 0) that either mask has; 1 where neither has any."""
    ious, dices = [], []
    for value in (set(np.unique(found)) | set(np.unique(truth))) - {0}:
        a, b = found == value, truth == value
        both, total = int((a & b).sum()), int(a.sum() + b.sum())
        ious.append(both / (total - both))
        dices.append(2 * both / total)
    return (float(np.mean(ious)), float(np.mean(dices))) if ious else (1.0, 1.0)


def worst_first(masks: Sequence[Mask]) -> list[Mask]:
    """Return masks with the lowest dice first; without true masks those that set most pixels first."""
    return sorted(
        masks, key=lambda mask: (mask.dice is None, mask.dice or 0.0, -(mask.covered or 0.0), mask.key)
    )


def _overlay(image: bytes | None, found: np.ndarray, truth: np.ndarray | None) -> Thumbnail:
    try:
        base = shrunk(decode(image, "BGR", MASK_SIDE), MASK_SIDE)
    except (UdfError, cv2.error) as err:
        return Thumbnail(problem=str(err).splitlines()[0])
    if max(base.shape[:2]) < MASK_SIDE // 2:
        base = cv2.resize(base, None, fx=4, fy=4, interpolation=cv2.INTER_NEAREST)
    colours = base.copy()
    small = _scaled(found, base.shape)
    if truth is None:
        for value in set(np.unique(small)) - {0}:
            colours[small == value] = PALETTE[int(value) % len(PALETTE)]
    else:
        true = _scaled(truth, base.shape)
        colours[(small > 0) & (small == true)] = HIT
        colours[(small > 0) & (small != true)] = EXTRA
        colours[(true > 0) & (small == 0)] = MISSED
    return encode(np.asarray(cv2.addWeighted(colours, OPACITY, base, 1 - OPACITY, 0)))


def _scaled(mask: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    # Between class 2 and class 4 there is no class 3
    return np.asarray(cv2.resize(mask, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST))
