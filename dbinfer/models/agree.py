"""How far two runs of a network agree, by the measure of its task, and the images to compare them on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import cv2
import numpy as np
import psycopg2
from numpy.typing import NDArray
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.database.connection import sentence, session
from dbinfer_udf.errors import ImageError
from dbinfer_udf.image.decode import Decoder, target_of
from dbinfer_udf.image.resize import Resizer
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.detection import candidates
from dbinfer_udf.result.mask import MaskLayout, mask_layout, sigmoid
from dbinfer_udf.result.vectors import scores

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
        both = [[candidates(one, manifest) for one in run] for run in (first, second)]
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
        # boxes below the threshold may differ in order
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


PULL_ROWS = 32
# Cells along a side of the pictures that are made: from large shapes to fine texture
CELLS = (2, 5, 12, 30)
Row = tuple[bytes, Any]


def query_rows(query: str, count: int, dsn: str | None, columns: int = 1) -> list[Row]:
    """Return up to `count` (image, label) rows of a query; the label is None where `columns` is 1; NULLs are left out.

    Raises:
        DataError: the server refuses the query, it gives no rows, or its columns are not of these kinds.
    """
    # The query is whatever the user typed; it cannot change anything by mistake
    with session(dsn, needs_dbinfer=False, readonly=True) as conn:
        try:
            rows = _pulled(conn, query, count, columns)
        except psycopg2.Error as err:
            told = sentence(err)
            raise type(told)(f"the query failed: {told.message}", query) from err
    if not rows:
        raise DataError("the query returns no images", query)
    return rows


def _pulled(conn: Connection, query: str, count: int, columns: int) -> list[Row]:
    with conn.cursor(
        "dbinfer_quantize"
    ) as cur:  # a name makes it a cursor of the server: not all rows come at once
        cur.itersize = PULL_ROWS
        cur.execute(query.strip().rstrip(";"))
        return [_row(row, columns) for row in islice(cur, count) if row[0] is not None]


def _row(row: tuple[Any, ...], columns: int) -> Row:
    if len(row) < columns:
        raise DataError(
            "the query of --check must return two columns: image and label",
            "Write: SELECT img, label FROM ...",
        )
    if not isinstance(row[0], memoryview | bytes):
        raise DataError(f"the query's first column is {type(row[0]).__name__}, but must be bytea (the image)")
    return bytes(row[0]), row[1] if columns > 1 else None


class Pixels:
    """Fits image files into a network's input, exactly as a deployed model does."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.decode = Decoder(manifest.color, target=target_of(manifest))
        self.resize = Resizer(manifest).resize

    def __call__(self, image: bytes) -> NDArray[np.uint8]:
        """Return uint8 (height, width, channels) of one image.

        Raises:
            DataError: it is no image.
        """
        pixels = np.empty((self.manifest.height, self.manifest.width, self.manifest.channels), np.uint8)
        try:
            self.resize(self.decode(image)[0], pixels)
        except ImageError as err:
            raise DataError(f"an image of the query cannot be used: {err.message}") from err
        return pixels


def made(count: int, manifest: Manifest) -> NDArray[np.uint8]:
    """Return pictures of shapes and textures, uint8 (count, height, width, channels); the same ones each time."""
    random = np.random.default_rng(0)
    return np.stack([_picture(random, manifest) for _ in range(count)])


def _picture(random: np.random.Generator, manifest: Manifest) -> NDArray[np.uint8]:
    size = (manifest.width, manifest.height)
    layers = [
        cv2.resize(random.normal(0, 1, (n, n, manifest.channels)), size, interpolation=cv2.INTER_CUBIC)
        for n in CELLS
    ]
    # as in photographs, the larger a shape the stronger its contrast
    waves = sum(layer.reshape(*size[::-1], -1) / (i + 1) for i, layer in enumerate(layers))
    levels = random.uniform(60, 190) + random.uniform(20, 60) * waves
    picture: NDArray[np.uint8] = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
    return picture
