"""Measures how often words find an image: python tests/bench/words.py [DSN [PHOTOGRAPHS [EPOCHS]]].

Two small towers learn from photographs with digits on them (`dbinfer sample written`) and sentences such as "two
sevens and a 3". As with CLIP, all they are told is which sentence belongs to which photograph: no boxes, no labels.
Then everything goes the official way: `convert` with the tokenizer, `deploy --text`, `score`, and
`similar(..., text => ...)`. The database has dbinfer, and gets a model `written` and the tables `written` and `seen`.

Recall at 10 is the share of the held-out photographs whose sentence finds, among the first ten, one that shows exactly
this; by chance is what ten drawn at random would reach.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from math import comb
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import cv2
import numpy as np

SIDE, LENGTH, VALUES, BATCH, FOUND = 64, 32, 64, 128, 10
RATE = 2e-3
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COUNTS = (("a", "one", "1"), ("two", "2"), ("three", "3"), ("four", "4"))
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")

# digits with their numbers, in order: ((3, 1), (7, 2))
Shown = tuple[tuple[int, int], ...]


class Recall(NamedTuple):
    """How often a sentence finds what it says, and how often chance would."""

    found: float
    chance: float
    photographs: int


def shown(boxes: Sequence[Any]) -> Shown:
    """Return which digits are on a photograph, and how many of each."""
    return tuple(sorted(Counter(int(box["label"]) for box in boxes).items()))


def sentence(what: Shown, random: np.random.Generator) -> str:
    """Return one of the ways to say it: "two sevens and a 3", "one three and 2 7s"."""
    parts = []
    for place in random.permutation(len(what)):
        digit, count = what[place]
        name = random.choice([NAMES[digit], str(digit)])
        many = "" if count == 1 else "es" if name == "six" else "s"
        parts.append(f"{random.choice(COUNTS[count - 1])} {name}{many}")
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def photographs(part: str, count: int) -> tuple[Any, list[Shown]]:
    """Return the pixels that the tower takes, uint8 (count, SIDE, SIDE, 1), and what they show."""
    from dbinfer.images.builtin import written

    pixels, truths = np.empty((count, SIDE, SIDE, 1), np.uint8), []
    for number, one in enumerate(written(part, range(count))):
        grey = cv2.imdecode(np.frombuffer(one.image, np.uint8), cv2.IMREAD_GRAYSCALE)
        pixels[number, :, :, 0] = cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        truths.append(shown(one.boxes))
    return pixels, truths


def write_tokenizer(folder: Path, sentences: Sequence[str]) -> Any:
    """Write tokenizer.json and tokenizer_config.json, as Hugging Face has them; return the tokenizer."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        sentences,
        trainers.BpeTrainer(vocab_size=400, special_tokens=list(SPECIAL), initial_alphabet=alphabet),
    )
    ends = [(name, SPECIAL.index(name)) for name in ("<s>", "</s>")]
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<pad>", "eos_token": "</s>"}))
    made.enable_truncation(LENGTH)
    made.enable_padding(length=LENGTH)
    return made


def image_tower() -> Any:
    """Return five convolutions whose results are averaged over the photograph."""
    import keras
    from keras import layers

    x = image = keras.Input((SIDE, SIDE, 1), name="image")
    for width, side, stride, pool in (
        (24, 5, 2, 1),
        (32, 3, 1, 2),
        (64, 3, 1, 2),
        (128, 3, 1, 1),
        (128, 3, 1, 1),
    ):
        x = layers.Conv2D(width, side, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.ReLU()(x)
        x = layers.MaxPooling2D(pool)(x) if pool > 1 else x
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(VALUES, name="image_embeds")(x), name="written")


def text_tower(words: int) -> Any:
    """Return two convolutions over the tokens."""
    import keras
    from keras import layers

    numbers = keras.Input((LENGTH,), dtype="int32", name="input_ids")
    x = layers.Embedding(words, VALUES)(numbers)
    for _ in range(2):
        x = layers.Conv1D(128, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(numbers, layers.Dense(VALUES, name="text_embeds")(x), name="words")


def compared(image: Any, text: Any) -> Any:
    """Return the network of both towers: the cosine of each image with each text of a batch, times a learned number."""
    import keras
    from keras import layers, ops

    class Scaled(layers.Layer):  # type: ignore[misc]
        def build(self, _: Any) -> None:
            self.scale = self.add_weight(shape=(), initializer=keras.initializers.Constant(2.0), name="scale")

        def call(self, images: Any, texts: Any) -> Any:
            unit = [ops.normalize(vectors, axis=1) for vectors in (images, texts)]
            return ops.exp(self.scale) * ops.matmul(unit[0], ops.transpose(unit[1]))

    return keras.Model([image.input, text.input], Scaled()(image.output, text.output))


def both_ways(same: Any, scores: Any) -> Any:
    """Return CLIP's loss; sentences that say the same share what is right."""
    from keras import losses, ops

    right = same / ops.sum(same, axis=1, keepdims=True)
    ways = (scores, ops.transpose(scores))
    return sum(losses.categorical_crossentropy(right, way, from_logits=True) for way in ways)


def train(folder: Path, count: int, epochs: int) -> None:
    """Write image.keras, and text.keras with its tokenizer beside it."""
    import keras

    # what is found varies by the first weights: 0.19 to 0.32 with 3000 photographs and 6 epochs
    keras.utils.set_random_seed(0)
    pixels, truths = photographs("train", count)
    random, kinds = np.random.default_rng(0), {what: number for number, what in enumerate(truths)}
    kind = np.array([kinds[what] for what in truths])
    tokenizer = write_tokenizer(folder, [sentence(what, random) for what in truths])
    image, text = image_tower(), text_tower(tokenizer.get_vocab_size())
    steps = count // BATCH

    class Pairs(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return steps

        def __getitem__(self, _: int) -> Any:
            rows = random.choice(count, BATCH, replace=False)
            said = tokenizer.encode_batch([sentence(truths[row], random) for row in rows])
            numbers = np.array([one.ids for one in said], np.int32)
            same = np.equal.outer(kind[rows], kind[rows]).astype(np.float32)
            return (pixels[rows].astype(np.float32) / 255, numbers), same

    rates = keras.optimizers.schedules.CosineDecay(
        0.0, steps * epochs, warmup_target=RATE, warmup_steps=steps
    )
    network = compared(image, text)
    network.compile(keras.optimizers.Adam(rates), both_ways)
    network.fit(Pairs(), epochs=epochs, verbose=2)
    image.save(folder / "image.keras")
    text.save(folder / "text.keras")


def deployed(folder: Path, dsn: str | None) -> None:
    """Make one model of the two towers."""
    import dbinfer
    from dbinfer.models import DeployOptions, deploy

    pixels = {"color": "GRAY", "scale": [255.0], "l2_normalize": True, "task": "embedding"}
    dbinfer.convert(
        folder / "image.keras", folder / "image.xml", dbinfer.ConvertOptions(values=pixels, force=True)
    )
    dbinfer.convert(folder / "text.keras", folder / "text.xml", dbinfer.ConvertOptions(force=True))
    deploy(folder / "image.xml", DeployOptions(name="written", text=folder / "text.xml"), dsn)


def recall(dsn: str | None) -> Recall:
    """Load the held-out photographs, score them, and look for each by a sentence."""
    from dbinfer.database.connection import connect
    from dbinfer.images.sample import SampleOptions, sample
    from dbinfer.score import ScoreOptions, score

    sample("written", SampleOptions(table="written"), dsn)
    score("written", "seen", ScoreOptions(model="written", function="embed", replace=True), dsn)
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, boxes FROM written ORDER BY id")
        truths = {key: shown(boxes) for key, boxes in cursor.fetchall()}
        random, hits = np.random.default_rng(1), []
        for what in truths.values():
            query = f"SELECT id FROM dbinfer.similar('seen', text => %s, model => 'written', k => {FOUND})"
            cursor.execute(query, (sentence(what, random),))
            hits.append(any(truths[key] == what for (key,) in cursor.fetchall()))
    alike, total = Counter(truths.values()), len(truths)
    chance = [1 - comb(total - alike[what], FOUND) / comb(total, FOUND) for what in truths.values()]
    return Recall(fmean(hits), fmean(chance), total)


def main(dsn: str | None = None, count: str = "8000", epochs: str = "16") -> None:
    """Train, deploy, search, and say how it went."""
    with tempfile.TemporaryDirectory(prefix="dbinfer-bench-words-") as folder:
        train(Path(folder), int(count), int(epochs))
        deployed(Path(folder), dsn or None)
    found = recall(dsn or None)
    print(
        f"recall at {FOUND} of {found.photographs} sentences: {found.found:.3f}, by chance {found.chance:.3f}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
