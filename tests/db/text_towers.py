"""Towers for texts that tests make: a tokenizer of a few words, and a network that adds up what tokens stand for.

`strings` are texts of many scripts, on which tokenizers are compared.
"""

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

WORDS = f"{TRAINING[0]} {TRAINING[1]} it's don't we'll I'd Photo NIGHT 3.14 naïve".split()
# letters as a keyboard of each script has them, digits, signs, spaces of all kinds, and emoji of several characters
LETTERS = r"""
    abcdefghijklmnopqrstuvwxyz
    ABCDEFGHIJKLMNOPQRSTUVWXYZ
    0123456789
    àâäçéèêëîïôöùûüÿñßøåæœ
    абвгдежзийклмнопрстуфхцчшщъыьэюя
    αβγδεζηθικλμνξοπρστυφχψω
    אבגדהוזחטיכלמנסעפצקרשת
    ابتثجحخدذرزسشصضطظعغفقكلمنهوي
    हिन्दीभाषामेंकुछशब्द
    ไทยภาษากขคง
    日本語漢字仮名交じり文
    한국어문장가나다
    😀😂🚗👩‍👩‍👧🇩🇪❤️👍🏽
    !"#$%&'()*+,-./:;<=>?@[\]^_`{|}~
    ¿¡«»—–…“”‘’€£¥°²³½№™
"""
SCRIPTS = (*LETTERS.split(), "\t\n\r \u00a0\u2003\u3000\u200b")
ODD = (
    "",
    " ",
    "\n",
    "  a  ",
    "!",
    "x" * 1024,
    "a " * 512,
    "é" * 512,
    "😀" * 256,
    "the quick brown fox " * 51,
)


def strings(count: int, seed: int = 0) -> list[str]:
    """Return texts of at most 1,024 bytes: odd ones first, then words and letters of all scripts, joined or apart."""
    random, made = np.random.default_rng(seed), list(ODD)
    while len(made) < count:
        parts = []
        for _ in range(random.integers(1, 12)):
            letters = SCRIPTS[random.integers(len(SCRIPTS))]
            strange = "".join(
                letters[place] for place in random.integers(len(letters), size=random.integers(1, 9))
            )
            parts.append(strange if random.random() < 0.5 else str(random.choice(WORDS)))
        made.append((" ", "", "  ")[random.integers(3)].join(parts).encode()[:1024].decode(errors="ignore"))
    return made


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


def write_numbers(path: Path, length: int, name: str = "input_ids") -> Path:
    """Write a network whose vector is the numbers of a text themselves."""
    import onnx

    helper, kind = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Cast", [name], ["text_embeds"], to=kind.FLOAT)],
        "numbers",
        [helper.make_tensor_value_info(name, kind.INT64, [1, length])],
        [helper.make_tensor_value_info("text_embeds", kind.FLOAT, [1, length])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return path
