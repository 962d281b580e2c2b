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
    from dbinfer import samples
    from dbinfer_models.registry import network

    zoo = network("digits")
    model, (x, y) = zoo.build(), samples.digits("train")
    model.compile("adam", zoo.make_loss())
    model.fit(x[..., None] / 255.0, y, batch_size=32, epochs=EPOCHS, verbose=0)
    return model, {}


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
    task = "segmentation" if name == "unet" else "classification"
    options = ConvertOptions(force=True, values={"name": name, "task": task, **values})
    convert(source, folder / f"{name}.xml", options)


if __name__ == "__main__":
    build(sys.argv[1], Path(sys.argv[2]))
