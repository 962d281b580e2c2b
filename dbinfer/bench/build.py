"""Makes a network's Keras file and its IR; run as a program of its own, so that TensorFlow leaves with it.

python -m dbinfer.bench.build resnet50 FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = 20
CAFFE_MEAN = (103.939, 116.779, 123.68)
EPOCHS = 15


def _resnet50() -> tuple[Any, dict[str, Any]]:
    import keras

    # As in keras.applications.resnet: blue first, mean subtracted
    return keras.applications.ResNet50(weights=None), {"color": "BGR", "mean": CAFFE_MEAN}


def _mobilenet_v2() -> tuple[Any, dict[str, Any]]:
    import keras

    # As in keras.applications.mobilenet_v2: -1..1
    return keras.applications.MobileNetV2(weights=None), {"mean": (127.5,), "scale": (127.5,)}


def _digits() -> tuple[Any, dict[str, Any]]:
    """Trained on scikit-learn's digits, so that an int8 network has something to agree with."""
    from dbinfer.images import builtin
    from dbinfer_models.registry import network

    zoo = network("digits")
    model, (x, y) = zoo.build(), builtin.digits("train")
    model.compile("adam", zoo.make_loss())
    model.fit(x[..., None] / 255.0, y, batch_size=32, epochs=EPOCHS, verbose=0)
    return model, {}


def _detector() -> tuple[Any, dict[str, Any]]:
    """MobileNetV2 at 320 pixels under a centre map of 80 classes and 8 pixels a cell, as small detectors are."""
    import keras
    from keras import layers

    base = keras.applications.MobileNetV2((320, 320, 3), include_top=False, weights=None)
    x = base.output
    for name in ("block_12_add", "block_5_add"):  # 16 and 8 pixels a cell
        x = layers.UpSampling2D()(layers.Conv2D(96, 1, activation="relu")(x))
        x = layers.add([x, layers.Conv2D(96, 1)(base.get_layer(name).output)])
    x = layers.SeparableConv2D(96, 3, padding="same", activation="relu")(x)
    maps = [
        layers.Conv2D(80, 1, activation="sigmoid", name="heatmap")(x),
        layers.Conv2D(2, 1, activation="softplus", name="size")(x),
        layers.Conv2D(2, 1, activation="sigmoid", name="offset")(x),
    ]
    # random weights answer about a half everywhere: all 300 peaks go through suppression, and 100 boxes leave
    values = {"mean": (127.5,), "scale": (127.5,), "threshold": 0.1, "iou_threshold": 0.5}
    return keras.Model(base.input, dict(zip(("heatmap", "size", "offset"), maps, strict=True))), values


def _zoo(name: str) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def build() -> tuple[Any, dict[str, Any]]:
        from dbinfer_models.registry import network

        return network(name).build(), {}

    return build


BUILDERS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "resnet50": _resnet50,
    "mobilenet_v2": _mobilenet_v2,
    "digits": _digits,
    "unet": _zoo("unet"),
    "detector": _detector,
    "alexnet": _zoo("alexnet"),
}


def build(name: str, folder: Path) -> None:
    """Write NAME.keras and NAME.xml into the folder; the IR last."""
    import keras

    from dbinfer.convert import ConvertOptions, convert

    keras.utils.set_random_seed(SEED)
    model, values = BUILDERS[name]()
    source = folder / f"{name}.keras"
    model.save(source)
    task = {"unet": "segmentation", "detector": "detection"}.get(name, "classification")
    options = ConvertOptions(force=True, values={"name": name, "task": task, **values})
    convert(source, folder / f"{name}.xml", options)


if __name__ == "__main__":
    build(sys.argv[1], Path(sys.argv[2]))
