"""Towers for texts are converted with their tokenizer inside: numbers and vectors are those of the libraries' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_towers import LENGTH, VALUES, write_tokenizer, write_tower

import dbinfer
from dbinfer.base.errors import ConvertError
from dbinfer.models.ir import core_for
from dbinfer_udf.image.words import Words, write

pytest.importorskip("openvino_tokenizers", reason="needs openvino-tokenizers: pip install dbinfer[text]")
pytest.importorskip("transformers", reason="needs transformers: pip install dbinfer[text]")
onnx = pytest.importorskip("onnx", reason="needs onnx: pip install dbinfer[convert]")

TEXTS = [
    *(
        "",
        " ",
        "a",
        "a red car",
        "A RED CAR!",
        "  two   sevens and a 3 ",
        "naïve café — “quotes”",
        "日本語のテキスト",
    ),
    *(
        "emoji 😀 👩‍👩‍👧",
        "it's 3.14",
        "tab\tand\nline",
        "x" * 900,
        "the quick brown fox " * 40,
        "<pad> inside",
        "СССР ٣٤٥ x²",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tower")
    write_tower(folder / "text.onnx", write_tokenizer(folder))
    return folder


def run(xml: Path, text: str) -> Any:
    """Return what the IR gives for a text, read as backends read it."""
    compiled = core_for(xml).compile_model(str(xml), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    row = np.zeros(compiled.input(0).shape, np.uint8)
    write(Words(row.shape[2])(text.encode())[0], row[0])
    return np.array(compiled(row)[0])[0]


def expected(folder: Path, text: str) -> Any:
    """Return what the libraries that train such networks make of a text."""
    from tokenizers import Tokenizer

    tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens.enable_truncation(LENGTH)
    tokens.enable_padding(length=LENGTH, pad_id=0, pad_token="<pad>")
    found = tokens.encode(text)
    table = onnx.numpy_helper.to_array(onnx.load(str(folder / "text.onnx")).graph.initializer[0])
    return (table[found.ids] * np.array(found.attention_mask)[:, None]).sum(axis=0)


def test_a_tower_without_any_option(folder: Path, subtests: pytest.Subtests) -> None:
    report = dbinfer.convert(folder / "text.onnx", folder / "text.xml")
    assert report.check.done
    assert report.manifest.task == "text_embedding"
    assert report.told == "tokenizer.json"
    for text in TEXTS:
        with subtests.test(text=text[:20]):
            # sums of 16 values: a few roundings of the largest
            assert np.allclose(run(folder / "text.xml", text), expected(folder, text), rtol=0, atol=1e-4)


@pytest.mark.wide
def test_a_tower_of_an_ir_and_a_tokenizer_of_openvino(folder: Path, tmp_path: Path) -> None:
    import openvino
    from openvino_tokenizers import convert_tokenizer
    from transformers import PreTrainedTokenizerFast

    read = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<pad>")
    openvino.save_model(
        convert_tokenizer(read, max_length=LENGTH, use_max_padding=True), tmp_path / "words.xml"
    )
    openvino.save_model(
        openvino.convert_model(folder / "text.onnx"), tmp_path / "tower.xml", compress_to_fp16=False
    )
    options = dbinfer.ConvertOptions(tokenizer=tmp_path / "words.xml")
    dbinfer.convert(tmp_path / "tower.xml", tmp_path / "text.xml", options)
    for text in ("a red car", "the quick brown fox " * 40):
        assert np.allclose(run(tmp_path / "text.xml", text), expected(folder, text), rtol=0, atol=1e-4)


@pytest.mark.wide
def test_what_cannot_be_joined(folder: Path, tmp_path: Path) -> None:
    lonely = write_tower(tmp_path / "text.onnx", 320)
    with pytest.raises(ConvertError, match="no tokenizer lies beside it") as caught:
        dbinfer.convert(lonely, tmp_path / "text.xml")
    assert "--tokenizer" in str(caught.value.hint)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConvertError, match="cannot be read as a tokenizer"):
        dbinfer.convert(lonely, tmp_path / "text.xml")
    odd = write_tower(folder / "odd.onnx", 320, ("input_ids", "token_type_ids"))
    with pytest.raises(ConvertError, match=r"takes .*token_type_ids.*, but a text gives"):
        dbinfer.convert(odd, tmp_path / "text.xml")
    assert not (tmp_path / "text.xml").exists()


@pytest.mark.wide
def test_a_tokenizer_of_sentencepiece(tmp_path: Path) -> None:
    """As SigLIP and T5 have it: no beginning, one end, and spaces that are marks."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    made.train_from_iterator(
        TEXTS * 20, trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>")
    )
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    made.save(str(tmp_path / "tokenizer.json"))
    said = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
    write_tower(tmp_path / "text.onnx", made.get_vocab_size())
    dbinfer.convert(tmp_path / "text.onnx", tmp_path / "text.xml")
    for text in ("a red car", "two sevens and a 3", "the quick brown fox " * 40):
        assert np.allclose(run(tmp_path / "text.xml", text), expected(tmp_path, text), rtol=0, atol=1e-4), (
            text
        )


@pytest.mark.wide
def test_one_tower_of_a_file_with_both(folder: Path, tmp_path: Path) -> None:
    """As Hugging Face's exports have them, with an output that compares the two."""
    model = onnx.load(str(folder / "text.onnx"))
    helper, kind = onnx.helper, onnx.TensorProto
    model.graph.input.append(helper.make_tensor_value_info("pixel_values", kind.FLOAT, [1, 3, 8, 8]))
    table = np.ones((3, VALUES), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "mixed"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 3]), "sides"))
    model.graph.node.extend(
        [
            helper.make_node("ReduceSum", ["pixel_values", "sides"], ["means"], keepdims=0),
            helper.make_node("MatMul", ["means", "mixed"], ["image_embeds"]),
            helper.make_node("Mul", ["text_embeds", "image_embeds"], ["logits"]),
        ]
    )
    for name in ("image_embeds", "logits"):
        model.graph.output.append(helper.make_tensor_value_info(name, kind.FLOAT, [1, VALUES]))
    onnx.save(model, str(folder / "both.onnx"))
    with pytest.raises(ConvertError, match="a tower for images and one for texts") as caught:
        dbinfer.convert(folder / "both.onnx", tmp_path / "text.xml")
    assert "--output-name image_embeds" in str(caught.value.hint)
    texts = dbinfer.ConvertOptions(output_name="text_embeds")
    dbinfer.convert(folder / "both.onnx", tmp_path / "text.xml", texts)
    assert np.allclose(
        run(tmp_path / "text.xml", "a red car"), expected(folder, "a red car"), rtol=0, atol=1e-4
    )
    images = dbinfer.ConvertOptions(output_name="image_embeds", values={"scale": [255.0]})
    report = dbinfer.convert(folder / "both.onnx", tmp_path / "image.xml", images)
    assert report.manifest.task == "embedding"
    assert report.manifest.l2_normalize
    assert [port.name for port in report.inputs] == ["pixel_values"]
    assert "both towers" in report.check.reason
