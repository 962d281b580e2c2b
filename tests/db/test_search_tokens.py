"""Tokenizers of CLIP's and SigLIP's form, as a part of a network in SQL: the reference's numbers for 10,000 texts.

The reference is Hugging Face's tokenizers, which these files are made for. Their vocabularies are learned here;
tests/unit/test_convert_clip.py compares CLIP's own with open_clip.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import rows
from psycopg2.extensions import connection as Connection
from psycopg2.extras import execute_values
from text_towers import strings, write_numbers

from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import deploy

pytest.importorskip("openvino_tokenizers", reason="needs openvino-tokenizers: pip install dbinfer[text]")
pytest.importorskip("transformers", reason="needs transformers: pip install dbinfer[text]")

pytestmark = pytest.mark.wide
LENGTH, WORDS, COUNT = 64, 4000, 10_000
PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"


def like_clip() -> Any:
    """Return a tokenizer that joins pairs of bytes, and marks the ends of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import CLIPTokenizerFast

    special, ends = ("<|startoftext|>", "<|endoftext|>"), "</w>"
    empty = CLIPTokenizerFast(vocab=dict(zip(special, range(2), strict=True)), merges=[]).backend_tokenizer
    learned = Tokenizer(models.BPE(end_of_word_suffix=ends))
    learned.normalizer, learned.pre_tokenizer = empty.normalizer, empty.pre_tokenizer
    learned.train_from_iterator(
        strings(3000, 1), trainers.BpeTrainer(vocab_size=WORDS, end_of_word_suffix=ends)
    )
    letters, said = pre_tokenizers.ByteLevel.alphabet(), json.loads(learned.to_str())["model"]
    words = dict.fromkeys([*letters, *(one + ends for one in letters), *said["vocab"], *special])
    numbered = {word: number for number, word in enumerate(words)}
    return CLIPTokenizerFast(
        vocab=numbered, merges=[tuple(pair) for pair in said["merges"]]
    ).backend_tokenizer


def like_siglip() -> Any:
    """Return a tokenizer that finds the likeliest words, without punctuation, as sentencepiece does."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.Unigram())
    plain = [normalizers.Replace(Regex(PUNCTUATION), ""), normalizers.Replace(Regex(r"\s+"), " ")]
    made.normalizer = normalizers.Sequence([normalizers.Lowercase(), *plain, normalizers.Strip()])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "</s>"]
    made.train_from_iterator(
        strings(3000, 1), trainers.UnigramTrainer(vocab_size=WORDS, special_tokens=special, unk_token="<unk>")
    )
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return made


def written(made: Any, fills: str, folder: Path) -> Any:
    """Write the tokenizer, and return it as it cuts and fills up."""
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": fills, "eos_token": fills}))
    made.enable_truncation(LENGTH)
    made.enable_padding(length=LENGTH, pad_id=made.token_to_id(fills), pad_token=fills)
    return made


@pytest.mark.parametrize(
    ("make", "fills", "ties"), [(like_clip, "<|endoftext|>", 0), (like_siglip, "</s>", 20)]
)
def test_numbers_are_those_of_the_reference(
    db: Connection, dsn: str, venv: Path, tmp_path: Path, make: Callable[[], Any], fills: str, ties: int
) -> None:
    """Where words are as likely in another order (66 6, 6 66), each takes another; nothing else may differ."""
    if not list(venv.glob("lib/python3*/site-packages/openvino_tokenizers")):
        pytest.skip("needs openvino-tokenizers in the backends' environment")
    reference = written(make(), fills, tmp_path)
    write_numbers(tmp_path / "text.onnx", LENGTH)
    plain = ConvertOptions(values={"l2_normalize": False, "name": make.__name__})
    deploy(convert(tmp_path / "text.onnx", tmp_path / "text.xml", plain).output, dsn=dsn)
    texts = strings(COUNT)
    rows(db, "CREATE TABLE strings (id int PRIMARY KEY, t text)")
    with db.cursor() as cursor:
        execute_values(cursor, "INSERT INTO strings VALUES %s", list(enumerate(texts)), page_size=1000)
    found = rows(db, f"SELECT id, dbinfer.embed_text(t, '{make.__name__}') FROM strings ORDER BY id")
    rows(db, "DROP TABLE strings")
    expected = [one.ids for one in reference.encode_batch(texts)]
    pairs = [(np.array(ids, int), np.array(expected[number])) for number, ids in found]
    others = [(ours, theirs) for ours, theirs in pairs if not np.array_equal(ours, theirs)]
    print(f"\n{make.__name__}: {len(pairs)} texts, {len(others)} with as likely words in another order")
    assert len(pairs) == COUNT
    assert len({len(set(ids)) for ids in expected}) > 20
    assert all(np.array_equal(np.sort(ours), np.sort(theirs)) for ours, theirs in others)
    assert len(others) <= ties
