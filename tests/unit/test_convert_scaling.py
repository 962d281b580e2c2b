"""A network that scales pixels itself, and one whose file says its loss, need no options for that."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_models import SIZE, save_onnx, small_classifier
from variants import wide

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import tensorflow
from dbinfer.convert import ConvertOptions, ConvertReport
from dbinfer.convert.conversion import convert_here as convert

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[convert]", allow_module_level=True)
tensorflow()


def _before(prepare: Callable[[Any], Any]) -> Any:
    """Return a classifier with something before its first layer."""
    import keras
    from keras import layers

    image = keras.Input((SIZE, SIZE, 3))
    x = prepare(image)
    for layer in (layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(5, activation="softmax")):
        x = layer(x)
    return keras.Model(image, x)


def _converted(model: Any, source: Path, **values: Any) -> ConvertReport:
    model.save(source)
    return convert(source, source.with_suffix(".xml"), ConvertOptions(values=values))


def _preparations() -> dict[str, Callable[[Any], Any]]:
    import keras
    from keras import layers

    statistics = {"mean": [100, 110, 120], "variance": [2500, 2600, 2700]}
    return {
        "rescaling to 0..1": layers.Rescaling(1 / 255),
        "rescaling to -1..1": layers.Rescaling(1 / 127.5, offset=-1),
        "normalization": layers.Normalization(**statistics),
        "a division": lambda x: x / 255.0,
        "Keras' own, of MobileNetV2": keras.applications.mobilenet_v2.preprocess_input,
        "Keras' own, of ResNet": keras.applications.resnet.preprocess_input,
        "Keras' own, of DenseNet": keras.applications.densenet.preprocess_input,
        "nested, behind augmentation and a resize": keras.Sequential(
            [layers.RandomFlip(), layers.Resizing(24, 24), keras.Sequential([layers.Rescaling(1 / 255)])]
        ),
    }


@pytest.mark.parametrize("which", [slice(1), *wide(slice(1, None))], ids=["the plainest", "the others"])
def test_what_brings_pixels_into_range_is_seen(tmp_path: Path, which: slice) -> None:
    for number, (name, prepare) in enumerate([*_preparations().items()][which]):
        report = _converted(_before(prepare), tmp_path / f"{number}.keras")
        assert report.scaled_inside, name
        assert (report.manifest.mean, report.manifest.scale, report.manifest.color) == ((), (1.0,), "RGB"), (
            name
        )
        assert "scale" in report.assumed, name


@pytest.mark.wide
def test_what_takes_another_range_is_asked_for(tmp_path: Path) -> None:
    import keras
    from keras import layers

    of_shares = layers.Normalization(mean=[0.48, 0.46, 0.41], variance=[0.052, 0.05, 0.051])
    preparations: tuple[Callable[[Any], Any], ...] = (
        lambda x: x,
        layers.Rescaling(255.0),  # of 0..1
        layers.Rescaling(2.0, offset=-1),
        of_shares,
        lambda x: keras.ops.concatenate([layers.Conv2D(2, 3, padding="same")(x), x / 255.0], -1),
    )
    for number, prepare in enumerate(preparations):
        with pytest.raises(ConvertError, match="does not say how pixels become its input"):
            _converted(_before(prepare), tmp_path / f"{number}.keras")


@pytest.mark.wide
def test_scaling_twice_is_seen(tmp_path: Path) -> None:
    from keras import layers

    report = _converted(_before(layers.Rescaling(1 / 255)), tmp_path / "net.keras", scale=[255.0])
    assert (report.scaled_inside, report.manifest.scale) == (True, (255.0,))


@pytest.mark.wide
def test_other_formats_too(tmp_path: Path) -> None:
    import onnx
    from keras import layers
    from onnx import helper, numpy_helper

    model = _before(layers.Rescaling(1 / 127.5, offset=-1))
    model.export(tmp_path / "saved", verbose=False)
    assert convert(tmp_path / "saved", tmp_path / "saved.xml").scaled_inside

    network = onnx.load(save_onnx(tmp_path / "net.onnx"))
    mean = np.array([123.675, 116.28, 103.53], np.float32).reshape(1, 3, 1, 1)
    deviation = np.array([58.395, 57.12, 57.375], np.float32).reshape(1, 3, 1, 1)
    network.graph.initializer.extend(
        [numpy_helper.from_array(mean, "mean"), numpy_helper.from_array(deviation, "deviation")]
    )
    network.graph.node[0].input[0] = "pixels"
    network.graph.node.insert(0, helper.make_node("Div", ["centred", "deviation"], ["pixels"]))
    network.graph.node.insert(0, helper.make_node("Sub", ["image", "mean"], ["centred"]))
    onnx.save(network, tmp_path / "net.onnx")
    values = {"task": "classification", "activation": "softmax"}
    report = convert(tmp_path / "net.onnx", tmp_path / "net.xml", ConvertOptions(values=values))
    assert report.scaled_inside


@pytest.mark.wide
def test_transfer_learning_with_preprocessing_in_the_network(tmp_path: Path) -> None:
    """The guide of Keras: augmentation, preprocess_input, the published network, and a head of one's own."""
    import keras
    from keras import layers

    applications = keras.applications.mobilenet_v2
    base = applications.MobileNetV2(weights=None, include_top=False, input_shape=(32, 32, 3), alpha=0.35)
    image = keras.Input((32, 32, 3))
    x = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.2)])(image)
    x = base(applications.preprocess_input(x), training=False)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    report = _converted(keras.Model(image, layers.Dense(1)(x)), tmp_path / "net.keras")
    assert report.known == "MobileNetV2 of Keras Applications"
    manifest = report.manifest
    assert (manifest.task, manifest.activation) == ("classification", "sigmoid")
    assert (manifest.mean, manifest.scale, report.scaled_inside) == ((), (1.0,), True)
    assert report.left_out == ("Dropout", "RandomFlip", "RandomRotation")


@pytest.mark.parametrize(
    ("ending", "which"), [("keras", slice(1)), *wide(("keras", slice(1, None)), ("h5", slice(None)))]
)
def test_the_loss_says_what_the_result_is(tmp_path: Path, ending: str, which: slice) -> None:
    import keras

    losses = keras.losses
    cases: tuple[tuple[Any, int, str | None, str], ...] = (
        (losses.SparseCategoricalCrossentropy(from_logits=True), 4, None, "softmax"),
        ("categorical_crossentropy", 4, "softmax", "none"),
        (losses.BinaryCrossentropy(from_logits=True), 1, None, "sigmoid"),
        (losses.BinaryCrossentropy(), 4, "sigmoid", "none"),
    )
    for number, (loss, classes, activation, expected) in enumerate(cases[which]):
        model = small_classifier(classes, activation)
        model.compile(loss=loss)
        report = _converted(model, tmp_path / f"{number}.{ending}", scale=[255.0])
        assert (report.manifest.task, report.manifest.activation) == ("classification", expected)
        assert report.told.startswith("its loss, ")
        assert "task" not in report.assumed


@pytest.mark.wide
def test_another_loss_says_nothing(tmp_path: Path) -> None:
    model = small_classifier(activation=None)
    model.compile(loss="mse")
    with pytest.raises(ConvertError, match="does not say its task and its activation"):
        _converted(model, tmp_path / "net.keras", scale=[255.0])


@pytest.mark.wide
def test_two_labels_for_one_output(tmp_path: Path) -> None:
    model = small_classifier(1, "sigmoid")
    values = {"scale": [255.0], "task": "classification", "labels": ["no", "yes"]}
    assert _converted(model, tmp_path / "net.keras", **values).manifest.labels == ("no", "yes")
