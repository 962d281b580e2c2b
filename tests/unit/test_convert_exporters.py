"""What exporters say of their models is read, so that their files need no options; nonsense gets a sentence."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_models import (
    described_tflite,
    run_ir,
    save_onnx,
    save_tflite,
    save_yolo,
    small_classifier,
    tflite_metadata,
)
from variants import wide

from dbinfer.base.errors import ConvertError
from dbinfer.convert import ConvertOptions, ConvertReport
from dbinfer.convert.conversion import convert_here as convert
from dbinfer.models.ir import import_openvino

# as Ultralytics' exporter writes it: every value as str() gives it
ULTRALYTICS = {
    "description": "Ultralytics YOLO11n model trained on pets.yaml",
    "author": "Ultralytics",
    "version": "8.3.40",
    "license": "AGPL-3.0 License (https://ultralytics.com/license)",
    "stride": "32",
    "task": "detect",
    "batch": "1",
    "imgsz": "[64, 64]",
    "names": "{0: 'cat', 1: \"dog's nose\", 2: 'rat'}",
    "args": "{'batch': 1, 'half': False, 'dynamic': False}",
}
NAMES = ("cat", "dog's nose", "rat")


def converted(source: Path, **values: Any) -> ConvertReport:
    return convert(source, source.parent / "out.xml", ConvertOptions(values=values, force=True))


@pytest.mark.parametrize("side", [64, *wide(None)], ids=["fixed", "dynamic"])
def test_a_detector_of_ultralytics_needs_no_option(tmp_path: Path, side: int | None) -> None:
    report = converted(save_yolo(tmp_path / "yolo.onnx", ULTRALYTICS, side))
    manifest = report.manifest
    assert report.detector == "yolov8 (recognised)"
    assert report.told == "Ultralytics 8.3.40"
    assert (manifest.task, manifest.labels, manifest.scale) == ("detection", NAMES, (255.0,))
    assert (manifest.height, manifest.width, manifest.color) == (64, 64, "RGB")
    assert (manifest.resize, manifest.pad_value, manifest.iou_threshold) == (
        "fit_to_window_letterbox",
        114,
        0.7,
    )
    assert report.assumed == ("iou_threshold", "precision", "threshold")
    assert report.check.done


@pytest.mark.wide
def test_what_the_user_says_wins(tmp_path: Path) -> None:
    source = save_yolo(tmp_path / "yolo.onnx", ULTRALYTICS, None)
    report = converted(source, labels=["a", "b", "c"], input_size=96, resize="standard")
    assert (report.manifest.labels, report.manifest.height) == (("a", "b", "c"), 96)
    assert report.manifest.resize == "standard"


@pytest.mark.parametrize(
    ("task", "head", "meaning", "resize"),
    [
        ("classify", "scores", "classification", "crop"),
        ("obb", "v8", "tensor", "fit_to_window_letterbox"),
    ],
)
@pytest.mark.wide
def test_other_tasks_of_ultralytics(tmp_path: Path, task: str, head: str, meaning: str, resize: str) -> None:
    report = converted(save_yolo(tmp_path / "yolo.onnx", {**ULTRALYTICS, "task": task}, head=head))
    assert (report.manifest.task, report.manifest.resize, report.detector) == (meaning, resize, "")
    assert report.manifest.activation == "none"


@pytest.mark.wide
def test_the_older_yolov5_says_stride_and_names(tmp_path: Path) -> None:
    """With one class, too, whose rows have six numbers as those of our own form have."""
    for classes, names in ((3, "['cat', 'dog', 'rat']"), (1, "{0: 'cat'}")):
        source = save_yolo(tmp_path / "v5.onnx", {"stride": "32", "names": names}, head="v5", classes=classes)
        report = converted(source)
        assert report.detector == "yolov5 (recognised)"
        assert report.told == "Ultralytics"
        assert len(report.manifest.labels) == classes


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("names", "[" * 100_000, "names in the model's metadata is '\\[\\[\\["),
        ("names", "-" * 100_000 + "1", "must be a list or a map as Python writes it"),
        ("names", "__import__('os').system('true')", "must be a list or a map as Python writes it"),
        ("names", "'" + "x" * (5 << 20) + "'", "must be a list or a map as Python writes it"),
        ("names", "{0: 'a', 7: 'b'}", r"is \{0: 'a', 7: 'b'\}, but must be a list of names, or a map from 0"),
        ("names", "{0: ['a']}", "must be a list of names, or a map from 0"),
        ("names", "12", "is 12, but must be a list of names"),
        (
            "imgsz",
            "[640, -1]",
            r"imgsz in the model's metadata is \[640, -1\], but must be a height and a width",
        ),
        ("imgsz", "[10000000, 1]", "must be a height and a width in pixels"),
        ("imgsz", "True", "must be a height and a width in pixels"),
        ("task", "guess", "task in the model's metadata is 'guess', but must be one of detect, classify"),
    ],
)
@pytest.mark.wide
def test_hostile_metadata_gets_a_sentence(tmp_path: Path, key: str, value: str, said: str) -> None:
    source = save_yolo(tmp_path / "yolo.onnx", {**ULTRALYTICS, key: value})
    with pytest.raises(ConvertError, match=said) as caught:
        converted(source)
    assert len(caught.value.message) < 250
    assert "Export the model again" in caught.value.hint
    assert not (tmp_path / "out.xml").exists()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("numbers", "task", "detector"),
    [(3, "detection", "yolov8_pose (recognised)"), (2, "tensor", "")],
    ids=["with scores", "without"],
)
def test_an_ir_of_ultralytics_says_more_beside_it(
    tmp_path: Path, numbers: int, task: str, detector: str
) -> None:
    """Its `model_info` has no task: without metadata.yaml a pose would be taken for a detector of 5 classes."""
    graph = import_openvino().convert_model(save_yolo(tmp_path / "yolo.onnx", classes=2 + 3))
    for key, value in {"model_type": "YOLO", "reverse_input_channels": True, "scale_values": [255.0]}.items():
        graph.set_rt_info(value, ["model_info", key])
    import_openvino().save_model(graph, tmp_path / "yolo.xml")
    (tmp_path / "metadata.yaml").write_text(
        "description: Ultralytics YOLO11n-pose model\nauthor: Ultralytics\nversion: 8.3.40\nstride: 32\ntask: pose\n"
        "batch: 1\nimgsz:\n- 64\n- 64\nnames:\n  0: cat\n  1: 'dog''s nose'\nargs:\n  batch: 1\nkpt_shape:\n- 1\n"
        f"- {numbers}\n"
    )
    report = converted(tmp_path / "yolo.xml")
    assert (report.manifest.task, report.detector) == (task, detector)
    assert report.manifest.labels == NAMES[:2]
    assert report.told == "Ultralytics 8.3.40"


@pytest.mark.wide
def test_onnx_own_words_for_pixels(tmp_path: Path) -> None:
    words = {"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "Normalized_1_1"}
    report = converted(save_yolo(tmp_path / "net.onnx", words, head="scores"))
    manifest = report.manifest
    assert (manifest.color, manifest.mean, manifest.scale) == ("BGR", (127.5,), (127.5,))
    assert report.told == "ONNX image metadata"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TFLite file without metadata."""
    return save_tflite(small_classifier(), tmp_path_factory.mktemp("plain") / "net.tflite")


def described(
    plain: Path, folder: Path, metadata: bytes = b"", files: dict[str, str] | None = None, custom: str = ""
) -> Path:
    path = described_tflite(plain, folder / "net.tflite", metadata, custom)
    if files:
        with zipfile.ZipFile(path, "a") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
    return path


@pytest.mark.wide
def test_tflite_metadata_says_labels_and_pixels(plain: Path, tmp_path: Path) -> None:
    metadata = tflite_metadata((120.0, 110.0, 100.0), (60.0, 61.0, 62.0), "labels.txt")
    report = converted(described(plain, tmp_path, metadata, {"labels.txt": "a\nb b\nc\nd\n\n"}))
    manifest = report.manifest
    assert report.told == "TFLite metadata"
    assert (manifest.task, manifest.labels, manifest.color) == (
        "classification",
        ("a", "b b", "c", "d"),
        "RGB",
    )
    assert (manifest.mean, manifest.scale) == ((120.0, 110.0, 100.0), (60.0, 61.0, 62.0))
    assert report.check.done


@pytest.mark.parametrize("spoilt", ["root", "vector", "zip"])
@pytest.mark.wide
def test_damaged_tflite_metadata_gets_a_sentence(plain: Path, tmp_path: Path, spoilt: str) -> None:
    metadata = bytearray(tflite_metadata((127.5,), (127.5,), "labels.txt"))
    if spoilt == "root":
        metadata[:4] = b"\xff\xff\xff\x7f"
    elif spoilt == "vector":  # four thousand million values
        place = metadata.index(np.float32(127.5).tobytes())
        metadata[place - 4 : place] = b"\xff\xff\xff\xff"
    path = described(plain, tmp_path, bytes(metadata), {"labels.txt": "a\nb\nc\nd"})
    if spoilt == "zip":
        data = path.read_bytes()
        path.write_bytes(data.replace(b"PK\x01\x02", b"PK\x01\x03"))
    with pytest.raises(ConvertError, match="is damaged: its tables or its metadata point to nowhere"):
        converted(path)


@pytest.mark.wide
def test_custom_operations_are_named(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConvertError, match=r"has operations that are not TensorFlow's, .*: Landmarks2Transform\n"
    ) as caught:
        converted(described(plain, tmp_path, custom="Landmarks2Transform"))
    assert caught.value.hint == "Export the network without them, from where it was trained."


@pytest.mark.wide
def test_boxes_of_ultralytics_tflite_are_shares_of_the_sides(tmp_path: Path) -> None:
    import keras
    from keras import layers

    image = keras.Input((64, 64, 3))
    cells = [layers.Reshape((-1, 3))(layers.AveragePooling2D(stride)(image)) for stride in (8, 16, 32)]
    found = layers.Permute((2, 1))(layers.Dense(7, kernel_initializer="ones")(layers.Concatenate(1)(cells)))
    path = save_tflite(keras.Model(image, found), tmp_path / "yolo.tflite")
    with zipfile.ZipFile(path, "a") as archive:
        said = {**ULTRALYTICS, "imgsz": [64, 64], "names": {"0": "cat", "1": "dog's nose", "2": "rat"}}
        archive.writestr("metadata.json", json.dumps(said))
    report = converted(path)
    assert (report.detector, report.manifest.labels) == ("yolov8 (recognised)", NAMES)
    rows = run_ir(report.output, np.full((1, 64, 64, 3), 0.25, np.float32))[0]
    # centre and size are 0.75 of 64 pixels each
    assert rows[0, :4] == pytest.approx([24, 24, 72, 72], abs=1e-3)


def hugging_face(folder: Path, config: dict[str, Any], processor: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return save_onnx(folder / "model.onnx", open_size=True)


VIT = {"architectures": ["ViTForImageClassification"], "id2label": dict(zip("01234", "abcde", strict=True))}


@pytest.mark.wide
def test_hugging_face_configurations_beside_the_file(tmp_path: Path) -> None:
    processor = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.25, 0.5],
        "rescale_factor": 1 / 255,
        "resample": 2,
        "size": {"height": 24, "width": 32},
    }
    report = converted(hugging_face(tmp_path, VIT, processor))
    manifest = report.manifest
    assert report.told == "config.json and preprocessor_config.json"
    assert (manifest.task, manifest.activation, manifest.labels) == (
        "classification",
        "softmax",
        tuple("abcde"),
    )
    assert (manifest.height, manifest.width, manifest.resize) == (24, 32, "standard")
    assert manifest.mean == pytest.approx((127.5, 102.0, 76.5))
    assert manifest.scale == pytest.approx((51.0, 63.75, 127.5))
    assert report.assumed == ("precision",)


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        (
            {"do_normalize": False, "size": {"shortest_edge": 36}, "crop_size": 32, "do_center_crop": True},
            {"scale": (255.0,), "resize": "crop", "height": 32},
        ),
        (
            {"do_rescale": False, "image_mean": [120.0], "image_std": [2.0], "size": 24, "resample": 0},
            {"mean": (120.0,), "scale": (2.0,), "resize": "standard", "interpolation": "nearest"},
        ),
        ({"do_flip_channel_order": True, "do_normalize": False, "size": 24}, {"color": "BGR"}),
    ],
)
@pytest.mark.wide
def test_ways_of_image_processors(
    tmp_path: Path, processor: dict[str, Any], expected: dict[str, Any]
) -> None:
    manifest = converted(hugging_face(tmp_path, VIT, processor)).manifest
    assert {key: getattr(manifest, key) for key in expected} == expected


@pytest.mark.wide
def test_timm_keeps_everything_in_one_file(tmp_path: Path) -> None:
    trained = {"mean": [0.5] * 3, "std": [0.5] * 3, "input_size": [3, 24, 24]}
    config = {"architecture": "resnet18", "num_classes": 5, "pretrained_cfg": trained}
    (tmp_path / "config.json").write_text(json.dumps(config))
    manifest = converted(save_onnx(tmp_path / "model.onnx", open_size=True)).manifest
    assert (manifest.task, manifest.activation, manifest.height) == ("classification", "softmax", 24)
    assert manifest.mean == manifest.scale == (127.5,) * 3


@pytest.mark.parametrize(
    "text", ["no JSON", "[1]", '{"architectures": 5}', '{"architectures": null}', '{"id2label": 3}']
)
@pytest.mark.wide
def test_a_config_of_somebody_else_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    source = save_onnx(tmp_path / "model.onnx")
    report = converted(source, task="classification", activation="softmax", scale=[255.0])
    assert report.told == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "preprocessor_config.json is not JSON"),
        ("[]", "preprocessor_config.json in the model's metadata is \\[\\], but must be an object"),
        ('{"image_mean": ["a"], "image_std": [1]}', "must be mean and deviation of channels"),
        ('{"rescale_factor": 0, "size": 1}', "must be mean and deviation of channels"),
        (
            '{"size": {"height": "224"}}',
            "size in the model's metadata is .*, but must be a height and a width",
        ),
    ],
)
@pytest.mark.wide
def test_a_spoilt_image_processor_gets_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(text)
    with pytest.raises(ConvertError, match=said):
        converted(save_onnx(tmp_path / "model.onnx"))
