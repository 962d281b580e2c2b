"""The networks to measure, made once and kept in the state folder: Keras file, IR, int8 IR, and the prepared files.

python -m dbinfer.bench.networks resnet50 FOLDER    makes Keras file and IR, so that TensorFlow leaves with the program
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbinfer.base.errors import ConvertError
from dbinfer.convert.quantize import QuantizeOptions, quantize_images
from dbinfer.database import state
from dbinfer.images import builtin
from dbinfer.models.describe import describe
from dbinfer.models.ir import read_model
from dbinfer.models.prepare import prepare
from dbinfer_udf.host import libraries
from dbinfer_udf.host.cache import Entry, open_cache
from dbinfer_udf.host.housekeeping import Writer
from dbinfer_udf.image.file import DEFAULT_LIMITS
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.model.functions import RUNS
from dbinfer_udf.model.model import Model

CALIBRATION = {"digits": 300, "unet": 24}
CALIBRATION_STANDARD = 64
SEED = 20
CAFFE_MEAN = (103.939, 116.779, 123.68)
EPOCHS = 15


@dataclass(frozen=True)
class ModelFiles:
    """A model as backends load it, outside of the database.

    Attributes:
        source: the IR as converted, which `dbinfer deploy` takes.
        keras: the Keras file it came from.
        cache: the cache folder; xml_digest, bin_digest: of the prepared files in it.
        manifest: with the precision to run at.
        agreement: of an int8 model with its f32 source; None for others.
    """

    source: Path
    keras: Path
    cache: str
    xml_digest: str
    bin_digest: str
    manifest: Manifest
    agreement: float | None = None

    @property
    def entry(self) -> Entry:
        """The prepared files."""
        return Entry(self.cache, self.xml_digest, self.bin_digest)

    @property
    def megabytes(self) -> float:
        """Size of the prepared weights."""
        return Path(self.entry.path("bin")).stat().st_size / 1e6

    def compile(self, exact: bool = False) -> Model:
        """Return the model, compiled as a backend does it (one thread, one stream, pinning off).

        Args:
            exact: decode every pixel and average them all into the network's size, instead of decoding to size.
        """
        manifest = self.manifest.to_dict()
        if exact:
            manifest.update(decode="exact", interpolation="area")
        facts = {"model": self.manifest.name, "version": 0, "manifest": manifest, "settings": {}}
        return Model(
            libraries.import_libraries("", DEFAULT_LIMITS.max_pixels)["openvino"], self.entry, facts, 1
        )

    def scorer(self, function: str, exact: bool = False) -> Callable[[bytes], Any]:
        """Return what scores one image file as the SQL function of that name does."""
        model, task = self.compile(exact), RUNS[function]
        return lambda img: task(model, img, None)


def folder() -> Path:
    """Return the folder that keeps the networks; readable for the server's user, who loads them in naive functions."""
    found = state.locate(None).path / "bench"
    found.mkdir(mode=0o755, parents=True, exist_ok=True)
    return found


def model_files(network: str, precision: str) -> ModelFiles:
    """Return a network's files at a precision; made now where they are not there yet.

    Raises:
        ConvertError: it could not be built (TensorFlow is missing, for example).
    """
    source = folder() / f"{network}.xml"
    # The IR is written last: where it is, the Keras file is whole
    if not source.exists():
        _build(network, folder())
    agreement = None
    if precision == "int8":
        source, agreement = _quantized(network, source)
    return prepared(source, folder() / f"{network}.keras", precision, agreement)


def _build(network: str, target: Path) -> None:
    """Build in a process of its own, so that TensorFlow's threads and memory are gone before anything is measured."""
    program = [sys.executable, "-m", "dbinfer.bench.networks", network, str(target)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise ConvertError(
            f"the network {network} could not be made: {lines[-1]}",
            "Run it by hand: " + " ".join(program),
        )


def _quantized(network: str, source: Path) -> tuple[Path, float]:
    target, note = source.with_name(f"{network}-int8.xml"), source.with_name(f"{network}-int8.agreement")
    # The note is written last: without it the int8 files may be of an interrupted run
    if not (target.exists() and note.exists()):
        calibration, compared = _calibration(network)
        # No limit, because random weights may agree badly; what is measured here is speed
        options = QuantizeOptions(subset=len(calibration), limit=0.0, force=True)
        report = quantize_images(source, target, calibration, compared, options)
        note.write_text(str(report.agreement))
    return target, float(note.read_text())


def _calibration(network: str) -> tuple[list[bytes], list[bytes]]:
    """Return the images to calibrate with, and others to compare the answers on."""
    subset = CALIBRATION.get(network, CALIBRATION_STANDARD)
    if network == "digits":
        parts = [[data for data, _label in builtin.digit_files(part)] for part in builtin.PARTS]
        return parts[0][:subset], parts[1]
    # Another seed than that of the images that are scored
    photographs = builtin.photograph_files((500, 375), subset * 2, seed=1)
    return photographs[:subset], photographs[subset:]


def prepared(source: Path, keras: Path, precision: str, agreement: float | None = None) -> ModelFiles:
    """Return the files of an IR that is to run at `precision`, prepared as deploy does it, in the harness's cache."""
    model = read_model(source)
    known = describe(model, {"precision": "bf16" if precision == "bf16" else "f32"})
    files = prepare(model, known)
    cache = open_cache(str(folder() / "cache"))
    entry = Entry(cache, files.xml_digest, files.bin_digest)
    if not entry.good():
        writer = Writer(entry)
        writer.write("xml", files.xml)
        writer.write("bin", files.bin)
        writer.finish()
    return ModelFiles(
        source=source,
        keras=keras,
        cache=cache,
        xml_digest=files.xml_digest,
        bin_digest=files.bin_digest,
        manifest=known.manifest,
        agreement=agreement,
    )


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
    from dbinfer_models import network

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
        from dbinfer_models import network

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
