"""ONNX files with the published heads of YOLO's networks that find masks or keypoints, with random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIDE = 96
CLASSES = {"segment": 3, "pose": 1}
POINTS, DEPTH = 5, 32
NAMES = {"segment": "{0: 'cat', 1: 'dog', 2: 'rat'}", "pose": "{0: 'person'}"}


def save(path: Path, kind: str) -> Path:
    """Write a network: features of each cell by a convolution, then the heads' last layers and decoding.

    output0 is [1, 4 + classes + DEPTH, N] with output1 [1, DEPTH, SIDE / 4, SIDE / 4], or [1, 4 + 1 + 3 POINTS, N].
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(3)
    classes = CLASSES[kind]
    more = DEPTH if kind == "segment" else 3 * POINTS
    weights = {
        "sides_w": random.normal(0, 6, (2, 3)), "scores_w": random.normal(0, 6, (classes, 3)),
        "scores_b": random.normal(-1, 0.5, (1, classes, 1)), "more_w": random.normal(0, 3, (more, 3)),
        "half": np.array(0.5), "flat": np.array([0, 3, -1], np.int64), "offset": np.full((1, 3, 1), 0.5),
    }  # fmt: skip
    nodes, cells, centres, strides = [], [], [], []
    for stride in (8, 16, 32):
        window = {"kernel_shape": [stride, stride], "strides": [stride, stride]}
        nodes += [
            helper.make_node("AveragePool", ["images"], [f"pool{stride}"], **window),
            helper.make_node("Reshape", [f"pool{stride}", "flat"], [f"cells{stride}"]),
        ]
        cells.append(f"cells{stride}")
        y, x = np.mgrid[: SIDE // stride, : SIDE // stride]
        centres.append(np.stack([x.ravel(), y.ravel()]) * stride + stride / 2)
        strides.append(np.full((1, x.size), float(stride)))
    weights["centres"], weights["strides"] = (
        np.concatenate(centres, 1)[None],
        np.concatenate(strides, 1)[None],
    )

    def node(kind: str, inputs: list[str], output: str, **values: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **values))
        return output

    node("Sub", [node("Concat", cells, "all", axis=2), "offset"], "seen")
    # sizes of one to five strides around each cell's middle
    node("Exp", [node("MatMul", ["sides_w", "seen"], "sides")], "grown")
    node("Mul", [node("Add", ["grown", "half"], "large"), "strides"], "size")
    node("Mul", ["size", "half"], "some")
    node(
        "Sigmoid",
        [node("Add", [node("MatMul", ["scores_w", "seen"], "raw"), "scores_b"], "logits")],
        "scores",
    )
    node("MatMul", ["more_w", "seen"], "more")
    outputs = [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, None, None])]
    if kind == "segment":
        weights["prototypes_w"] = random.normal(0, 3, (DEPTH, 3, 4, 4))
        weights["centre"] = np.full((1, 3, 1, 1), 0.5)
        shifted = node("Sub", ["images", "centre"], "shifted")
        node("Conv", [shifted, "prototypes_w"], "output1", kernel_shape=[4, 4], strides=[4, 4])
        outputs.append(helper.make_tensor_value_info("output1", TensorProto.FLOAT, [1, DEPTH, None, None]))
        rest = ["more"]
    else:
        # x and y within two strides of the middle, and a score: in turn for each point
        weights.update(threes=np.array([1, POINTS, 3, -1], np.int64), back=np.array([1, 3 * POINTS, -1], np.int64),
                       two=np.array([2, 1], np.int64), middles=weights["centres"][:, None],
                       steps=weights["strides"][:, None])  # fmt: skip
        node("Reshape", ["more", "threes"], "points")
        nodes.append(helper.make_node("Split", ["points", "two"], ["places", "seens"], axis=2))
        node("Add", [node("Mul", ["places", "steps"], "far"), "middles"], "at")
        node("Concat", ["at", node("Sigmoid", ["seens"], "sure")], "joined", axis=2)
        rest = [node("Reshape", ["joined", "back"], "keypoints")]
    node("Concat", ["centres", "size", "scores", *rest], "output0", axis=1)
    initial = [
        numpy_helper.from_array(value if value.dtype == np.int64 else value.astype(np.float32), name)
        for name, value in weights.items()
    ]
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, (1, 3, SIDE, SIDE))
    graph = helper.make_graph(nodes, "yolo", [image], outputs, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    said = {"author": "Ultralytics", "task": kind, "names": NAMES[kind], "imgsz": f"[{SIDE}, {SIDE}]"}
    if kind == "pose":
        said["kpt_shape"] = f"[{POINTS}, 3]"
    helper.set_model_props(model, said)
    onnx.save(model, path)
    return path
