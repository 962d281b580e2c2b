"""Models that cost something to send, to keep, or to run, and whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tiny_models


def wide_model(folder: Path, megabytes: int, name: str = "wide", number: float = 1.0) -> Path:
    """Write a model with that many MB of weights, several parts in the registry, that answers `number` thrice."""
    count = megabytes * (1 << 20) // 12

    def head(ops: Any, image: Any) -> Any:
        weights = np.random.default_rng(0).random((3, count), np.float32)
        nothing = ops.multiply(ops.reduce_mean(image, np.array([1, 2]), False), np.zeros(3, np.float32))
        spread = ops.matmul(nothing, weights, False, False)
        none = ops.reduce_mean(spread, np.array([1]), True)
        return ops.add(none, np.full(3, number, np.float32))

    return tiny_models._write(tiny_models._graph(head), folder, name, tiny_models.manifest("tensor"))


def slow_model(folder: Path, trips: int, name: str = "slow", number: float = 5.0) -> Path:
    """Write a model that works in a loop for `trips` rounds and answers `number` three times."""

    def head(ops: Any, image: Any) -> Any:
        import openvino as ov
        from openvino import opset13

        state = opset13.parameter([1, 256], np.float32)
        matrix = np.eye(256, dtype=np.float32)
        body = ov.Model(
            [opset13.matmul(state, matrix, False, False), opset13.constant(True)], [state], "body"
        )
        loop = opset13.loop(opset13.constant(np.int64(trips)), opset13.constant(True))
        loop.set_function(body)
        loop.set_special_body_ports([-1, 1])
        start = opset13.multiply(
            opset13.broadcast(opset13.reduce_mean(image, np.array([1, 2, 3]), False), np.array([1, 256])),
            np.float32(0),
        )
        loop.set_merged_input(state, start.output(0), body.results[0].output(0))
        out = loop.get_iter_value(body.results[0].output(0), -1)
        none = opset13.reduce_mean(out, np.array([1]), True)
        return opset13.add(none, np.full(3, number, np.float32))

    return tiny_models._write(tiny_models._graph(head), folder, name, tiny_models.manifest("tensor"))


def weighty_model(folder: Path, megabytes: int, name: str = "weighty") -> Path:
    """Write a model whose answer, 2, depends on all its weights: 1 2 3 4 ... would not add up if one were lost."""
    count = megabytes * (1 << 20) // 12

    def head(ops: Any, image: Any) -> Any:
        weights = (
            np.full((count, 3), 2 / count, np.float32)
            * np.linspace(0.5, 1.5, count, dtype=np.float32)[:, None]
        )
        ones = ops.add(
            ops.multiply(ops.reduce_mean(image, np.array([1, 2, 3]), False), np.float32(0)), np.float32(1)
        )
        spread = ops.broadcast(ops.unsqueeze(ones, np.array([1])), np.array([1, count]))
        return ops.round(ops.matmul(spread, weights, False, False), "half_to_even")

    return tiny_models._write(tiny_models._graph(head), folder, name, tiny_models.manifest("tensor"))


def deep_model(folder: Path, layers: int, name: str = "deep", number: float = 2.0) -> Path:
    """Write a model of so many convolutions of 9 MB each; ResNet-50 is as large as 11. It answers `number` thrice."""
    random = np.random.default_rng(0)

    def kernel(channels: int) -> Any:
        return (random.standard_normal((512, channels, 3, 3)) * 0.02).astype(np.float32)

    def head(ops: Any, image: Any) -> Any:
        x, channels = ops.transpose(image, np.array([0, 3, 1, 2])), 3
        for _ in range(layers + 1):
            x = ops.relu(ops.convolution(x, kernel(channels), [1, 1], [1, 1], [1, 1], [1, 1]))
            channels = 512
        none = ops.multiply(ops.reduce_mean(x, np.array([1, 2, 3]), False), np.float32(0))
        return ops.add(ops.unsqueeze(none, np.array([1])), np.full(3, number, np.float32))

    return tiny_models._write(tiny_models._graph(head), folder, name, tiny_models.manifest("tensor"))
