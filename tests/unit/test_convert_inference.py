"""A Keras model is converted as Keras computes it at inference: what works in training alone is left out, and named."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_models import SIZE, run_ir, save_onnx
from float32 import tolerance
from variants import wide

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import tensorflow
from dbinfer.convert import ConvertOptions, ConvertReport
from dbinfer.convert.conversion import convert_here as convert

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[convert]", allow_module_level=True)
tensorflow()

# Layers with arguments that they need; all others of keras.layers are made without
NEEDED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("RandomRotation", "RandomZoom", "RandomContrast", "RandomBrightness"), (0.2,)),
    **dict.fromkeys(("RandomSharpness", "RandomHue", "RandomSaturation", "RandomColorDegeneration"), (0.2,)),
    **dict.fromkeys(("GaussianNoise", "GaussianDropout", "AlphaDropout", "Dropout", "SpatialDropout2D"), (0.2,)),
    "RandomTranslation": (0.2, 0.2),
    "RandomCrop": (SIZE, SIZE),
    "RandomPosterization": (4,),
}  # fmt: skip
MIXED = ("AugMix", "CutMix", "MixUp", "RandAugment", "RandomColorJitter")


def _in_training_alone() -> dict[str, Any]:
    """Return one of each of Keras' layers that change an image in training alone."""
    import keras

    random = {name for name in dir(keras.layers) if name.startswith("Random")}
    # Keras 3.15 cannot load a RandomShear that it has saved
    names = sorted({*random, *NEEDED, *MIXED} - {"RandomShear"})
    return {name: getattr(keras.layers, name)(*NEEDED.get(name, ())) for name in names}


def _images(size: int = SIZE) -> Any:
    return np.random.default_rng(5).integers(0, 256, (3, size, size, 3)).astype(np.float32)


def _tail() -> list[Any]:
    from keras import layers

    return [layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(5, activation="softmax")]


def _converted(model: Any, source: Path) -> ConvertReport:
    model.save(source)
    return convert(source, source.with_suffix(".xml"), ConvertOptions(values={"scale": [1.0]}))


def _assert_as_keras_infers(report: ConvertReport, model: Any, size: int = SIZE) -> None:
    x = _images(size)
    expected = np.asarray(model(x, training=False))
    # two sums, the longer one over all that is flattened; probabilities are at most 1
    np.testing.assert_allclose(run_ir(report.output, x), expected, atol=tolerance(1.0, 2, 4 * size * size))
    assert np.ptp(expected, axis=0).max() > 0.01, "equal answers for all images would prove nothing"
    assert report.check.done, report.check.reason


@pytest.mark.wide
def test_each_layer_that_works_in_training_alone(tmp_path: Path) -> None:
    import keras

    keras.utils.set_random_seed(1)
    random = _in_training_alone()
    rescaling = keras.layers.Rescaling(1 / 255)
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), *random.values(), rescaling, *_tail()])
    report = _converted(model, tmp_path / "net.keras")
    _assert_as_keras_infers(report, model)
    assert set(report.left_out) == set(random)


@pytest.mark.parametrize("ending", ["keras", *wide("h5")])
def test_the_tutorials_augmentation_nested_in_a_model(tmp_path: Path, ending: str) -> None:
    import keras
    from keras import layers

    keras.utils.set_random_seed(1)
    augmentation = keras.Sequential(
        [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)], name="data_augmentation"
    )
    image = keras.Input((SIZE, SIZE, 3))
    x = layers.Rescaling(1 / 255)(augmentation(image))
    for layer in (layers.Dropout(0.2), *_tail()):
        x = layer(x)
    model = keras.Model(image, x)
    report = _converted(model, tmp_path / f"net.{ending}")
    _assert_as_keras_infers(report, model)
    assert report.left_out == ("Dropout", "RandomFlip", "RandomRotation")


@pytest.mark.wide
def test_what_changes_an_image_at_inference_too_stays(tmp_path: Path) -> None:
    import keras
    from keras import layers

    keras.utils.set_random_seed(1)
    first = [layers.Resizing(24, 24), layers.CenterCrop(12, 12), layers.AutoContrast(), layers.RandomFlip()]
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), *first, layers.Rescaling(1 / 255), *_tail()])
    report = _converted(model, tmp_path / "net.keras")
    _assert_as_keras_infers(report, model)
    assert report.left_out == ("RandomFlip",)


@pytest.mark.wide
def test_no_layer_left_out(tmp_path: Path) -> None:
    import keras

    model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), *_tail()])
    assert _converted(model, tmp_path / "net.keras").left_out == ()


def _refused(source: Path) -> ConvertError:
    with pytest.raises(ConvertError) as error:
        convert(source, source.parent / "out.xml", ConvertOptions(values={"scale": [1.0]}))
    text = str(error.value)
    assert "dbinfer-" not in text, "a temporary path tells nobody anything"
    assert "complete" not in text, "the file is not to blame"
    assert not (source.parent / "out.xml").exists()
    return error.value


def test_operations_that_openvino_lacks_are_listed_with_their_layers(tmp_path: Path) -> None:
    import keras
    from keras import layers

    @keras.saving.register_keras_serializable("tests")
    class Slant(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return keras.ops.image.affine_transform(x, np.array([[1, 0.2, 0, 0, 1, 0, 0, 0]], np.float32))

    inner = keras.Sequential([keras.Input((SIZE, SIZE, 3)), Slant(name="slant_left")])
    keras.Sequential([inner, layers.Flatten(), layers.Dense(5)]).save(tmp_path / "net.keras")
    error = _refused(tmp_path / "net.keras")
    path = tmp_path / "net.keras"
    assert error.message == f"OpenVINO lacks operations of {path}: ImageProjectiveTransformV3, in slant_left"
    assert "other operations" in error.hint


@pytest.mark.wide
def test_an_export_that_still_augments_is_sent_back_to_its_keras_file(tmp_path: Path) -> None:
    import keras
    from keras import layers

    first = [layers.RandomFlip(name="mirror"), layers.RandomRotation(0.1, name="turn")]
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), *first, *_tail()])
    model.export(tmp_path / "net", verbose=False)
    error = _refused(tmp_path / "net")
    assert (
        "ImageProjectiveTransformV3, StatelessRandomGetKeyCounter, StatelessRandomUniformV2" in error.message
    )
    assert "/mirror" in error.message
    assert "/turn" in error.message
    assert ".keras" in error.hint


def test_operations_of_onnx_are_listed_with_their_nodes(tmp_path: Path) -> None:
    import onnx

    path = save_onnx(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.node[1].op_type, model.graph.node[1].domain = "OfItsOwn", "com.example"
    model.graph.node[1].name = "/pool/OfItsOwn"
    model.opset_import.append(onnx.helper.make_opsetid("com.example", 1))
    onnx.save(model, path)
    assert _refused(path).message == f"OpenVINO lacks operations of {path}: com.example.OfItsOwn, in pool"


@pytest.mark.wide
def test_a_network_without_weights(tmp_path: Path) -> None:
    import keras

    keras.Sequential(_tail()).save(tmp_path / "net.keras")
    assert "had seen an image" in _refused(tmp_path / "net.keras").message


def test_a_network_that_keras_itself_cannot_run(tmp_path: Path) -> None:
    import keras
    from keras import layers

    image = keras.Input((SIZE, SIZE, 3))
    # crops in training alone, so at inference the Dense layer gets more than it was built for
    cropped = layers.Flatten()(layers.RandomCrop(8, 8)(image))
    keras.Model(image, layers.Dense(5)(cropped)).save(tmp_path / "net.keras")
    error = _refused(tmp_path / "net.keras")
    assert error.message.startswith(f"Keras cannot run {tmp_path / 'net.keras'}: ")
    assert "training=False" in error.hint
