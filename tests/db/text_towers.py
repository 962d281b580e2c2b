"""Towers for texts that tests make: a tokenizer of a few words, and a network that adds up what tokens stand for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

LENGTH, VALUES = 16, 8
TRAINING = (
    "a red car at night",
    "two sevens and a 3",
    "the quick brown fox jumps over the lazy dog",
    "naïve café",
)


def write_tokenizer(folder: Path) -> int:
    """Write tokenizer.json and tokenizer_config.json, as Hugging Face has them; return how many tokens there are."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    made.train_from_iterator(
        TRAINING, trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=alphabet)
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    made.save(str(folder / "tokenizer.json"))
    said = {"pad_token": "<pad>", "eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return int(made.get_vocab_size())


def write_tower(
    path: Path, words: int, names: tuple[str, ...] = ("input_ids", "attention_mask"), length: int = LENGTH
) -> Path:
    """Write a network that adds up a vector for each of its numbers that the mask has."""
    import onnx

    table = np.random.default_rng(1).standard_normal((words, VALUES)).astype(np.float32)
    helper, kind = onnx.helper, onnx.TensorProto
    steps = [
        helper.make_node("Gather", ["table", names[0]], ["each"]),
        helper.make_node("Cast", [names[-1]], ["kept"], to=kind.FLOAT),
        helper.make_node("Unsqueeze", ["kept", "last"], ["weights"]),
        helper.make_node("Mul", ["each", "weights"], ["weighed"]),
        helper.make_node("ReduceSum", ["weighed", "middle"], ["text_embeds"], keepdims=0),
    ]
    graph = helper.make_graph(
        steps,
        "tower",
        [helper.make_tensor_value_info(name, kind.INT64, [1, length]) for name in names],
        [helper.make_tensor_value_info("text_embeds", kind.FLOAT, [1, VALUES])],
        [
            onnx.numpy_helper.from_array(table, "table"),
            onnx.numpy_helper.from_array(np.array([2]), "last"),
            onnx.numpy_helper.from_array(np.array([1]), "middle"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return path
