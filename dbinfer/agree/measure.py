"""How far the outputs of two runs agree: top-1 of classes, IoU or dice of masks, the angle between vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbinfer_udf.detection import found
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.mask import MaskLayout, mask_layout, sigmoid
from dbinfer_udf.postprocess import scores

SAME_BOX = 0.9  # intersection / union of two boxes that are one
NEAR_BOX = 0.5  # of two that show one object, as weights of 8 bits move them


def agreement(manifest: Manifest, first: Sequence[Any], second: Sequence[Any]) -> tuple[str, float]:
    """Return what is measured (`top-1`, `IoU`, `boxes`, `cosine`) and its mean over the images."""
    pairs = list(zip(first, second, strict=True))
    if manifest.task == "classification":
        same = [winner(manifest, a) == winner(manifest, b) for a, b in pairs]
        return "top-1", float(np.mean(same))
    if manifest.task == "segmentation":
        layout = mask_layout(first[0].shape, manifest.labels)
        masks = [(mask_of(manifest, layout, a), mask_of(manifest, layout, b)) for a, b in pairs]
        return "IoU", float(np.mean([overlap(a, b) for a, b in masks]))
    if manifest.task == "detection":
        both = [[found(one, manifest) for one in run] for run in (first, second)]
        there = any(len(boxes) for run in both for boxes in run)
        return "boxes", _partnered(both[0], both[1], NEAR_BOX) if there else 1.0
    return "cosine", float(np.mean([_cosine(a.ravel(), b.ravel()) for a, b in pairs]))


def winner(manifest: Manifest, output: Any) -> int:
    """Return the best class, as `classify` does."""
    return int(scores(output, manifest.activation, len(manifest.labels)).argmax())


def mask_of(manifest: Manifest, layout: MaskLayout, output: Any) -> Any:
    """Return the class of each pixel; 0 and 1 where the network has one class."""
    if layout.indices:
        return output.reshape(layout.height, layout.width).astype(np.int64)
    if layout.classes > 1:
        return output[0].argmax(0 if layout.channels_first else 2)
    values = output.reshape(layout.height, layout.width)
    limit = manifest.threshold
    if manifest.activation == "sigmoid":
        values = sigmoid(values)
    return (values > limit).astype(np.int64)


def overlap(a: Any, b: Any) -> float:
    """Return the mean over the classes that occur of intersection / union; of the mask alone where it is one class."""
    classes = [c for c in np.union1d(a, b).tolist() if c != 0]
    if not classes:
        return 1.0
    return float(np.mean([((a == c) & (b == c)).sum() / ((a == c) | (b == c)).sum() for c in classes]))


def dice(a: Any, b: Any) -> float:
    """Return the mean over the classes that occur of 2 x common pixels / pixels of both, over all masks together."""
    classes = [c for c in np.union1d(a, b).tolist() if c != 0]
    shares = [2 * ((a == c) & (b == c)).sum() / ((a == c).sum() + (b == c).sum()) for c in classes]
    return float(np.mean(shares)) if shares else 1.0


def sameness(manifest: Manifest, first: Sequence[Any], second: Sequence[Any]) -> tuple[str, float]:
    """Return what is measured (`top-1`, `dice`, `boxes`, `cosine`) of two precisions of one network, and its value.

    Masks are taken together: in a small one a single pixel would weigh more than one precision differs from another.
    Where nothing is found on any image, it is the values that must agree.
    """
    if manifest.task == "segmentation":
        layout = mask_layout(first[0].shape, manifest.labels)
        a, b = (np.stack([mask_of(manifest, layout, one) for one in run]) for run in (first, second))
        if a.any() or b.any():
            return "dice", dice(a, b)
    if manifest.task == "detection":
        seen = [[one[0][one[0][:, 4] >= manifest.threshold] for one in run] for run in (first, second)]
        if any(len(boxes) for run in seen for boxes in run):
            return "boxes", _partnered(seen[0], seen[1])
        # the order of boxes that nobody sees may differ
        first, second = ([np.sort(one[0][:, 4]) for one in run] for run in (first, second))
    if manifest.task == "classification":
        return agreement(manifest, first, second)
    return "cosine", float(
        np.mean([_cosine(a.ravel(), b.ravel()) for a, b in zip(first, second, strict=True)])
    )


def _partnered(first: Sequence[Any], second: Sequence[Any], same: float = SAME_BOX) -> float:
    """Return the share of the boxes of both runs that have a partner of their class in the other one."""
    pairs = list(zip(first, second, strict=True))
    with_partner = sum(_partners(a, b, same) + _partners(b, a, same) for a, b in pairs)
    return float(with_partner / sum(len(a) + len(b) for a, b in pairs))


def _partners(boxes: Any, others: Any, same: float) -> int:
    """Return how many boxes (left, top, right, bottom, score, class) lie where one of their class lies in `others`."""
    if not len(others):
        return 0
    low, high = np.maximum(boxes[:, None, :2], others[:, :2]), np.minimum(boxes[:, None, 2:4], others[:, 2:4])
    common = np.clip(high - low, 0, None).prod(2)
    areas = [np.clip(each[:, 2:4] - each[:, :2], 0, None).prod(1) for each in (boxes, others)]
    shared = common >= same * (areas[0][:, None] + areas[1] - common)
    return int((shared & (boxes[:, None, 5] == others[:, 5])).any(1).sum())


def _cosine(a: Any, b: Any) -> float:
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.dot(a, b)) / length if length else float(not a.any() and not b.any())
