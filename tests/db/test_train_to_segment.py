"""From two ranks to SQL: a U-Net keeps its dice through conversion, deployment and dbinfer.segment; masks of several
classes, from a query to SQL.
"""

from __future__ import annotations

import io
from pathlib import Path

import cv2
import numpy as np
import psycopg2
import pytest
from PIL import Image
from variants import at_length

import dbinfer
from dbinfer.convert import convert
from dbinfer.images.builtin import stroke_files
from dbinfer.models import DeployOptions, deploy
from dbinfer.models.agree import dice
from dbinfer.train import TrainJob, run
from dbinfer.train.processes import check_built
from dbinfer_models import VOID

pytestmark = pytest.mark.wide


@at_length
@pytest.mark.timeout(1800)  # a minute and a half on two idle cores, which a loaded machine does not give
def test_dice_from_sql_is_that_of_the_training(
    dsn: str, db: psycopg2.extensions.connection, tmp_path: Path
) -> None:
    check_built("mpi")
    options = {"size": 128, "depth": 3, "base_width": 8}
    how = {
        "epochs": 12,
        "batch": 4,
        "lr": 2.5e-3,
        "schedule": "cosine",
        "ranks": 2,
        "launcher": "mpi",
        "warmup": 1,
    }
    result = run(TrainJob("unet", "strokes", out=str(tmp_path), network_options=options, **how))  # type: ignore[arg-type]
    trained = result.metrics["val_dice_coefficient"]
    assert trained >= 0.90

    convert(result.model, tmp_path / "strokes.xml")
    deploy(tmp_path / "strokes.xml", DeployOptions(name="strokes"), dsn)
    scores = [_dice(db, image, mask) for image, mask in stroke_files("heldout", range(96))]
    assert np.mean(scores) == pytest.approx(trained, abs=0.01)

    with db.cursor() as cursor:
        cursor.execute(
            "SELECT manifest #>> '{metrics,val_dice_coefficient}' FROM dbinfer.model_versions WHERE name = 'strokes'"
        )
        assert cursor.fetchone() == (str(trained),)


def _dice(db: psycopg2.extensions.connection, image: bytes, mask: bytes) -> float:
    with db.cursor() as cursor:
        cursor.execute("SELECT dbinfer.segment(%s, 'strokes')", (image,))
        row = cursor.fetchone()
    assert row is not None
    found, true = (cv2.imdecode(np.frombuffer(data, np.uint8), 0) > 127 for data in (row[0], mask))
    return float((2 * (found & true).sum() + 1) / (found.sum() + true.sum() + 1))


SHAPES, HELDOUT = 90, 20
NAMES = '["ground", "square", "disc"]'
BY_COLOUR = f"""
import keras
from keras import layers


def build(classes=3):
    image = keras.Input((64, 64, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    return keras.Model(image, layers.Conv2D(classes, 1, activation="softmax")(x))


def manifest():
    return {{"labels": {NAMES}}}
"""


def shapes(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a photograph of noise with a square and a disc, in colours that change, and the class of each pixel.

    0 is the ground, 1 the square, 2 the disc; the edge of each counts for nothing.
    """
    random = np.random.default_rng(number)
    image = random.integers(90, 130, (64, 80, 3)).astype(np.uint8)
    mask = np.zeros((64, 80), np.uint8)
    x, y, side = random.integers(4, 18), random.integers(4, 34), int(random.integers(12, 24))
    light = int(random.integers(170, 250))
    for target, square, disc in ((image, (light, 60, 60), (60, light, 60)), (mask, 1, 2)):
        cv2.rectangle(target, (int(x), int(y)), (int(x) + side, int(y) + side), square, -1)
        cv2.circle(target, (60, int(y) + 12), side // 2, disc, -1)
    for part in (1, 2):
        outline, _ = cv2.findContours(
            (mask == part).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
        )
        cv2.drawContours(mask, outline, -1, VOID, 1)
    return image, mask


def test_masks_of_several_classes(db: psycopg2.extensions.connection, dsn: str, tmp_path: Path) -> None:
    """A palette says which class a pixel has, as annotation tools write it; SQL gives the numbers back."""
    check_built("gloo")
    with db.cursor() as cursor:
        cursor.execute("CREATE TABLE shapes (id int PRIMARY KEY, img bytea, mask bytea)")
        for number in range(SHAPES):
            image, mask = shapes(number)
            files = [io.BytesIO(), io.BytesIO()]
            Image.fromarray(image).save(files[0], "PNG")
            coloured = Image.fromarray(mask)
            coloured.putpalette([0, 0, 0, 250, 0, 0, 0, 250, 0] + [90] * (253 * 3))
            coloured.save(files[1], "PNG")
            cursor.execute(
                "INSERT INTO shapes VALUES (%s, %s, %s)", (number, *(one.getvalue() for one in files))
            )
    db.commit()
    (tmp_path / "by_colour.py").write_text(BY_COLOUR)
    data, val = (f"SELECT img, mask, id FROM shapes WHERE id {part} {HELDOUT}" for part in (">=", "<"))
    how = {"epochs": 14, "batch": 5, "lr": 0.03, "ranks": 2, "launcher": "gloo", "warmup": 0}
    options = dbinfer.TrainOptions(val=val, out=str(tmp_path / "first"), deploy="shapes", **how)  # type: ignore[arg-type]
    report = dbinfer.train(str(tmp_path / "by_colour.py"), data, options, dsn)
    again = dbinfer.TrainOptions(val=val, out=str(tmp_path / "more"), epochs=1, deploy="shapes", lr=1e-4)
    dbinfer.activate("shapes@1", dsn)
    more = dbinfer.train(str(report.model), data, again, dsn)
    with db.cursor() as cursor:
        cursor.execute(
            "SELECT id, dbinfer.segment(img, 'shapes') FROM shapes WHERE id < %s ORDER BY id", (HELDOUT,)
        )
        found = [cv2.imdecode(np.frombuffer(data, np.uint8), 0) for _, data in cursor.fetchall()]
        cursor.execute(
            "SELECT version, manifest->>'labels' FROM dbinfer.model_versions WHERE name = 'shapes' ORDER BY 1"
        )
        assert cursor.fetchall() == [(1, NAMES), (2, NAMES)]
    overlaps = []
    for number, answer in enumerate(found):
        mask = shapes(number)[1]
        known = mask != VOID
        overlaps.append(dice(answer[known] + 1, mask[known] + 1))
    print(f"dice of {HELDOUT} held-out images, in SQL: {np.mean(overlaps):.4f}")
    assert np.mean(overlaps) > 0.9
    comparison = more.comparison
    assert (comparison.measure, comparison.images) == ("dice", HELDOUT)
    assert comparison.old == pytest.approx(np.mean(overlaps), abs=1e-6)
