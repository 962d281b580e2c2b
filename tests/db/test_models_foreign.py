"""IRs of other tools: Model API's model_info, shapes and options decide; what is missing is asked for by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from asking import ask
from float32 import tolerance
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import ModelFileError
from dbinfer.models import DeployOptions, deploy
from dbinfer.models.ir import import_openvino

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))


def test_model_info_is_used(db: Connection, dsn: str, tmp_path: Path) -> None:
    info = {
        "model_type": "Classification",
        "labels": "a_cat a_dog a_fox",
        "mean_values": "10 20 5",
        "scale_values": "2 2 5",
        "reverse_input_channels": "True",
        "resize_type": "fit_to_window_letterbox",
        "pad_value": "114",
        "output_raw_scores": "True",
    }
    done = deploy(tiny_models.foreign(tmp_path, info, "told"), dsn=dsn)
    assert (done.manifest.resize, done.manifest.pad_value, done.manifest.color) == (
        "fit_to_window_letterbox",
        114,
        "RGB",
    )
    assert ask(db, "SELECT dbinfer.predict(%s, 'told')", IMAGE) == pytest.approx([95, 5, 1])
    assert ask(db, "SELECT (dbinfer.classify(%s, 'told')).label", IMAGE) == "a_cat"


@pytest.mark.wide
def test_without_reverse_channels_it_is_bgr(db: Connection, dsn: str, tmp_path: Path) -> None:
    done = deploy(tiny_models.foreign(tmp_path, {"model_type": "Classification"}, "bgr"), dsn=dsn)
    assert done.manifest.color == "BGR"
    assert ask(db, "SELECT dbinfer.predict(%s, 'bgr')", IMAGE) == pytest.approx([10, 30, 200])


@pytest.mark.wide
def test_options_override_model_info(db: Connection, dsn: str, tmp_path: Path) -> None:
    info = {"model_type": "Classification", "mean_values": "10 20 5", "labels": "x y z"}
    options: dict[str, Any] = {"color": "RGB", "mean": [0, 0, 0], "labels": ["p", "q", "r"], "task": "tensor"}
    done = deploy(tiny_models.foreign(tmp_path, info, "overridden"), DeployOptions(values=options), dsn=dsn)
    assert (done.manifest.task, done.manifest.labels) == ("tensor", ("p", "q", "r"))
    assert ask(db, "SELECT dbinfer.predict(%s, 'overridden')", IMAGE) == pytest.approx([200, 30, 10])


def test_what_is_assumed_is_said(dsn: str, tmp_path: Path) -> None:
    done = deploy(tiny_models.foreign(tmp_path, {}, "bare"), dsn=dsn)
    assert done.manifest.task == "classification"
    assert any("--color" in note for note in done.assumed)
    assert any("--mean" in note for note in done.assumed)
    assert any("--task" in note for note in done.assumed)
    assert any("--activation" in note for note in done.assumed)


def test_scores_of_a_network_without_softmax_become_probabilities(
    db: Connection, dsn: str, tmp_path: Path
) -> None:
    info = {"model_type": "Classification", "scale_values": "100", "reverse_input_channels": "True"}
    deploy(tiny_models.foreign(tmp_path, info, "logits"), dsn=dsn)
    score = ask(db, "SELECT (dbinfer.classify(%s, 'logits')).score", IMAGE)
    powers = np.exp([2.0, 0.3, 0.1])
    assert score == pytest.approx(powers[0] / powers.sum(), abs=tolerance(2.0, 4))


@pytest.mark.parametrize("last", ["softmax", "reshape"])
@pytest.mark.wide
def test_probabilities_are_not_made_probabilities_again(
    db: Connection, dsn: str, tmp_path: Path, last: str
) -> None:
    def head(ops: Any, image: Any) -> Any:
        scores = ops.divide(ops.reduce_mean(image, np.array([2, 3]), False), np.float32(100))
        found = ops.softmax(scores, 1)
        return found if last == "softmax" else ops.reshape(found, np.array([1, 3]), False)

    path = _save(_head([1, 3, 8, 8], head), tmp_path / f"ends_{last}.xml")
    done = deploy(path, dsn=dsn)
    assert done.manifest.activation == "none"
    powers = np.exp([2.0, 0.3, 0.1])
    score = ask(db, f"SELECT (dbinfer.classify(%s, 'ends_{last}')).score", IMAGE)
    assert score == pytest.approx(powers[0] / powers.sum(), abs=tolerance(2.0, 4))


@pytest.mark.parametrize(
    ("info", "value"),
    [
        ("mean_values", "1 2"),
        ("mean_values", "a b c"),
        ("scale_values", "0 1 1"),
        ("pad_value", "dark"),
        ("pad_value", "999"),
        ("resize_type", "magic"),
        ("confidence_threshold", "high"),
        ("labels", "one two"),
        ("model_type", "SSD"),
    ],
)
@pytest.mark.wide
def test_model_info_that_cannot_be_used_is_named(dsn: str, tmp_path: Path, info: str, value: str) -> None:
    path = tiny_models.foreign(tmp_path, {"model_type": "Classification", info: value}, "odd")
    with pytest.raises(ModelFileError) as caught:
        deploy(path, dsn=dsn)
    assert "odd.xml" in caught.value.message


@pytest.mark.wide
def test_dynamic_sizes_are_asked_for(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.foreign(tmp_path, {}, "dynamic", shape=(-1, 3, -1, -1))
    with pytest.raises(ModelFileError, match="no fixed size") as caught:
        deploy(path, dsn=dsn)
    assert "--input-size" in caught.value.hint
    done = deploy(path, DeployOptions(values={"input_size": (6, 10)}), dsn=dsn)
    assert (done.manifest.height, done.manifest.width) == (6, 10)
    assert ask(db, "SELECT dbinfer.predict(%s, 'dynamic')", IMAGE) == pytest.approx([200, 30, 10])


@pytest.mark.wide
def test_a_layout_that_cannot_be_known_is_asked_for(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.foreign(tmp_path, {}, "ambiguous", shape=(1, 3, 8, 3))
    with pytest.raises(ModelFileError, match="which dimension holds the channels") as caught:
        deploy(path, dsn=dsn)
    assert "--layout" in caught.value.hint
    done = deploy(path, DeployOptions(layout="nchw"), dsn=dsn)
    assert (done.manifest.height, done.manifest.width) == (8, 3)
    assert ask(db, "SELECT dbinfer.predict(%s, 'ambiguous')", IMAGE) == pytest.approx([200, 30, 10])


def _save(model: Any, path: Path) -> Path:
    import_openvino().save_model(model, path, compress_to_fp16=False)
    return path


def _head(shape: list[int], make: Any) -> Any:
    ov = import_openvino()
    from openvino import opset13 as ops

    inputs = [ops.parameter(shape, np.float32, name="x")]
    return ov.Model([ops.result(make(ops, inputs[0]))], inputs, "odd")


@pytest.mark.wide
@pytest.mark.parametrize("shape", [[1, 8, 8], [1, 3, 8, 8, 8], [10]])
def test_inputs_of_another_rank(dsn: str, tmp_path: Path, shape: list[int]) -> None:
    path = _save(_head(shape, lambda ops, x: ops.relu(x)), tmp_path / "rank.xml")
    with pytest.raises(ModelFileError, match="4 dimensions"):
        deploy(path, dsn=dsn)


def test_two_inputs(dsn: str, tmp_path: Path) -> None:
    ov = import_openvino()
    from openvino import opset13 as ops

    inputs = [ops.parameter([1, 3, 8, 8], np.float32, name=name) for name in ("left", "right")]
    path = _save(ov.Model([ops.add(*inputs)], inputs, "two"), tmp_path / "two.xml")
    with pytest.raises(ModelFileError, match="2 inputs"):
        deploy(path, dsn=dsn)


def test_four_channels(dsn: str, tmp_path: Path) -> None:
    path = _save(
        _head([1, 8, 8, 4], lambda ops, x: ops.reduce_mean(x, np.array([1, 2]))), tmp_path / "four.xml"
    )
    with pytest.raises(ModelFileError):
        deploy(path, dsn=dsn)


def test_an_output_without_fixed_shape(dsn: str, tmp_path: Path) -> None:
    path = _save(_head([1, 3, 8, 8], lambda ops, x: ops.non_zero(x)), tmp_path / "nonzero.xml")
    with pytest.raises(ModelFileError, match="no fixed shape"):
        deploy(path, DeployOptions(values={"task": "tensor"}), dsn=dsn)


@pytest.mark.wide
def test_a_batch_larger_than_one_becomes_one(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.foreign(tmp_path, {"reverse_input_channels": "True"}, "batch", shape=(16, 3, 8, 8))
    deploy(path, dsn=dsn)
    assert ask(db, "SELECT dbinfer.predict(%s, 'batch')", IMAGE) == pytest.approx([200, 30, 10])


@pytest.mark.wide
def test_one_channel_is_gray(db: Connection, dsn: str, tmp_path: Path) -> None:
    done = deploy(tiny_models.foreign(tmp_path, {}, "gray", shape=(1, 1, 8, 8)), dsn=dsn)
    assert (done.manifest.color, done.manifest.channels) == ("GRAY", 1)
    level = ask(
        db, "SELECT (dbinfer.predict(%s, 'gray'))[1]", tiny_models.file(tiny_models.picture(90, 90, 90))
    )
    assert level == pytest.approx(90, abs=1)


@pytest.mark.wide
def test_half_precision_weights_give_float32(db: Connection, dsn: str, tmp_path: Path) -> None:
    path = tiny_models.convolution(tmp_path, "half")
    graph = import_openvino().Core().read_model(path)
    import_openvino().save_model(graph, tmp_path / "halved.xml", compress_to_fp16=True)
    deploy(tmp_path / "halved.xml", DeployOptions(name="halved"), dsn=dsn)
    deploy(path, dsn=dsn)
    whole, half = (ask(db, f"SELECT dbinfer.predict(%s, '{name}')", IMAGE) for name in ("half", "halved"))
    assert half == pytest.approx(whole, abs=0.01)
    assert half != whole


@pytest.mark.wide
def test_labels_of_any_kind_come_back_as_they_are(db: Connection, dsn: str, tmp_path: Path) -> None:
    labels = ['a "quoted", {braced} (label)\\', "", "Straße 🚲 'x' NULL"]
    deploy(tiny_models.colour_classifier(tmp_path, "labels", labels=labels), dsn=dsn)
    for number in range(3):
        image = tiny_models.file(tiny_models.picture(*(250 if i == number else 1 for i in range(3))))
        assert ask(db, "SELECT (dbinfer.classify(%s, 'labels')).label", image) == labels[number]
        query = (
            "SELECT array_agg(t.label ORDER BY t.class) FROM unnest(dbinfer.classify_top(%s, 3, 'labels')) t"
        )
        assert ask(db, query, image) == labels
