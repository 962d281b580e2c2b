"""Labels that say which images belong together: learned from some groups, members of others find each other in SQL."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from asking import rows
from psycopg2.extensions import connection as Connection
from psycopg2.extras import execute_values
from variants import at_length

from dbinfer.images.builtin import encode, photographs
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[train]", allow_module_level=True)

pytestmark = [pytest.mark.wide, at_length]

KNOWN, NEW, EACH, EPOCHS = 200, 50, 20, 25
SIZE = 48

# docs/how-to/train.md has this network
NETWORK = """
import keras
from keras import layers


def build(classes, size=64, scale=16.0):
    image = x = keras.Input((48, 48, 1))
    for filters in (24, 48, 72, 96):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(size)(layers.Flatten()(x))
    x = layers.UnitNormalization(name="embedding")(x)
    x = layers.Dense(classes, use_bias=False, kernel_constraint="unit_norm")(x)
    return keras.Model(image, layers.Rescaling(scale)(x))
"""
PROGRAM = """
import sys
import dbinfer

dsn, network, query, out, epochs = sys.argv[1:]
rates = {"lr": 0.003, "schedule": "cosine", "final": "last"}
options = dbinfer.TrainOptions(epochs=int(epochs), augment=True, out=out, **rates)
report = dbinfer.train(network, query, options, dsn)
layer = dbinfer.ConvertOptions(output_name="embedding", values={"name": "signs"})
assert dbinfer.convert(report.model, f"{out}/signs.xml", layer).manifest.task == "embedding"
"""


def strokes(random: np.random.Generator) -> Any:
    """Return a sign: three curves (Bezier), (3, 16, 2), around its middle."""
    step = np.linspace(0, 1, 16)[:, None]
    basis = np.hstack([(1 - step) ** 3, 3 * step * (1 - step) ** 2, 3 * step**2 * (1 - step), step**3])
    return np.stack([basis @ random.uniform(-14, 14, (4, 2)) for _ in range(3)])


def drawn(sign: Any, random: np.random.Generator) -> Any:
    """Return the sign on a piece of a photograph: turned, moved, shaken, darker or lighter than that."""
    photograph = photographs()[random.integers(2)].mean(axis=2)
    row, column = (random.integers(side - SIZE) for side in photograph.shape)
    piece = photograph[row : row + SIZE, column : column + SIZE].copy()
    angle, size = np.deg2rad(random.uniform(-15, 15)), random.uniform(0.85, 1.15)
    turn = size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    points = (sign + random.normal(0, 0.4, sign.shape)) @ turn.T + SIZE / 2 + random.uniform(-4, 4, 2)
    ink = np.zeros((SIZE, SIZE), np.uint8)
    cv2.polylines(ink, list(np.round(points * 16).astype(np.int32)), False, 255, 2, cv2.LINE_AA, 4)  # type: ignore[call-overload]
    piece += ink / 255 * random.uniform(0.7, 0.95) * (random.choice([0, 255]) - piece)
    return piece.round().clip(0, 255).astype(np.uint8)


def test_members_of_new_groups_find_each_other(db: Connection, dsn: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images = [
        (number * EACH + place, f"{number:03d}", drawn(sign, random))
        for number, sign in enumerate(strokes(random) for _ in range(KNOWN + NEW))
        for place in range(EACH)
    ]
    rows(db, "CREATE TABLE signs (id int PRIMARY KEY, sign text, img bytea)")
    with db.cursor() as cursor:
        values = [(number, sign, encode(".png", image)) for number, sign, image in images]
        execute_values(cursor, "INSERT INTO signs VALUES %s", values)
    rows(db, f"CREATE TABLE new_signs AS SELECT * FROM signs WHERE sign >= '{KNOWN:03d}'")
    rows(db, "ALTER TABLE new_signs ADD PRIMARY KEY (id)")

    # What people know is often which pairs belong together; the groups follow, as docs/how-to/train.md has it
    pairs = [(number, number + 1) for number in range(KNOWN * EACH) if (number + 1) % EACH]
    rows(db, "CREATE TABLE pairs (one int, other int)")
    with db.cursor() as cursor:
        execute_values(cursor, "INSERT INTO pairs VALUES %s", pairs)
    rows(db, GROUPS)
    assert rows(db, "SELECT count(*), count(DISTINCT label) FROM grouped") == [(KNOWN * EACH, KNOWN)]

    network = tmp_path / "signs.py"
    network.write_text(NETWORK)
    query = "SELECT s.img, g.label, s.id FROM signs s JOIN grouped g USING (id)"
    words = [
        sys.executable,
        "-c",
        PROGRAM,
        dsn,
        str(network),
        query,
        str(tmp_path / "run"),
        str(EPOCHS),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    deploy(tmp_path / "run" / "signs.xml", dsn=dsn)
    score("new_signs", "vectors", ScoreOptions(model="signs", function="embed"), dsn)
    ((found,),) = rows(db, NEAREST)
    pixels = nearest_by_pixels([(sign, image) for _, sign, image in images[KNOWN * EACH :]])
    print(
        f"\nnearest of {NEW * EACH} images of {NEW} new signs shows the same: {found:.3f}, by pixels {pixels:.3f}"
    )
    # What the pixels themselves tell is not what was learned
    assert found > 1.3 * pixels


GROUPS = """
CREATE TABLE grouped AS
WITH RECURSIVE linked(one, other) AS (SELECT one, other FROM pairs UNION SELECT other, one FROM pairs),
               reached(id, member) AS (SELECT one, one FROM linked
                                       UNION SELECT id, other FROM reached JOIN linked ON one = member)
SELECT id, 'group ' || min(member) AS label FROM reached GROUP BY id
"""
NEAREST = """
SELECT avg((near.sign = s.sign)::int)::float8 FROM new_signs s JOIN vectors v USING (id) CROSS JOIN LATERAL (
    SELECT o.sign FROM new_signs o JOIN vectors w USING (id) WHERE o.id <> s.id
     ORDER BY dbinfer.cosine_distance(v.embedding, w.embedding) LIMIT 1) near
"""


def nearest_by_pixels(images: list[tuple[str, Any]]) -> float:
    """Return the share of images of which the one with the most similar pixels (cosine, centred) has the same sign."""
    pixels = np.stack([image for _, image in images]).reshape(len(images), -1).astype(float)
    pixels -= pixels.mean(axis=1, keepdims=True)
    pixels /= np.linalg.norm(pixels, axis=1, keepdims=True)
    likeness = pixels @ pixels.T
    np.fill_diagonal(likeness, -1)
    signs = np.array([sign for sign, _ in images])
    return float((signs[likeness.argmax(axis=1)] == signs).mean())
