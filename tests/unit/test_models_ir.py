"""One reader of an IR: its digest on every Python, and what its graph says."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbinfer.base.errors import ModelFileError
from dbinfer.models.graph import GraphInfo, graph_info
from dbinfer.models.ir import import_openvino, read_model


def network(head: Any, shape: tuple[int, ...] = (1, 8, 8, 3)) -> Any:
    """Return a model: an image of `shape`, then what `head(opset, image)` makes of it."""
    ov = import_openvino()
    from openvino import opset13 as ops

    image = ops.parameter(list(shape), np.float32, name="image")
    return ov.Model([ops.result(head(ops, image))], [image], "net")


def mean(ops: Any, image: Any) -> Any:
    return ops.reduce_mean(image, np.array([1, 2]), False)


def saved(folder: Path, name: str = "net") -> Path:
    graph = network(lambda ops, image: ops.add(mean(ops, image), np.ones(3, np.float32)))
    import_openvino().save_model(graph, folder / f"{name}.xml")
    return folder / f"{name}.xml"


def test_the_digest_is_the_same_on_every_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    with_file_digest = read_model(path)
    monkeypatch.delattr(hashlib, "file_digest", raising=False)
    without = read_model(path)
    assert (without.digest, without.older_digest) == (with_file_digest.digest, with_file_digest.older_digest)


def test_both_digests_are_those_that_older_clients_wrote(tmp_path: Path) -> None:
    path = saved(tmp_path)
    xml, weights = path.read_bytes(), path.with_suffix(".bin").read_bytes()
    parts = b"".join(hashlib.sha256(data).digest() for data in (xml, weights))
    model = read_model(path)
    assert model.digest == hashlib.sha256(parts).hexdigest()
    assert model.older_digest == hashlib.sha256(xml + weights).hexdigest()


ENDS: dict[str, tuple[Any, str]] = {
    "softmax": (lambda ops, x: ops.softmax(x, 1), "softmax"),
    "softmax, reshape": (lambda ops, x: ops.reshape(ops.softmax(x, 1), np.array([1, 3]), False), "softmax"),
    "softmax, convert": (lambda ops, x: ops.convert(ops.softmax(x, 1), "f16"), "softmax"),
    "softmax, unsqueeze, squeeze": (
        lambda ops, x: ops.squeeze(ops.unsqueeze(ops.softmax(x, 1), np.array(0)), np.array(0)),
        "softmax",
    ),
    "sigmoid, transpose": (lambda ops, x: ops.transpose(ops.sigmoid(x), np.array([1, 0])), "sigmoid"),
    "raw": (lambda ops, x: ops.relu(x), ""),
    "softmax, multiply": (lambda ops, x: ops.multiply(ops.softmax(x, 1), np.float32(2)), ""),
}


def test_how_a_graph_ends(subtests: pytest.Subtests) -> None:
    for name, (end, expected) in ENDS.items():
        with subtests.test(name=name):
            graph = network(lambda ops, image, end=end: end(ops, mean(ops, image)))
            assert graph_info(graph).activation == expected


def test_what_a_graph_says() -> None:
    graph = network(lambda ops, image: ops.reduce_mean(image, np.array([2, 3]), False), (-1, 3, -1, 20))
    assert graph_info(graph) == GraphInfo("NCHW", None, 20, 3, "f32", (-1, 3), "")
    assert graph_info(graph).classes == 3
    assert graph_info(graph).shape(10, 20, 3) == [1, 3, 10, 20]


@pytest.mark.parametrize(
    ("shape", "layout", "message"),
    [
        ((1, 3, 8, 3), None, "does not show which dimension holds the channels"),
        ((1, 8, 8, 4), None, "not an image with 1 or 3 channels"),
        ((1, 3, 8, 8), "NHWC", "not an image with 1 or 3 channels in NHWC"),
    ],
)
def test_layouts_that_cannot_be(shape: tuple[int, ...], layout: str | None, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        graph_info(network(lambda ops, image: ops.relu(image), shape), layout)


def test_the_layout_inside_the_graph_counts() -> None:
    graph = network(lambda ops, image: ops.relu(image), (1, 3, 8, 3))
    graph.get_parameters()[0].set_layout(import_openvino().Layout("NHWC"))
    assert graph_info(graph).layout == "NHWC"
    assert graph_info(graph, "NCHW").layout == "NCHW"


def test_a_graph_without_an_output_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    layers = path.read_text().split("<layer ")
    kept = [layer for layer in layers if 'type="Result"' not in layer.partition(">")[0]]
    assert len(kept) == len(layers) - 1
    # The removed layer was the last of <layers>, so its end tag goes with it
    edges = "</layers>" + layers[-1].partition("</layers>")[2]
    path.write_text("<layer ".join(kept) + ("" if "</layers>" in kept[-1] else edges))
    with pytest.raises(ModelFileError, match=r"net\.xml has no output"):
        read_model(path)
