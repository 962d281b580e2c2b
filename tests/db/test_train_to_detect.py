"""From training to SQL: what dbinfer.detect finds is what the Keras network finds, and so is its average precision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pytest
from float32 import tolerance
from psycopg2.extras import Json
from variants import at_length

import dbinfer
from dbinfer.images.boxes import Boxes, average_precision
from dbinfer.train.datasets import Written
from dbinfer.train.loader import Loader
from dbinfer.train.one_rank import found
from dbinfer_models import NETWORKS, write_manifest
from dbinfer_udf.manifest import Manifest

FINDER = NETWORKS["finder"]
COUNT = 24
FULL: dict[str, Any] = {
    "epochs": 6,
    "batch": 8,
    "lr": 0.003,
    "schedule": "cosine",
    "augment": True,
}


def _seeded(folder: Path) -> tuple[Any, Manifest]:
    """Save a network that was never trained, whose many boxes have sizes of 16 to 40 pixels; return it to judge it."""
    import keras

    keras.utils.set_random_seed(3)
    model = FINDER.build(base_width=4)
    model.get_layer("size_in_cells").bias.assign([7.0, 7.0])
    # Nothing has been normalised yet: scores would all be near 1, in no certain order
    kernel = model.get_layer("heatmap").kernel
    kernel.assign(kernel * 0.1)
    manifest = replace(FINDER.manifest(base_width=4), threshold=0.01, max_detections=30)
    model.save(folder / "finder.keras")
    write_manifest(folder, manifest)
    return FINDER.learner(model), manifest


def _found(model: Any, manifest: Manifest) -> list[Any]:
    loader = Loader(Written("heldout", COUNT).open(range(COUNT)), manifest)
    images = np.stack([loader.load(index)[0] for index in range(COUNT)])
    return [found(maps, manifest) for maps in model.predict(images, verbose=0)]


def _as_json(box: Any) -> dict[str, Any]:
    left, top, right, bottom, _, kind = (float(value) for value in box)
    return {
        "label": str(int(kind)),
        "x": left,
        "y": top,
        "width": right - left,
        "height": bottom - top,
    }


@pytest.mark.wide
def test_detect_finds_what_keras_finds(dsn: str, db: psycopg2.extensions.connection, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    ours = _found(*_seeded(tmp_path))
    dbinfer.convert(tmp_path / "finder.keras", tmp_path / "finder.xml")
    dbinfer.deploy(tmp_path / "finder.xml", dbinfer.DeployOptions(name="seeded"), dsn)
    dbinfer.sample("written", dbinfer.SampleOptions(table="seeds", count=COUNT), dsn)
    # Every second found box is true, but moved: some by so little that they count at 0.9, some hardly at 0.5
    true = [boxes[::2] + np.arange(len(boxes[::2]))[:, None] * [0.5, 0.3, 0.5, 0.3, 0, 0] for boxes in ours]
    with db.cursor() as cursor:
        for number, boxes in enumerate(true):
            values = Json([_as_json(box) for box in boxes]), f"written/{number:04d}.jpg"
            cursor.execute("UPDATE seeds SET boxes = %s WHERE path = %s", values)
        db.commit()
        cursor.execute(
            "SELECT path, d.x, d.y, d.x + d.width, d.y + d.height, d.score, d.class, d.label"
            " FROM seeds, unnest(dbinfer.detect(img, 'seeded')) WITH ORDINALITY AS"
            " d(label, class, score, x, y, width, height, place) ORDER BY path, place"
        )
        rows = cursor.fetchall()
    for number, boxes in enumerate(ours):
        theirs = [row[1:] for row in rows if row[0] == f"written/{number:04d}.jpg"]
        assert len(theirs) == len(boxes) > 10
        # sides of 128 pixels, 20 layers, the longest sum of 3 * 3 * 64 terms
        np.testing.assert_allclose([row[:6] for row in theirs], boxes, atol=tolerance(128.0, 20, 3 * 3 * 64))
        assert [row[6] for row in theirs] == [str(int(box[5])) for box in boxes]

    with_classes = [np.column_stack([boxes[:, :4], boxes[:, 5]]) for boxes in true]
    keras = average_precision([Boxes(*pair) for pair in zip(ours, with_classes, strict=True)])
    sql = dbinfer.judge("SELECT boxes, dbinfer.detect(img, 'seeded') FROM seeds", dsn)
    assert 0.1 < keras["map50_95"] < keras["map50"] < 0.9
    assert (sql.map50, sql.map50_95) == pytest.approx((keras["map50"], keras["map50_95"]), abs=1e-3)


@at_length
@pytest.mark.timeout(3600)  # minutes of two cores, which a loaded machine does not give
def test_a_trained_detector_keeps_its_precision(
    dsn: str, db: psycopg2.extensions.connection, tmp_path: Path
) -> None:
    trained = dbinfer.train("finder", "written:4000", dbinfer.TrainOptions(out=str(tmp_path), **FULL))
    print(trained.metrics)
    dbinfer.convert(trained.model, tmp_path / "finder.xml")
    dbinfer.deploy(tmp_path / "finder.xml", dbinfer.DeployOptions(name="trained"), dsn)
    dbinfer.sample("written", dbinfer.SampleOptions(table="all_written", count=800), dsn)
    sql = dbinfer.judge("SELECT boxes, dbinfer.detect(img, 'trained') FROM all_written", dsn)
    print(sql)
    assert sql.map50 == pytest.approx(trained.metrics["val_map50"], abs=2e-3)
    assert sql.map50_95 == pytest.approx(trained.metrics["val_map50_95"], abs=2e-3)
    assert sql.map50 >= 0.9
