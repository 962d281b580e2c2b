"""Tiny IRs whose output is known without any framework: written in milliseconds with openvino.opset, no TensorFlow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dbinfer.models.describe import describe
from dbinfer.models.ir import embed_manifest, import_openvino, read_model
from dbinfer.models.prepare import PreparedModel, prepare
from dbinfer_udf.manifest import Manifest

SIDE = 8
COLOURS = ("red", "green", "blue")


def _write(build: Any, folder: Path, name: str, manifest: Manifest | None) -> Path:
    ov = import_openvino()
    path = folder / f"{name}.xml"
    for place, node in enumerate(build.get_ordered_ops()):
        if (
            node.get_type_name() != "Parameter"
        ):  # OpenVINO counts the nodes of a process: equal networks would differ
            node.set_friendly_name(f"{node.get_type_name()}_{place}")
    if manifest is not None:
        embed_manifest(build, manifest)
    ov.save_model(build, path, compress_to_fp16=False)
    return path


def prepared(path: Path) -> PreparedModel:
    """Return the files of a model as deploy stores them."""
    model = read_model(path)
    return prepare(model, describe(model))


def on_disk(path: Path) -> str:
    """Return the .xml of a model as backends have it, beside the model."""
    files = prepared(path)
    path.with_name("ready.xml").write_bytes(files.xml)
    path.with_name("ready.bin").write_bytes(files.bin)
    return str(path.with_name("ready.xml"))


def _graph(head: Any, shape: Sequence[int] = (1, SIDE, SIDE, 3), element: type = np.float32) -> Any:
    """Return a model: parameter NHWC, then what `head(opset, parameter)` makes of it."""
    ov = import_openvino()
    from openvino import opset13 as ops

    image = ops.parameter(list(shape), element, name="image")
    end = ops.result(head(ops, image))
    end.get_output_tensor(0).set_names({"answer"})
    return ov.Model([end], [image], "tiny")


def _mean(ops: Any, image: Any) -> Any:
    return ops.reduce_mean(image, np.array([1, 2]), False)


def manifest(task: str, **values: Any) -> Manifest:
    return Manifest.from_dict({"task": task, "height": SIDE, "width": SIDE, "channels": 3} | values)


def colour_classifier(folder: Path, name: str = "colours", **values: Any) -> Path:
    """Write a classifier whose three scores are the means of red, green and blue (grey levels 0..255)."""
    values.setdefault("labels", list(COLOURS))
    return _write(_graph(_mean), folder, name, manifest("classification", **values))


def probability(folder: Path, name: str = "probability", channel: int = 0, **values: Any) -> Path:
    """Write a classifier with one output, the probability of the second of two classes: the share of a channel."""

    def head(ops: Any, image: Any) -> Any:
        return ops.divide(ops.gather(_mean(ops, image), np.array([channel]), np.array(1)), np.float32(255))

    return _write(_graph(head), folder, name, manifest("classification", **values))


def constant(folder: Path, number: float, name: str = "constant", **values: Any) -> Path:
    """Write a model that answers `number` whatever the image: shows which version scored."""

    def head(ops: Any, image: Any) -> Any:
        nothing = ops.multiply(_mean(ops, image), np.zeros(3, np.float32))
        return ops.add(nothing, np.array([number, number, number], np.float32))

    return _write(_graph(head), folder, name, manifest(**{"task": "tensor"} | values))


def large(folder: Path, number: float, name: str) -> Path:
    """Write a model like `constant`, whose file has 2.4 MB."""

    def head(ops: Any, image: Any) -> Any:
        weights = np.random.default_rng(int(number)).standard_normal((200_000, 3)).astype(np.float32)
        used = ops.reduce_mean(ops.multiply(_mean(ops, image), weights), np.array([0]), True)
        return ops.add(ops.multiply(used, np.zeros(3, np.float32)), np.full(3, number, np.float32))

    return _write(_graph(head), folder, name, manifest("tensor"))


def red_mask(folder: Path, name: str = "redness", side: int = SIDE, **values: Any) -> Path:
    """Write a segmentation network: the mask is where red is above 127."""

    def head(ops: Any, image: Any) -> Any:
        red = ops.gather(image, np.array([0]), np.array(3))
        return ops.divide(red, np.float32(255))

    described = manifest("segmentation", height=side, width=side, **values)
    return _write(_graph(head, (1, side, side, 3)), folder, name, described)


def colour_embedding(folder: Path, name: str = "vector", **values: Any) -> Path:
    """Write an embedding of three numbers, the mean colour; length one with l2_normalize."""
    return _write(_graph(_mean), folder, name, manifest("embedding", **{"l2_normalize": True} | values))


def word_embedding(folder: Path, name: str = "words", most: int = 64, **values: Any) -> Path:
    """Write an embedding of texts: how many R, G and B are among their letters."""

    def head(ops: Any, text: Any) -> Any:
        letters = ops.reshape(text, np.array([-1, most]), False)
        counts = [
            ops.reduce_sum(ops.convert(ops.equal(letters, np.uint8(ord(letter))), "f32"), np.array([1]), True)
            for letter in "RGB"
        ]
        return ops.concat(counts, 1)

    graph = _graph(head, (1, 1, most, 1), np.uint8)
    values = {"height": 1, "width": most, "channels": 1, "color": "GRAY", "l2_normalize": True} | values
    graph.get_parameters()[0].set_layout(import_openvino().Layout("NHWC"))
    return _write(graph, folder, name, manifest("text_embedding", **values))


def two_outputs(folder: Path, name: str = "two", foreign: bool = False) -> Path:
    """Write a model with the outputs `mean`, the mean colour, and `largest`, the brightest value."""
    graph = _graph(_mean)
    ov = import_openvino()
    from openvino import opset13 as ops

    (image,) = graph.get_parameters()
    ends = [graph.get_results()[0], ops.result(ops.reduce_max(image, np.array([1, 2, 3]), True))]
    for end, called in zip(ends, ("mean", "largest"), strict=True):
        end.get_output_tensor(0).set_names({called})
    ours = None if foreign else manifest("tensor", outputs=["mean", "largest"])
    return _write(ov.Model(ends, [image], "two"), folder, name, ours)


def boxes(folder: Path, rows: Sequence[Sequence[float]], name: str = "boxes", **values: Any) -> Path:
    """Write a detector that finds the same rows (left, top, right, bottom, score, class) in each image."""

    def head(ops: Any, image: Any) -> Any:
        nothing = ops.multiply(ops.reduce_mean(image, np.array([1, 2, 3]), False), np.float32(0))
        return ops.add(ops.constant(np.array([rows], np.float32)), nothing)

    return _write(_graph(head), folder, name, manifest("detection", **values))


def red_box(folder: Path, name: str = "redbox", side: int = SIDE, **values: Any) -> Path:
    """Write a detector of one class, whose only box holds the pixels where red is above 127."""

    def head(ops: Any, image: Any) -> Any:
        red = ops.gather(image, np.array(0), np.array(3))
        there = ops.convert(ops.greater(red, np.float32(127)), "f32")
        sides = [ops.reduce_max(there, np.array([axis]), False) for axis in (1, 2)]
        up, down = np.arange(1, side + 1, dtype=np.float32), np.arange(side, 0, -1, dtype=np.float32)
        # the first pixel is the side less the largest number counted from the end
        starts = [ops.subtract(np.float32(side), _largest(ops, one, down)) for one in sides]
        ends = [_largest(ops, one, up) for one in sides]
        score = ops.reshape(ops.reduce_max(there, np.array([1, 2]), True), np.array([-1, 1]), False)
        # the class, for as many images as there are
        parts = [*starts, *ends, score, ops.multiply(score, np.float32(0))]
        return ops.unsqueeze(ops.concat(parts, 1), np.array([1]))

    values = {"labels": ["thing"], "height": side, "width": side} | values
    return _write(_graph(head, (1, side, side, 3)), folder, name, manifest("detection", **values))


def _largest(ops: Any, there: Any, numbers: np.ndarray) -> Any:
    return ops.reduce_max(ops.multiply(there, numbers), np.array([1]), True)


def gaps(folder: Path, name: str = "gaps") -> Path:
    """Write a model that answers NaN, Infinity and -Infinity."""

    def head(ops: Any, image: Any) -> Any:
        return ops.add(_mean(ops, image), np.array([np.nan, np.inf, -np.inf], np.float32))

    return _write(_graph(head), folder, name, manifest("tensor"))


def convolution(folder: Path, name: str = "conv", seed: int = 0, **values: Any) -> Path:
    """Write a small convolutional network of random weights in MobileNetV2's shapes (32 x 32 in, 10 classes)."""
    random = np.random.default_rng(seed)

    def weights(*shape: int) -> Any:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    def head(ops: Any, image: Any) -> Any:
        nchw = ops.transpose(image, np.array([0, 3, 1, 2]))
        steps = ([2, 2], [1, 1], [1, 1], [1, 1])
        wide = ops.relu(ops.convolution(nchw, weights(16, 3, 3, 3), *steps))
        deep = ops.group_convolution(wide, weights(16, 1, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
        last = ops.relu(ops.convolution(deep, weights(32, 16, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1]))
        pooled = ops.reduce_mean(last, np.array([2, 3]), False)
        return ops.softmax(ops.matmul(pooled, weights(10, 32), False, True), 1)

    described = manifest("classification", height=32, width=32, **values)
    return _write(_graph(head, (1, 32, 32, 3)), folder, name, described)


def textures(folder: Path, name: str = "textures", size: tuple[int, int] = (64, 64), **values: Any) -> Path:
    """Write a convolutional network that halves its sides and doubles them again; it sees 6 pixels around each.

    Its weights are small whole numbers, so that float32 computes exactly and networks of all sizes agree.
    """
    random = np.random.default_rng(19)  # on noise, half of its mask is set
    weights = [random.integers(-1, 2, (*ends, 3, 3)).astype(np.float32) for ends in ((4, 3), (4, 4), (1, 4))]

    def head(ops: Any, image: Any) -> Any:
        def filtered(before: Any, number: int) -> Any:
            return ops.convolution(before, weights[number], [1, 1], [1, 1], [1, 1], [1, 1])

        first = ops.relu(filtered(ops.transpose(image, np.array([0, 3, 1, 2])), 0))
        half = ops.max_pool(first, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)
        deep = ops.relu(filtered(half, 1))
        scales, axes = np.array([2, 2], np.float32), np.array([2, 3])
        again = ops.interpolate(deep, scales, "nearest", "scales", axes=axes, nearest_mode="floor",
                                coordinate_transformation_mode="asymmetric")  # fmt: skip
        return filtered(again, 2)

    described = manifest("segmentation", width=size[0], height=size[1], **values)
    return _write(_graph(head, (1, size[1], size[0], 3)), folder, name, described)


def loop(folder: Path, trips: int, name: str = "loop", **values: Any) -> Path:
    """Write a model that goes round a loop `trips` times for each image: 2e9 of them take hours, in 5 kB."""

    def head(ops: Any, image: Any) -> Any:
        state = ops.parameter([1, 3], np.float32)
        following = ops.add(state, np.float32(1))
        body = import_openvino().Model([ops.constant(np.array([True])), following], [state], "body")
        found = ops.loop(ops.constant(np.int64(trips)), ops.constant(np.array([True])))
        found.set_function(body)
        found.set_merged_input(state, _mean(ops, image).output(0), following.output(0))
        found.set_special_body_ports([-1, 0])
        return found.get_iter_value(following.output(0), -1)

    return _write(_graph(head), folder, name, manifest("tensor", **values))


def enormous(folder: Path, name: str = "enormous") -> Path:
    """Write a model that needs terabytes between its small input and its small output."""

    def head(ops: Any, image: Any) -> Any:
        padding = np.array([0, 10**6, 10**6, 0])
        return _mean(ops, ops.pad(image, padding, padding, "constant"))

    return _write(_graph(head), folder, name, manifest("tensor"))


def foreign(
    folder: Path, info: dict[str, str], name: str = "foreign", shape: Sequence[int] = (1, 3, 8, 8)
) -> Path:
    """Write an IR without our manifest, NCHW as other tools write it, with Model API's `model_info` in it.

    Its three outputs are the means of the channels as the network gets them.
    """
    graph = _graph(lambda ops, image: ops.reduce_mean(image, np.array([2, 3]), False), shape)
    for key, value in info.items():
        graph.set_rt_info(value, ["model_info", key])
    return _write(graph, folder, name, None)


def picture(red: int, green: int, blue: int, size: tuple[int, int] = (SIDE, SIDE)) -> np.ndarray:
    """Return uint8 (height, width, 3) RGB of one colour."""
    return np.full((size[1], size[0], 3), (red, green, blue), np.uint8)


def file(pixels: np.ndarray, kind: str = "PNG", **options: Any) -> bytes:
    """Return an image file of the pixels; `kind` is Pillow's name of the format."""
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, kind, **options)
    return target.getvalue()


def pixels(data: bytes) -> np.ndarray:
    """Return the pixels of an image file as Pillow reads them."""
    return np.asarray(Image.open(io.BytesIO(data)))


def endless(folder: Path, name: str = "endless") -> Path:
    """Write a network that runs for hours on an image of gray level 200, and answers at once on any other."""
    ov = import_openvino()
    from openvino import opset13 as ops

    image = ops.parameter([1, SIDE, SIDE, 3], np.float32, name="image")
    distance = ops.absolute(
        ops.subtract(ops.reduce_mean(image, np.array([0, 1, 2, 3]), False), np.float32(200))
    )
    special = ops.less(distance, np.float32(0.5))  # the trial at deploy shows it black, white and noise
    state = ops.parameter([1, 3], np.float32)
    next_state = ops.add(state, np.float32(1))
    more = ops.constant(np.array(True))
    loop = ops.loop(ops.select(special, np.array((1 << 31) - 1, np.int64), np.array(1, np.int64)), more)
    loop.set_function(
        ov.Model([ops.result(ops.constant(np.array(True))), ops.result(next_state)], [state], "body")
    )
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(state, _mean(ops, image).output(0), next_state.output(0))
    result = ops.result(loop.get_iter_value(next_state.output(0), -1))
    return _write(ov.Model([result], [image], "endless"), folder, name, manifest("tensor"))


def dark_lines(folder: Path, name: str = "lines", **values: Any) -> Path:
    """Write a network that finds text: the darker a pixel, the more likely; for images of any size."""

    def head(ops: Any, image: Any) -> Any:
        return ops.subtract(
            np.float32(1), ops.divide(ops.reduce_mean(image, np.array([3]), True), np.float32(255))
        )

    values = {"height": 32, "width": 256, "resize": "keep_size", "unclip_ratio": 0.0} | values
    return _write(_graph(head, (1, 32, 256, 3)), folder, name, manifest("text_detection", **values))


def colour_reader(folder: Path, name: str = "letters", **values: Any) -> Path:
    """Write a network that reads lines: a letter, R, G or B, for each square of 8 pixels of that colour."""

    def head(ops: Any, image: Any) -> Any:
        squares = ops.avg_pool(
            ops.transpose(image, np.array([0, 3, 1, 2])), [8, 8], [0, 0], [0, 0], [8, 8], False
        )
        steps = ops.divide(
            ops.transpose(ops.squeeze(squares, np.array([2])), np.array([0, 2, 1])), np.float32(255)
        )
        # white and black are no letters
        blank = ops.add(ops.reduce_min(steps, np.array([2]), True), np.float32(0.1))
        return ops.concat([blank, steps], 2)

    values = {
        "height": 8,
        "width": 32,
        "resize": "keep_height",
        "pad_value": 255,
        "labels": ["", "R", "G", "B"],
    } | values
    return _write(_graph(head, (1, 8, 32, 3)), folder, name, manifest("text", **values))


def flattened(folder: Path, name: str = "flattened", **values: Any) -> Path:
    """Write an embedding whose weights fit one size of images alone."""

    def head(ops: Any, image: Any) -> Any:
        return ops.matmul(
            ops.reshape(image, np.array([1, -1]), False),
            np.ones((SIDE * SIDE * 3, 2), np.float32),
            False,
            False,
        )

    return _write(_graph(head), folder, name, manifest("embedding", **values))
