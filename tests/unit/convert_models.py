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
