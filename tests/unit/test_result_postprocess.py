"""Array literals, scores and vectors: exact, stable, and the same for ties, NaN and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dbinfer_udf.errors import ModelError, UsageError
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.result.vectors import (
    best,
    float_array_literal,
    l2_normalize,
    reaching,
    scores,
    sigmoid,
    tensor_bytes,
    top,
)


def values_of(literal: str) -> np.ndarray:
    """Read a real[] literal as PostgreSQL does: each word on its own, rounded to float32."""
    assert literal[0] == "{"
    assert literal[-1] == "}"
    return np.array([np.float32(word) for word in literal[1:-1].split(",")], np.float32)


def test_literal_reads_back_exactly() -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 20000, np.uint32).view(np.float32)
    values = bits[np.isfinite(bits)]
    assert values.size > 19000
    assert np.array_equal(values_of(float_array_literal(values)).view(np.uint32), values.view(np.uint32))


def test_literal_of_edge_values() -> None:
    info = np.finfo(np.float32)
    values = np.array([0, -0.0, 1, 0.1, info.max, info.min, info.tiny, 1e-45], np.float32)
    assert np.array_equal(values_of(float_array_literal(values)).view(np.uint32), values.view(np.uint32))


def test_literal_text() -> None:
    assert float_array_literal(np.array([[0.25, 1.0]], np.float32)) == "{0.25,1.0}"
    assert float_array_literal(np.array([], np.float32)) == "{}"


def test_literal_of_nan_and_infinity() -> None:
    values = np.array([np.nan, 0.1, np.inf, -np.inf, 3e-30], np.float32)
    text = float_array_literal(values)
    words = text[1:-1].split(",")
    assert [words[0], words[2], words[3]] == ["NaN", "Infinity", "-Infinity"]
    assert np.array_equal(values_of(text), values, equal_nan=True)


def test_literal_flattens_row_major_whatever_the_memory_layout() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert float_array_literal(np.asfortranarray(values)) == float_array_literal(values)
    assert float_array_literal(values.T) == "{0.0,3.0,1.0,4.0,2.0,5.0}"


def test_tensor_bytes() -> None:
    values = np.array([[1.5, -2.0]], np.float32)
    assert tensor_bytes(values) == b"\0\0\xc0\x3f\0\0\0\xc0"
    assert tensor_bytes(values.astype(">f4")) == tensor_bytes(values)


def test_softmax() -> None:
    got = scores(np.array([[1000, 1001, -1000]], np.float32), "softmax")
    assert got.shape == (3,)
    assert np.allclose(got, [1 / (1 + np.e), np.e / (1 + np.e), 0])


def test_sigmoid_without_overflow() -> None:
    with np.errstate(all="raise", under="ignore"):
        got = scores(np.array([-1000, -1, 0, 1, 1000], np.float32), "sigmoid")
    assert np.allclose(got, [0, 1 / (1 + np.e), 0.5, np.e / (1 + np.e), 1])
    assert got.dtype == np.float32


def test_scores_without_activation_are_the_output() -> None:
    output = np.array([[[0.2, 0.8]]], np.float32)
    assert np.array_equal(scores(output, "none"), output.ravel())


@pytest.mark.parametrize(("activation", "value", "second"), [("none", 0.25, 0.25), ("sigmoid", 0.0, 0.5)])
def test_one_probability_for_two_classes(activation, value, second) -> None:
    got = scores(np.array([[value]], np.float32), activation, classes=2)
    assert got.tolist() == [1 - second, second]
    assert scores(np.array([[value]], np.float32), activation, classes=1).size == 1


def test_best() -> None:
    assert best(np.array([0.5, 2.5, 2.5, -1], np.float32)) == (1, 2.5)
    assert best(np.array([-3], np.float32)) == (0, -3)
    assert [type(x) for x in best(np.array([1, 2], np.float32))] == [int, float]


def test_top_is_best_first_with_ties_in_order() -> None:
    values = np.array([1, 3, 2, 3, 1, 3], np.float32)
    assert top(values, 1) == [(1, 3)]
    assert top(values, 2) == [(1, 3), (3, 3)]
    assert top(values, 5) == [(1, 3), (3, 3), (5, 3), (2, 2), (0, 1)]
    assert top(values, 99) == [*top(values, 5), (4, 1)]


def test_top_of_many_equals_a_full_stable_sort() -> None:
    rng = np.random.default_rng(5)
    for size in (2, 10, 1000):
        values = rng.integers(0, size // 2 + 1, size).astype(np.float32)
        order = sorted(range(size), key=lambda i: (-values[i], i))
        for k in (1, size // 2, size - 1, size):
            assert [c for c, _ in top(values, k)] == order[:k]
    assert top(values, 3)[0] == best(values)


def test_top_puts_nan_last() -> None:
    values = np.array([np.nan, 1, np.nan, 2], np.float32)
    assert [c for c, _ in top(values, 3)] == [3, 1, 0]
    assert [c for c, _ in top(values, 2)] == [3, 1]
    assert len(top(np.full(5, np.nan, np.float32), 2)) == 2


def test_reaching_is_best_first_with_ties_in_order() -> None:
    values = np.array([0.7, np.nan, 0.9, 0.2, 0.9], np.float32)

    def reached(**keys: Any) -> list[int]:
        return [c for c, _ in reaching(values, Manifest("classification", 8, 8, **keys))]

    assert reached() == [2, 4, 0]
    # a float32 that is shown as 0.7 reaches 0.7
    assert reached(threshold=0.7) == [2, 4, 0]
    assert reached(threshold=0.71) == [2, 4]
    assert reached(threshold=2.0) == []
    assert reached(thresholds=(0.8, 0.0, 0.95, 0.1, 0.9)) == [4, 3]
    with pytest.raises(ModelError, match="the model has 5 classes, but its manifest 2 thresholds"):
        reached(thresholds=(0.5, 0.5))


@pytest.mark.parametrize("k", [0, -1, None])
def test_top_of_nothing_is_a_usage_error(k) -> None:
    with pytest.raises(
        UsageError, match=f"k is {'NULL' if k is None else k}, but must be at least 1"
    ) as caught:
        top(np.zeros(3, np.float32), k)
    assert caught.value.sqlstate == "22023"


def test_l2_normalize() -> None:
    assert np.allclose(l2_normalize(np.array([[3, 4]], np.float32)), [0.6, 0.8])
    assert l2_normalize(np.zeros((1, 4), np.float32)).tolist() == [0, 0, 0, 0]
    assert l2_normalize(np.array([3, 4], np.float32)).dtype == np.float32


def test_sigmoid_keeps_the_shape() -> None:
    assert sigmoid(np.zeros((2, 3), np.float32)).tolist() == [[0.5] * 3] * 2
