"""Known networks convert without options: the manifest does to pixels what their authors' own function does."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from convert_models import save_onnx_named
from float32 import tolerance
from variants import wide

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import tensorflow
from dbinfer.convert import ConvertOptions
from dbinfer.convert.conversion import convert_here as convert
from dbinfer.convert.known import known_keras
from dbinfer.convert.manifest import make_manifest
from dbinfer.convert.source import Source
from dbinfer.models.graph import GraphInfo
from dbinfer.models.ir import import_openvino
from dbinfer_udf.manifest import Manifest

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[convert]", allow_module_level=True)
tensorflow()

# The module of keras.applications, the network, and the size that it takes
NETWORKS = (
    ("resnet50", "ResNet50", 224),
    ("mobilenet_v2", "MobileNetV2", 224),
    ("resnet_v2", "ResNet50V2", 224),
    ("vgg16", "VGG16", 224),
    ("vgg19", "VGG19", 224),
    ("xception", "Xception", 299),
    ("mobilenet", "MobileNet", 224),
    ("mobilenet_v3", "MobileNetV3Small", 224),
    ("densenet", "DenseNet121", 224),
    ("inception_v3", "InceptionV3", 299),
    ("inception_resnet_v2", "InceptionResNetV2", 299),
    ("nasnet", "NASNetMobile", 224),
    ("efficientnet", "EfficientNetB0", 224),
    ("efficientnet_v2", "EfficientNetV2B0", 224),
    ("efficientnet_v2", "EfficientNetV2S", 384),
    ("convnext", "ConvNeXtTiny", 224),
)
RAW = ConvertOptions()


def _manifest(model: Any, options: ConvertOptions = RAW, activation: str = "softmax") -> Manifest:
    """Return what convert would write for a model, without the minutes that converting large ones takes."""
    shape = [size or -1 for size in model.output_shape]
    height, width, channels = model.input_shape[1:]
    info = GraphInfo("NHWC", height, width, channels, "f32", tuple(shape), activation)
    source = Source(None, model.name, known=known_keras(model), as_read=_graph)
    return make_manifest(Path("net.keras"), source, info, options)[0]


def _graph() -> Any:
    """Return a graph that does nothing to pixels."""
    openvino = import_openvino()
    from openvino import opset13

    image = opset13.parameter([1, 8, 8, 3], np.float32)
    return openvino.Model([opset13.result(image)], [image])


def _prepared(manifest: Manifest, rgb: Any) -> Any:
    pixels = rgb[..., ::-1] if manifest.color == "BGR" else rgb
    return (pixels - np.array(manifest.mean or 0.0)) / np.array(manifest.scale)


def _build(name: str, **options: Any) -> Any:
    import keras

    keras.backend.clear_session()
    return getattr(keras.applications, name)(weights=None, **options)


@pytest.mark.parametrize(("module", "name", "size"), [NETWORKS[0], *wide(*NETWORKS[1:])])
def test_pixels_become_what_preprocess_input_makes_of_them(module: str, name: str, size: int) -> None:
    import keras

    small = {"input_shape": (size, size, 3), "classes": 7} if module.startswith("vgg") else {}
    model = _build(name, **small)
    manifest = _manifest(model)
    assert (manifest.task, manifest.height, manifest.width) == ("classification", size, size)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 9, 9, 3)).astype(np.float32)
    expected = getattr(keras.applications, module).preprocess_input(pixels.copy())
    assert np.abs(_prepared(manifest, pixels) - expected).max() <= tolerance(255.0, 4)  # two roundings each


@pytest.mark.wide
def test_resnet_without_options(tmp_path: Path) -> None:
    _build("ResNet50", input_shape=(32, 32, 3), classes=7).save(tmp_path / "any.keras")
    report = convert(tmp_path / "any.keras", tmp_path / "any.xml")
    assert report.known == "ResNet of Keras Applications"
    assert report.assumed == ("color", "mean", "precision", "resize", "scale", "task")
    assert (report.manifest.color, report.manifest.name) == ("BGR", "any")
    assert report.check.done


@pytest.mark.wide
def test_what_is_built_upon_a_network_is_recognised() -> None:
    import keras

    base = _build("MobileNetV2", input_shape=(96, 96, 3), alpha=0.35, include_top=False)
    image = keras.Input((96, 96, 3))
    features = keras.layers.GlobalAveragePooling2D()(base(keras.layers.RandomFlip()(image)))
    scores = keras.layers.Dense(4, activation="softmax")(features)
    nested, flat = keras.Model(image, scores), keras.Model(base.input, base.output, name="renamed")
    assert _manifest(nested).mean == (127.5,)
    known = known_keras(flat)
    assert known is not None
    assert known.network == "MobileNetV2 of Keras Applications"
    manifest = _manifest(keras.Model(image, features), activation="")
    assert (manifest.task, manifest.activation) == ("embedding", "none")


@pytest.mark.parametrize("layer", ["Rescaling", *wide("division")])
def test_preprocessing_of_ones_own_is_not_doubled(layer: str) -> None:
    import keras

    base = _build("MobileNetV2", input_shape=(96, 96, 3), alpha=0.35)
    image = keras.Input((96, 96, 3))
    before = keras.layers.Rescaling(1 / 127.5, -1.0)(image) if layer == "Rescaling" else image / 127.5 - 1.0
    model = keras.Model(image, base(before))
    known = known_keras(model)
    assert known is not None
    assert not {"color", "mean", "scale"} & known.pixels.keys()
    with pytest.raises(ConvertError, match="how pixels become its input"):
        _manifest(model)


@pytest.mark.wide
def test_what_is_stated_wins_and_is_not_mixed() -> None:
    model = _build("ResNet50", input_shape=(32, 32, 3), classes=7)
    manifest = _manifest(model, ConvertOptions(values={"scale": [255.0], "resize": "crop"}))
    assert (manifest.color, manifest.mean, manifest.scale) == ("RGB", (), (255.0,))
    assert manifest.resize == "crop"


@pytest.mark.wide
def test_zoo_network_with_layers_of_the_same_names_is_none() -> None:
    from dbinfer_models import NETWORKS

    assert known_keras(NETWORKS["vgg19bn_cifar"].build()) is None
    assert known_keras(SimpleNamespace(layers=[])) is None


@pytest.mark.wide
def test_labels_that_keras_has_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _build("MobileNetV2", input_shape=(32, 32, 3), alpha=0.35)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert _manifest(model).labels == ()
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / "imagenet_class_index.json"
    file.write_text(json.dumps({str(n): [f"n{n}", f"thing {n}"] for n in range(1000)}))
    assert _manifest(model).labels[999] == "thing 999"
    file.write_text("{")
    assert _manifest(model).labels == ()


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (("layer1.0.conv1.weight", "/layer4/layer4.1/conv2/Conv", "fc.weight"), "ResNet"),
        *wide(
            (("/features/features.1/conv/conv.0/Conv", "features.18.0.weight", "classifier.1.weight"), "MobileNetV2"),
            (("features.0.weight", "/features/features.10/Conv", "classifier.6.weight"), "VGG or AlexNet"),
        ),
    ],
)  # fmt: skip
@pytest.mark.wide
def test_exports_of_torchvision(tmp_path: Path, names: tuple[str, ...], known: str) -> None:
    source = save_onnx_named(tmp_path / "net.onnx", names)
    report = convert(source, tmp_path / "net.xml")
    assert report.known == f"{known} of torchvision"
    manifest = report.manifest
    assert (manifest.task, manifest.activation, manifest.resize) == ("classification", "softmax", "crop")
    pixels = np.array([[[[0.0, 128.0, 255.0]]]])
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (pixels / 255 - mean) / deviation
    # mean and deviation in grey levels, rounded to float32, then a difference and a quotient
    assert np.abs(_prepared(manifest, pixels) - expected).max() <= tolerance(expected, 4)


def test_export_of_an_unknown_network_is_asked_for(tmp_path: Path) -> None:
    source = save_onnx_named(tmp_path / "net.onnx", ("body.0.weight", "/body/Conv", "fc.weight"))
    with pytest.raises(ConvertError, match="does not say its task"):
        convert(source, tmp_path / "net.xml")
