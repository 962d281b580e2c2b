"""Networks that compare images with texts: the tower that is meant is cut out, and that of texts gets its tokenizer.

OpenVINO's own tokenizer turns texts into numbers, as a part of the graph; so nothing but the graph has to be deployed.
Its input becomes what image.words makes of a text: bytes, as a picture of one row with zeros behind them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import quiet
from dbinfer.convert.options import TOKENIZERS
from dbinfer.convert.source import Array, Source, telling_line
from dbinfer.database.pins import install
from dbinfer.models.graph import Port, dimensions, port
from dbinfer.models.ir import core_for, import_openvino
from dbinfer_udf.model.device import new_core

# What exporters call the vectors, and the input beside the numbers of a text
IMAGES, TEXTS = ("image_embeds", "image_features"), ("text_embeds", "text_features")
MASK = "attention_mask"
SPECIAL = (
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "model_max_length",
    "padding_side",
    "truncation_side",
)
INTEGERS = {"i64": np.int64, "i32": np.int32}
# A text may have more characters than any tokenizer's 77 numbers hold
MOST_BYTES = 1024


def with_tower(source: Source, path: Path, wanted: tuple[str, ...], tokenizer: Path | None) -> Source:
    """Return the source as one tower: that of images, or that of texts with its tokenizer inside; others as they are.

    Args:
        wanted: names of outputs that the user has named.
        tokenizer: the file that the user has named; None: the one beside the source.

    Raises:
        ConvertError: a tower of texts without a tokenizer that fits it.
    """
    source = _one_tower(source, wanted)
    if not _takes_numbers(source.graph):
        return source
    there = tokenizer or next(filter(Path.is_file, map(path.with_name, TOKENIZERS)), None)
    if there is None:
        raise ConvertError(
            f"{path} takes the numbers of a text, and no tokenizer lies beside it",
            f"Put {TOKENIZERS[1]} there, as Hugging Face has it, or name one with --tokenizer FILE.",
        )
    return _joined(source, there)


def _one_tower(source: Source, wanted: tuple[str, ...]) -> Source:
    """Return the source up to the vectors of the tower that is meant."""
    graph = source.graph
    vectors = [out for out in graph.outputs if out.get_names() & {*IMAGES, *TEXTS}]
    if wanted:
        vectors = [out for out in vectors if out.get_names() & {*wanted}]
    if len(vectors) > 1:
        names = " and ".join(f"--output-name {port(out).name}" for out in vectors)
        raise ConvertError("the model has a tower for images and one for texts", f"Convert each: {names}.")
    if not vectors:
        return source
    chosen = vectors[0]
    if len(graph.outputs) == len(graph.inputs) == 1:
        return _of_vectors(source, chosen)
    cut = import_openvino().Model([chosen.get_node()], _read_by(chosen), graph.get_friendly_name())
    if len(graph.inputs) == len(cut.inputs):
        return _of_vectors(replace(source, graph=cut), chosen)
    alone = replace(
        source, graph=cut, as_read=cut.clone, run=None, reason="the original runs with both towers alone"
    )
    return _of_vectors(alone, chosen)


def _of_vectors(source: Source, output: Any) -> Source:
    """Return the source with what its output means; a text's tower gets its task with the tokenizer."""
    if not output.get_names() & {*IMAGES}:
        return source
    values = {"task": "embedding", "activation": "none", "l2_normalize": True}
    return replace(source, values={**values, **source.values})


def _read_by(output: Any) -> list[Any]:
    """Return the inputs that an output depends on."""
    found, seen, waiting = [], set[str](), [output.get_node()]
    while waiting:
        node = waiting.pop()
        if node.get_name() not in seen:
            seen.add(node.get_name())
            found += [node] if node.get_type_name() == "Parameter" else []
            waiting += [entry.get_source_output().get_node() for entry in node.inputs()]
    return found


def _takes_numbers(graph: Any) -> bool:
    """Return whether all inputs are rows of whole numbers, as tokenizers give them."""
    ports = [port(entry) for entry in graph.inputs]
    return bool(ports) and all(len(one.shape) == 2 and one.type in INTEGERS for one in ports)


def _joined(source: Source, path: Path) -> Source:
    """Return the tower with the tokenizer in front of it, and a way to run the original on the same bytes."""
    openvino = import_openvino()
    numbers = _numbers_of(source.graph)
    length = dimensions(numbers)[1]
    tokens = _of_bytes(_tokenizer(path, length), path)
    length = length if length > 0 else _length(tokens, path)
    whole = _connected(tokens, source.graph, length)
    ports = [port(entry) for entry in source.graph.inputs]
    run = source.run and _on_bytes(source.run, _compiled(_connected(tokens, None, length)), ports)
    values = {
        **{"task": "text_embedding", "activation": "none", "l2_normalize": True, "precision": "f32"},
        **{"color": "GRAY", "height": 1, "width": MOST_BYTES, "channels": 1},
    }
    whole.get_parameters()[0].set_layout(openvino.Layout("NHWC"))
    told = " and ".join(filter(None, (source.told, path.name)))
    return replace(source, graph=whole, run=run, values=values, told=told, first_difference=None)


def _numbers_of(graph: Any) -> Any:
    """Return the input for the numbers of a text."""
    found = [entry for entry in graph.inputs if MASK not in entry.get_names()]
    if len(found) != 1 or len(graph.inputs) > 2:
        names = ", ".join(port(entry).name for entry in graph.inputs)
        raise ConvertError(
            f"the model takes {names}, but a text gives its numbers and {MASK} alone",
            "Export it with these inputs.",
        )
    return found[0]


def _tokenizer(path: Path, length: int) -> Any:
    """Return the tokenizer of a file as OpenVINO's graph: text in, numbers out."""
    if path.suffix == ".xml":
        return core_for(path).read_model(str(path))
    try:
        with quiet():
            from openvino_tokenizers import convert_tokenizer
            from transformers import PreTrainedTokenizerFast
    except ImportError as err:
        raise ConvertError(
            f"reading {path} needs {err.name}, which is not installed", install("text")
        ) from err
    try:
        with quiet():
            read = PreTrainedTokenizerFast(tokenizer_file=str(path), **_special(path))
            if length > 0:
                read.model_max_length = length
            return convert_tokenizer(read, max_length=length if length > 0 else None, use_max_padding=True)
    # transformers and the tokenizers raise exceptions of any kind
    except Exception as err:
        raise ConvertError(f"{path} cannot be read as a tokenizer: {telling_line(err)}") from err


def _special(path: Path) -> dict[str, Any]:
    """Return what stands beside a tokenizer.json in tokenizer_config.json of padding and cutting."""
    with suppress(OSError, ValueError):
        said = json.loads(path.with_name("tokenizer_config.json").read_text(encoding="utf-8"))
        told = {key: said[key] for key in SPECIAL if said.get(key) is not None}
        # a token may be an object with its content
        return {
            key: value.get("content") if isinstance(value, dict) else value for key, value in told.items()
        }
    return {}


def _of_bytes(graph: Any, path: Path) -> Any:
    """Return a tokenizer's graph that takes bytes, uint8 (rows, 1, MOST_BYTES, 1), and cuts long texts."""
    from openvino import opset13 as ops

    unpacked = [node for node in graph.get_ordered_ops() if node.get_type_name() == "StringTensorUnpack"]
    if len(unpacked) != 1:
        raise ConvertError(
            f"{path} is no tokenizer of one text", "Make it with openvino-tokenizers' convert_tokenizer."
        )
    text = ops.parameter([1, 1, MOST_BYTES, 1], np.uint8, name="text")
    for output, value in zip(unpacked[0].outputs(), _ragged(ops, text), strict=True):
        _replace(output, value)
    for node in graph.get_ordered_ops():
        if node.get_type_name() == "ReadValue":
            # a choice that callers of the tokenizer may change
            on = node.get_attributes()["variable_id"] == "truncation"
            _replace(node.output(0), ops.constant(np.array(True)) if on else node.input_value(0).get_node())
    return import_openvino().Model(graph.get_results(), [text], "tokenizer")


def _replace(output: Any, node: Any) -> None:
    for target in list(output.get_target_inputs()):
        target.replace_source_output(node.output(0))


def _ragged(ops: Any, text: Any) -> tuple[Any, Any, Any]:
    """Return where each text begins and ends among the bytes of all, and these bytes, as tokenizers want them.

    The number of texts is made to look open: their operations count on it.
    """
    rows = ops.reshape(text, np.array([-1, MOST_BYTES]), False)
    lengths = ops.reduce_sum(ops.convert(ops.not_equal(rows, np.uint8(0)), "i32"), np.array([1]), False)
    number = ops.gather(ops.convert(ops.shape_of(rows), "i32"), np.array(0), np.array(0))
    nothing = ops.minimum(ops.reduce_sum(lengths, np.array([0]), False), np.int32(0))
    places = ops.range(np.int32(0), ops.add(number, nothing), np.int32(1), "i32")
    begins = ops.multiply(places, np.int32(MOST_BYTES))
    ends = ops.add(begins, ops.gather(lengths, places, np.array(0)))
    return begins, ends, ops.reshape(text, np.array([-1]), False)


def _length(tokens: Any, path: Path) -> int:
    """Return how many numbers every text gets; a tower that takes any number of them works with one."""
    compiled = _compiled(tokens)
    short, long = (_run(compiled, text)[0].shape[1] for text in (b"", b"a " * (MOST_BYTES // 2)))
    if short != long:
        raise ConvertError(
            f"{path} gives a short text {short} numbers and a long one {long}, but the network needs one length",
            "Make it with convert_tokenizer(..., max_length=77, use_max_padding=True), or export the network with "
            "a fixed length.",
        )
    return int(short)


def _connected(tokens: Any, tower: Any, length: int) -> Any:
    """Return the tokenizer with the tower behind it, every text as `length` numbers; without a tower, the numbers."""
    from openvino import opset13 as ops

    tokens = tokens.clone()
    (text,) = tokens.get_parameters()
    rows = ops.gather(ops.shape_of(text), np.array([0]), np.array(0))
    shape = ops.concat([rows, np.array([length])], 0)
    wanted = {entry.get_any_name(): entry for entry in tokens.outputs}
    given = [
        ops.reshape(wanted[name].get_node().input_value(0), shape, False) for name in ("input_ids", MASK)
    ]
    if tower is None:
        return import_openvino().Model([ops.result(each) for each in given], [text], "numbers")
    tower = tower.clone()
    tower.reshape({entry: [1, length] for entry in tower.inputs})
    for entry in tower.inputs:
        value = given[MASK in entry.get_names()]
        _replace(entry, ops.convert(value, entry.get_element_type().get_type_name()))
    return import_openvino().Model(tower.get_results(), [text], tower.get_friendly_name())


def _compiled(graph: Any) -> Any:
    return new_core(import_openvino()).compile_model(graph, "CPU")


def _run(compiled: Any, text: bytes) -> list[Array]:
    row = np.zeros((1, 1, MOST_BYTES, 1), np.uint8)
    row[0, 0, : len(text), 0] = np.frombuffer(text, np.uint8)
    return [np.array(compiled(row)[place]) for place in range(len(compiled.outputs))]


def _on_bytes(run: Callable[..., Any], numbers: Any, ports: list[Port]) -> Callable[[Array], list[Array]]:
    """Return what runs the original network on the numbers of a text."""

    def on_bytes(text: Array) -> list[Array]:
        found = numbers(text)
        # of `numbers`, the mask comes second
        given = {
            one.name: np.asarray(found[int(one.name == MASK)]).astype(INTEGERS[one.type]) for one in ports
        }
        return list(run(given if len(given) > 1 else next(iter(given.values()))))

    return on_bytes
