"""Small generated models of every source format, for the tests of the conversion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SIZE = 16


def small_unet(channels: int = 3) -> Any:
    """Return a U-Net as if it had been trained: batch normalisation with statistics of its own."""
    import keras

    from dbinfer_models import NETWORKS

    keras.utils.set_random_seed(1)  # now and then the initial weights saturate the mask
    model = NETWORKS["unet"].build(size=SIZE, depth=2, base_width=2, channels=channels)
    random = np.random.default_rng(1)
    for layer in model.layers:
        if layer.name.rstrip("12").endswith("_bn"):
            shapes = [weight.shape for weight in layer.get_weights()]  # gamma, beta, mean, variance
            limits = ((0.5, 1.5), (-0.3, 0.3), (-0.2, 0.2), (0.3, 1.0))
            layer.set_weights(
                [random.uniform(*ends, shape) for ends, shape in zip(limits, shapes, strict=True)]
            )
    return model


def small_classifier(classes: int = 4, activation: str | None = "softmax") -> Any:
    """Return a Sequential model, (batch, 16, 16, 3) to (batch, classes)."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(classes, activation=activation),
        ]
    )


def save_as_keras2(model: Any, path: Path) -> Path:
    """Write `model` as Keras 2.13 wrote .h5: its own inbound_nodes, `groups` keys, `axis` as a list."""
    import h5py

    model.save(path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        for layer in config["config"]["layers"]:
            _keras2_layer(layer)
        for key in ("module", "registered_name", "build_config"):
            config.pop(key, None)
        for key in ("input_layers", "output_layers"):
            entry = config["config"][key]
            config["config"][key] = [entry] if isinstance(entry[0], str) else entry
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "2.13.1"
    return path


def _keras2_layer(layer: dict[str, Any]) -> None:
    for key in ("module", "registered_name", "build_config"):
        layer.pop(key, None)
    config = layer["config"]
    config["dtype"] = "float32"
    for key, value in config.items():
        if key.endswith(("_initializer", "_regularizer")) and isinstance(value, dict):
            config[key] = {name: value[name] for name in ("class_name", "config")}
    if layer["class_name"] == "InputLayer":
        config["batch_input_shape"] = config.pop("batch_shape")
        for key in ("optional", "ragged"):
            config.pop(key, None)
    if layer["class_name"] in ("Conv2D", "Conv2DTranspose"):
        config["groups"] = 1
    if layer["class_name"] == "BatchNormalization":
        config["axis"] = [3]
        for key in ("renorm", "virtual_batch_size", "synchronized"):
            config.pop(key, None)
    layer["inbound_nodes"] = [_keras2_node(node) for node in layer["inbound_nodes"]]


def _keras2_node(node: dict[str, Any]) -> list[Any]:
    tensors = node["args"][0]
    tensors = tensors if isinstance(tensors, list) else [tensors]
    return [[*tensor["config"]["keras_history"], {}] for tensor in tensors]


def save_frozen(model: Any, path: Path) -> Path:
    """Write `model` as a frozen TensorFlow 2 graph."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    entry = tf.TensorSpec((None, *model.input_shape[1:]), tf.float32, name="image")
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(entry)
    path.write_bytes(convert_variables_to_constants_v2(function).graph.as_graph_def().SerializeToString())
    return path


def save_frozen_tf1(path: Path) -> Path:
    """Write a classifier made with TensorFlow 1's own graph calls, weights as constants."""
    import tensorflow as tf

    random = np.random.default_rng(2)
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.float32, (None, SIZE, SIZE, 3), name="image")
        kernel = tf.constant(random.normal(0, 0.3, (3, 3, 3, 4)), tf.float32)
        x = tf.nn.relu(tf.nn.conv2d(image, kernel, strides=1, padding="SAME"))
        x = tf.matmul(tf.reduce_mean(x, axis=(1, 2)), tf.constant(random.normal(0, 1, (4, 3)), tf.float32))
        tf.nn.softmax(x, name="scores")
        path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def save_tflite(model: Any, path: Path) -> Path:
    """Write `model` as TFLite in float32."""
    import tensorflow as tf

    path.write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    return path


def save_onnx(path: Path, outputs: int = 1, inputs: int = 1, open_size: bool = False) -> Path:
    """Write an ONNX classifier with raw scores: NCHW (1, 3, 16, 16) to (1, 5)."""
    import onnx
    from onnx import helper, numpy_helper

    random = np.random.default_rng(3)
    weights = {
        "kernel": random.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32),
        "dense": random.normal(0, 1, (4, 5)).astype(np.float32),
    }
    image, total = "image", []
    if inputs == 2:
        total, image = [helper.make_node("Add", ["image", "other"], ["sum"])], "sum"
    nodes = [
        *total,
        helper.make_node("Conv", [image, "kernel"], ["features"]),
        helper.make_node("GlobalAveragePool", ["features"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "dense"], ["scores"]),
    ]
    side = None if open_size else SIZE
    graph = helper.make_graph(
        nodes,
        "classifier",
        [_onnx_value(name, (1, 3, side, side)) for name in ("image", "other")[:inputs]],
        [_onnx_value("scores", (1, 5)), _onnx_value("flat", (1, 4))][:outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def save_onnx_named(path: Path, names: tuple[str, str, str]) -> Path:
    """Write the ONNX classifier with the names that PyTorch gives: of a kernel, an operation, and the last weights."""
    import onnx

    model = onnx.load(save_onnx(path))
    for old, new in (("kernel", names[0]), ("dense", names[2])):
        for tensor in (tensor for tensor in model.graph.initializer if tensor.name == old):
            tensor.name = new
        for node in model.graph.node:
            node.input[:] = [new if name == old else name for name in node.input]
    model.graph.node[0].name = names[1]
    onnx.save(model, path)
    return path


def save_onnx_of_any_size(path: Path) -> Path:
    """Write an ONNX classifier as OCR packages export them: open height and width, opset 11, HardSigmoid.

    Its batch normalisation has the attribute `momentum`, with which onnx.reference computes as in training.
    """
    import onnx
    from onnx import helper, numpy_helper

    random = np.random.default_rng(6)
    weights = {
        "kernel": random.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32),
        "gamma": random.uniform(0.5, 1.5, 4).astype(np.float32),
        "beta": random.normal(0, 0.3, 4).astype(np.float32),
        "mean": random.normal(0, 0.3, 4).astype(np.float32),
        "variance": random.uniform(0.5, 1.5, 4).astype(np.float32),
        "dense": random.normal(0, 1, (4, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node(
            "Conv", ["image", "kernel"], ["features"], "conv", strides=[2, 2], pads=[1, 1, 1, 1]
        ),
        helper.make_node(
            "BatchNormalization",
            ["features", "gamma", "beta", "mean", "variance"],
            ["normal"],
            "norm",
            momentum=0.9,
        ),
        helper.make_node("HardSigmoid", ["normal"], ["gate"], "gate", alpha=0.2, beta=0.5),
        helper.make_node("Mul", ["normal", "gate"], ["swish"], "swish"),
        helper.make_node("GlobalAveragePool", ["swish"], ["pooled"], "pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", "dense"], ["raw"], "dense"),
        helper.make_node("Softmax", ["raw"], ["scores"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "open",
        [_onnx_value("image", (None, 3, None, None))],
        [_onnx_value("scores", (None, 5))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), path)
    return path


def save_yolo(
    path: Path,
    properties: dict[str, str] | None = None,
    side: int | None = 64,
    head: str = "v8",
    classes: int = 3,
) -> Path:
    """Write an ONNX file with YOLO's feature maps of 8, 16 and 32 pixels, and metadata_props as exporters do.

    Args:
        side: of the square input; None leaves it open, as `dynamic=True` does.
        head: v8 gives [1, 4 + classes, N], v5 [1, 3 N, 5 + classes], scores [1, classes] after softmax.
    """
    import onnx
    from onnx import helper, numpy_helper

    width = 5 + classes if head == "v5" else 4 + classes
    random = np.random.default_rng(5)
    weights = {
        "w": random.uniform(0, 10, (width, 3)).astype(np.float32),
        "dense": random.normal(0, 1, (3, classes)).astype(np.float32),
        "flat": np.array([0, 3, -1]),
    }
    nodes, maps = [], []
    for stride in (8, 16, 32):
        sides = {"kernel_shape": [stride, stride], "strides": [stride, stride]}
        nodes.append(helper.make_node("AveragePool", ["images"], [f"pool{stride}"], **sides))
        nodes.append(helper.make_node("Reshape", [f"pool{stride}", "flat"], [f"cells{stride}"]))
        maps += [f"cells{stride}"] * (3 if head == "v5" else 1)
    nodes.append(helper.make_node("Concat", maps, ["cells"], axis=2))
    if head == "scores":
        nodes.append(helper.make_node("ReduceMean", ["cells"], ["mean"], axes=[2], keepdims=0))
        nodes.append(helper.make_node("MatMul", ["mean", "dense"], ["raw"]))
        nodes.append(helper.make_node("Softmax", ["raw"], ["output0"], axis=1))
        shape: tuple[int | None, ...] = (1, classes)
    else:
        nodes.append(helper.make_node("MatMul", ["w", "cells"], ["found"]))
        turn = {"v5": [0, 2, 1], "v8": [0, 1, 2]}[head]
        nodes.append(helper.make_node("Transpose", ["found"], ["output0"], perm=turn))
        shape = (1, None, width) if head == "v5" else (1, width, None)
    graph = helper.make_graph(
        nodes,
        "yolo",
        [_onnx_value("images", (1, 3, side, side))],
        [_onnx_value("output0", shape)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    for key, value in (properties or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    return path


def described_tflite(plain: Path, path: Path, metadata: bytes = b"", custom: str = "") -> Path:
    """Write a TFLite file again with a TFLITE_METADATA buffer; `custom` renames its first operation to nobody's."""
    from tensorflow.lite.python import schema_py_generated as schema

    made = schema.ModelT.InitFromPackedBuf(bytearray(plain.read_bytes()))
    if metadata:
        buffer, entry = schema.BufferT(), schema.MetadataT()
        buffer.data, entry.name, entry.buffer = list(metadata), "TFLITE_METADATA", len(made.buffers)
        made.buffers.append(buffer)
        made.metadata = [*(made.metadata or []), entry]
    if custom:
        code = made.operatorCodes[made.subgraphs[0].operators[0].opcodeIndex]
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = custom
    import flatbuffers

    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def tflite_metadata(mean: tuple[float, ...], std: tuple[float, ...], labels: str = "") -> bytes:
    """Return TFLite metadata of an RGB image with mean and deviation, and of an output with a file of labels."""
    import flatbuffers

    b = flatbuffers.Builder()

    def vector(items: list[int]) -> int:
        b.StartVector(4, len(items), 4)
        for item in reversed(items):
            b.PrependUOffsetTRelative(item)
        return int(b.EndVector())

    def floats(numbers: tuple[float, ...]) -> int:
        b.StartVector(4, len(numbers), 4)
        for number in reversed(numbers):
            b.PrependFloat32(number)
        return int(b.EndVector())

    def table(fields: dict[int, Any]) -> int:
        b.StartObject(8)
        for number, (kind, value) in fields.items():
            getattr(b, f"Prepend{kind}Slot")(number, value, 0)
        return int(b.EndObject())

    def offset(value: int) -> tuple[str, int]:
        return "UOffsetTRelative", value

    options = table({0: offset(floats(mean)), 1: offset(floats(std))})
    unit = table({0: ("Uint8", 1), 1: offset(options)})
    content = table({0: ("Uint8", 2), 1: offset(table({0: ("Int8", 1)}))})
    image = table({3: offset(content), 4: offset(vector([unit]))})
    file = table({0: offset(b.CreateString(labels)), 2: ("Int8", 2)})
    output = table({6: offset(vector([file] if labels else []))})
    graph = table({2: offset(vector([image])), 3: offset(vector([output]))})
    b.Finish(table({3: offset(vector([graph]))}), b"M001")
    return bytes(b.Output())


def _onnx_value(name: str, shape: tuple[int | None, ...]) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def run_ir(path: Path, x: Any) -> Any:
    """Return what the IR gives for `x`, computed in float32."""
    import openvino

    return openvino.compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]


def images(count: int = 2, channels: int = 3) -> Any:
    """Return random images of 0..1, (count, 16, 16, channels)."""
    return np.random.default_rng(4).random((count, SIZE, SIZE, channels), dtype=np.float32)
