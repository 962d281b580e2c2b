"""Judges a network that finds boxes: what the database would return for its maps, against the true boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer.boxes import Boxes, average_precision
from dbinfer.errors import DataError
from dbinfer.train.pipeline import Pipeline, read_batches
from dbinfer.train.ranks import Ranks
from dbinfer_udf.detection import Way, detections
from dbinfer_udf.manifest import Manifest

Float = NDArray[np.float32]
ROWS = 300  # peaks that count, as in the graph that `dbinfer convert` makes


def precision(model: Any, pipeline: Pipeline | None, manifest: Manifest, ranks: Ranks) -> dict[str, float]:
    """Return val_map50 and val_map50_95 over the validation images of all ranks, which call this together.

    Args:
        model: the one that is trained, with heatmap, size and offset side by side.
        pipeline: of this rank's images; None where it has none.
    """
    own = [] if pipeline is None else list(_judged(model, pipeline, manifest))
    # Not a mean over ranks: the curve of precision and recall is one over all images
    told = ranks.gather([[image.found.tolist(), image.true.tolist()] for image in own])
    images = [Boxes(_rows(found, 6), _rows(true, 5)) for part in told for found, true in part]
    if not any(len(image.true) for image in images):
        raise DataError(
            "no image of the validation has a box: there is nothing to judge the network by",
            "Give other images with --val, or none.",
        )
    return {f"val_{name}": value for name, value in average_precision(images).items()}


def _rows(values: Any, columns: int) -> Float:
    return np.array(values, np.float32).reshape(-1, columns)


def _judged(model: Any, pipeline: Pipeline, manifest: Manifest) -> Any:
    for images, truths in read_batches(pipeline, pipeline.validation()):
        for maps, truth in zip(model.predict_on_batch(images), truths, strict=True):
            yield Boxes(found(maps, manifest), truth[truth[:, 4] >= 0])


def found(maps: Float, manifest: Manifest) -> Float:
    """Return the boxes that one image's maps show, as dbinfer.detect finds them.

    Args:
        maps: (rows, columns, classes + 4): heatmap, width and height in pixels, x and y within the cell.
        manifest: says which scores count, and how many boxes.

    Returns:
        float32 (n, 6): left, top, right, bottom in pixels of the input tensor and within it, score, class; best first.
    """
    heatmap, sizes, offsets = maps[..., :-4], maps[..., -4:-2], maps[..., -2:]
    scores = np.where(_is_peak(heatmap), heatmap, 0).ravel()
    best = np.argsort(-scores, kind="stable")[: max(ROWS, manifest.max_detections)]
    rows, columns, classes = np.unravel_index(best, heatmap.shape)
    stride = np.array([manifest.width / heatmap.shape[1], manifest.height / heatmap.shape[0]], np.float32)
    centres = (np.stack([columns, rows], 1) + offsets[rows, columns]) * stride
    halves = sizes[rows, columns] / 2
    corners = [centres - halves, centres + halves]
    output = np.concatenate([*corners, scores[best][:, None], classes[:, None]], 1).astype(np.float32)
    # From here on the very code of dbinfer.detect; the tensor stands for the image
    size = manifest.width, manifest.height
    seen = detections(output[None], manifest, Way(1, 1, 0, 0), size)
    return np.column_stack([seen.boxes, seen.scores, seen.classes]).reshape(-1, 6).astype(np.float32)


def _is_peak(heatmap: Float) -> NDArray[np.bool_]:
    """Return where a score is the highest of its class among the 3 x 3 cells around it."""
    padded = np.pad(heatmap, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    peaks: NDArray[np.bool_] = heatmap >= around.max(axis=(-2, -1))
    return peaks
