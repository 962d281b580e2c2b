"""Measures what a cascade saves, as dbinfer.cheaply and as one model: python tests/bench/cascade.py [AGREEMENT].

A small and a large network learn scikit-learn's digits, each turned and shifted a little, ten times. As many forms of
the held-out digits are the table. The threshold comes from a sample of it; agreement is counted on all of it, and the
rates are the best of three turns. The database is $DBINFER_DSN or the embedded server; the tables of the schema cascade
are made anew, the models are called small and large.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import cv2
import numpy as np
from psycopg2 import Binary

import dbinfer
from dbinfer.database.connection import connect
from dbinfer.images import builtin

FORMS = {"train": 8, "heldout": 56}  # of each image: 11,504 rows to learn from, 20,104 to score
LARGE = """
import keras
from keras import layers


def build(classes):
    image = x = keras.Input((28, 28, 1))
    for width in (48, 96):
        for _ in range(2):
            x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D(2)(x)
    x = layers.Dropout(0.25)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(classes, activation="softmax")(x))
"""
ASKED = {
    "small": "dbinfer.classify(img, 'small')",
    "large": "dbinfer.classify(img, 'large')",
    "cheaply": "dbinfer.cheaply(img, 'small', 'large', {})",
    "one model": "dbinfer.classify(img, 'small-large')",
}


def run(query: str, *values: Any) -> list[Any]:
    """Execute one statement."""
    with closing(connect()) as conn, conn, conn.cursor() as cur:
        cur.execute(query, values or None)
        return cur.fetchall() if cur.description else []


def form(img: bytes, random: np.random.Generator) -> bytes:
    """Return the picture turned and shifted a little, with some noise."""
    pixels = cv2.imdecode(np.frombuffer(img, np.uint8), cv2.IMREAD_GRAYSCALE)
    height, width = pixels.shape
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), random.uniform(-12, 12), random.uniform(0.9, 1.1))
    turn[:, 2] += random.uniform(-0.06, 0.06, 2) * (width, height)
    moved = cv2.warpAffine(pixels, turn, (width, height), flags=cv2.INTER_LINEAR) + random.normal(
        0, 8, pixels.shape
    )
    return bytes(cv2.imencode(".png", np.clip(moved, 0, 255).astype(np.uint8))[1])


def make() -> None:
    """Make the tables anew."""
    run("DROP SCHEMA IF EXISTS cascade CASCADE")
    run("CREATE SCHEMA cascade")
    random = np.random.default_rng(0)
    for part, forms in FORMS.items():
        run(f"CREATE TABLE cascade.{part} (id int PRIMARY KEY, img bytea, label text)")
        images, labels = zip(*builtin.digit_files(part), strict=True)
        for number in range(forms):
            values = (
                [number * len(labels) + place for place in range(len(labels))],
                [Binary(form(img, random)) for img in images],
                list(map(str, labels)),
            )
            rows = "unnest(%s::int[], %s::bytea[], %s::text[])"
            run(f"INSERT INTO cascade.{part} SELECT * FROM {rows}", *values)
        run(f"ANALYZE cascade.{part}")


def learn(network: str, name: str, folder: str) -> float:
    """Train a network and deploy it; return its accuracy on the table."""
    options = dbinfer.TrainOptions(
        out=folder, epochs=6, batch=32, lr=0.001, schedule="cosine", final="last", deploy=name, activate=True, seed=0,
        val="SELECT img, label, id FROM cascade.heldout WHERE id < 2000",
    )  # fmt: skip
    return dbinfer.train(network, "SELECT img, label, id FROM cascade.train", options).metrics["val_accuracy"]


def main(agreement: float) -> None:
    """Print accuracy, threshold, agreement and rates."""
    make()
    with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
        own = Path(folder, "large.py")
        own.write_text(LARGE)
        for network, name in (("digits", "small"), (str(own), "large")):
            print(f"{name}: accuracy {learn(network, name, f'{folder}/{name}'):.4f}", flush=True)
    query = "SELECT * FROM dbinfer.cheap_threshold('cascade.heldout', 'small', 'large', agreement => %s)"
    ((threshold, answered, agreed, scored),) = run(query, agreement)
    print(f"threshold {threshold:.6g} answers {answered:.4f} of {scored} rows, of which {agreed:.4f} agree")
    dbinfer.deploy("cascade:small+large", dbinfer.DeployOptions(sure=threshold))
    asked = {name: call.format(threshold) for name, call in ASKED.items()}
    labels = ", ".join(f'({call}).label AS "{name}"' for name, call in asked.items())
    counted = (
        "SELECT avg((cheaply = large)::int), avg((cheaply = label)::int), avg((large = label)::int),"
        ' avg((small = label)::int), avg(("one model" = cheaply)::int)'
        f" FROM (SELECT label, {labels} FROM cascade.heldout OFFSET 0) t"
    )
    ((same, *right, as_one),) = run(counted)
    print(f"agreement on all rows {same:.4f}; accuracy " + ", ".join(f"{one:.4f}" for one in right))
    print(f"as one model the same label for {as_one:.6f}")
    best = dict.fromkeys(asked, float("inf"))
    with closing(connect()) as conn, conn.cursor() as cur:
        for name, call in [*asked.items()] * 3:
            began = perf_counter()
            cur.execute(f"SELECT count(({call}).label) FROM cascade.heldout")
            best[name] = min(best[name], perf_counter() - began)
    ((rows,),) = run("SELECT count(*) FROM cascade.heldout")
    print(", ".join(f"{name} {rows / seconds:.0f}/s" for name, seconds in best.items()))
    for name in ("cheaply", "one model"):
        print(f"{name} against the large one: {best['large'] / best[name]:.2f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 0.995)
