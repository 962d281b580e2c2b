"""A Keras model ends at the layer that was named: its features, for search by likeness."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from convert_models import run_ir, small_classifier
from float32 import tolerance

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import tensorflow
from dbinfer.convert import ConvertOptions
from dbinfer.convert.conversion import convert_here as convert

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[convert]", allow_module_level=True)
tensorflow()


@pytest.mark.wide
def test_the_digits_network_up_to_its_features(tmp_path: Path) -> None:
    import keras

    from dbinfer_models import NETWORKS

    model = NETWORKS["digits"].build()
    model.save(tmp_path / "digits.keras")
    options = ConvertOptions(output_name="fc1")
    report = convert(tmp_path / "digits.keras", tmp_path / "features.xml", options)
    manifest = report.manifest
    assert manifest.name == "digits_fc1"
    assert (manifest.task, manifest.labels, manifest.scale) == ("embedding", (), (255.0,))
    assert (report.assumed, report.outputs[0].shape[1], report.check.done) == (("task",), 64, True)
    image = np.random.default_rng(0).random((1, 28, 28, 1), dtype=np.float32)
    expected = keras.Model(model.inputs, model.get_layer("fc1").output)(image)
    # three layers, of which the last adds up 7 * 7 * 32 numbers
    rounding = tolerance(np.asarray(expected), 3, 7 * 7 * 32)
    assert np.abs(run_ir(report.output, image) - np.asarray(expected)).max() <= rounding


@pytest.mark.wide
def test_a_sequential_network_up_to_its_features(tmp_path: Path) -> None:
    import keras
    from keras import layers

    augmentation = keras.Sequential([layers.RandomFlip(), layers.RandomRotation(0.1)])
    steps = [augmentation, layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(8, name="features")]
    model = keras.Sequential([keras.Input((16, 16, 3)), *steps, layers.Dense(3)])
    model.save(tmp_path / "net.keras")
    report = convert(tmp_path / "net.keras", tmp_path / "out.xml", ConvertOptions(output_name="features"))
    assert (report.manifest.task, report.manifest.scale) == ("embedding", (1.0,))
    image = np.random.default_rng(0).integers(0, 256, (1, 16, 16, 3)).astype(np.float32)
    expected = keras.Model(model.inputs, model.get_layer("features").output)(image, training=False)
    assert np.allclose(run_ir(report.output, image), np.asarray(expected), atol=1e-5)


@pytest.mark.wide
def test_a_last_layer_by_its_name_stays_what_it_is(tmp_path: Path) -> None:
    from dbinfer_models import NETWORKS

    NETWORKS["digits"].build().save(tmp_path / "digits.keras")
    report = convert(tmp_path / "digits.keras", tmp_path / "digits.xml", ConvertOptions(output_name="scores"))
    assert report.manifest.task == "classification"


@pytest.mark.wide
def test_a_layer_that_is_not_there(tmp_path: Path) -> None:
    small_classifier().save(tmp_path / "net.keras")
    with pytest.raises(ConvertError, match="the model has no output 'nowhere'"):
        convert(tmp_path / "net.keras", tmp_path / "net.xml", ConvertOptions(output_name="nowhere"))
