"""What the heads of detectors are made of: operations of OpenVINO on boxes, scores and classes."""

from __future__ import annotations

from typing import Any

import numpy as np


def ops() -> Any:
    """Return OpenVINO's operations."""
    from openvino import opset13

    return opset13


def columns(node: Any, count: int, axis: int = -1) -> list[Any]:
    """Return the parts of a node along an axis, each with that axis of length one."""
    return list(ops().split(node, np.int64(axis), count).outputs())


def shape(node: Any) -> list[int]:
    """Return a shape, -1 where a side is open."""
    return [dim.get_length() if dim.is_static else -1 for dim in node.get_output_partial_shape(0)]


def reshaped(node: Any, *sides: int) -> Any:
    """Return a node in another shape; 0 keeps a side, -1 takes what is left."""
    return ops().reshape(node, np.array(sides, np.int64), True)


def column(node: Any) -> Any:
    """Return the values of one image as a column of rows."""
    return reshaped(node, 1, -1, 1)


def first_scores(scores: Any, count: Any) -> Any:
    """Return scores with 0 from the place `count` on."""
    op = ops()
    place = op.cum_sum(op.broadcast(np.float32(1), op.shape_of(scores)), np.int64(1))
    within = op.less_equal(place, reshaped(count, 1, 1, 1))
    return op.multiply(scores, op.convert(within, "f32"))


def corners(box: Any) -> Any:
    """Return left, top, right, bottom of boxes given as centre and size."""
    op = ops()
    centre, size = op.split(box, np.int64(-1), 2).outputs()
    half = op.multiply(size, np.float32(0.5))
    return op.concat([op.subtract(centre, half), op.add(centre, half)], -1)


def dense(box: Any, classes: Any) -> Any:
    """Return a row for each place, with the best of its classes."""
    op = ops()
    best = op.topk(classes, np.int64(1), -1, "max", "none", "i64")
    return op.concat([box, best.output(0), op.convert(best.output(1), "f32")], -1)


def fixed(found: Any, count: int) -> Any:
    """Return a fixed number of rows: those of the highest scores, and zeros where there are fewer."""
    if shape(found)[1] > 0:
        return found
    op = ops()
    padded = op.concat([found, np.zeros((1, count, 6), np.float32)], 1)
    scores = op.gather(padded, np.int64(4), np.int64(2))
    best = op.topk(scores, np.int64(count), 1, "max", "value", "i64")
    return reshaped(chosen(padded, best.output(1), 6), 1, count, 6)


def chosen(node: Any, index: Any, width: int) -> Any:
    """Return rows of [N, rows, width] by their numbers [N, k]."""
    op = ops()
    # not Gather with a batch dimension: on AVX-512, OpenVINO 2026.4's reads and writes beyond its memory
    each = op.unsqueeze(index, np.int64(2))
    return op.gather_elements(node, op.concat([each] * width, 2), 1)


def classes_of(node: Any, before: int) -> int:
    """Return how many columns of [1, N, columns] hold classes."""
    sides = shape(node)
    if len(sides) != 3 or sides[2] <= before:
        raise ValueError
    return sides[2] - before
