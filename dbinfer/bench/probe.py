"""A second's look at how fast a machine is: it decodes a photograph and runs a network that is made on the spot."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dbinfer import samples
from dbinfer.ir import import_openvino

SIDE, CHANNELS, LAYERS = 56, 64, 6
SECONDS = 0.5
SIZE = (500, 375)


def probe() -> dict[str, float]:
    """Return the seconds of decoding a photograph and of the network, with one thread, when nothing disturbs them."""
    from dbinfer_udf.image import decode

    (photograph,) = samples.photograph_files(SIZE, 1)
    return {"decode": _least(lambda: decode(photograph)), "infer": _least(_network().infer)}


def _least(run: Callable[[], Any]) -> float:
    """Return the least of many calls: other programs make some slower and none faster."""
    run()
    taken: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until or not taken:
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)


def _network() -> Any:
    """Return a request of a few convolutions, the work of most networks for images."""
    import numpy as np

    ov = import_openvino()
    from openvino import opset13 as ops

    random = np.random.default_rng(0)
    image = ops.parameter([1, CHANNELS, SIDE, SIDE], np.float32)
    last = image
    for _ in range(LAYERS):
        weights = random.normal(0, 0.05, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        last = ops.relu(ops.convolution(last, ops.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1]))
    hints = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    graph = ov.Model([ops.result(last)], [image], "probe")
    return ov.Core().compile_model(graph, "CPU", hints).create_infer_request()
