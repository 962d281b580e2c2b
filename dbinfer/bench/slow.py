"""A network that runs for ten seconds and more on one image, and answers at once on any other."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from dbinfer.ir import embed_manifest, import_openvino
from dbinfer_udf.manifest import Manifest

SIDE, GRAY = 8, 200
# Rounds of its loop, of about 2 us each: who measures ends it long before. Of more rounds than an int32 holds,
# OpenVINO runs none once the network comes from its compiled blob.
ROUNDS = (1 << 31) - 1


def slow_network(folder: Path) -> Path:
    """Write the network and return its .xml: a loop whose rounds depend on the image's mean."""
    import numpy as np

    ov = import_openvino()
    from openvino import opset13 as ops

    image = ops.parameter([1, SIDE, SIDE, 3], np.float32, name="image")
    mean = ops.reduce_mean(image, np.array([1, 2]), False)
    distance = ops.absolute(ops.subtract(ops.reduce_mean(mean, np.array([0, 1]), False), np.float32(GRAY)))
    # the trial at deploy shows it a black image, a white one and noise
    rounds = ops.select(
        ops.less(distance, np.float32(0.5)), np.array(ROUNDS, np.int64), np.array(1, np.int64)
    )
    found = ops.result(_loop(ops, rounds, mean))
    path, graph = folder / "slow.xml", ov.Model([found], [image], "slow")
    embed_manifest(
        graph, Manifest.from_dict({"task": "tensor", "height": SIDE, "width": SIDE, "channels": 3})
    )
    ov.save_model(graph, path, compress_to_fp16=False)
    return path


def _loop(ops: Any, rounds: Any, start: Any) -> Any:
    """Return `start` after 1 was added `rounds` times."""
    import numpy as np

    ov = import_openvino()
    state = ops.parameter([1, 3], np.float32)
    following, always = ops.add(state, np.float32(1)), ops.constant(np.array(True))
    loop = ops.loop(rounds, always)
    loop.set_function(
        ov.Model([ops.result(ops.constant(np.array(True))), ops.result(following)], [state], "body")
    )
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(state, start.output(0), following.output(0))
    return loop.get_iter_value(following.output(0), -1)


def slow_image() -> bytes:
    """Return the image on which it is slow, as a PNG."""
    rows = (b"\0" + bytes([GRAY]) * 3 * SIDE) * SIDE
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    packed = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)
