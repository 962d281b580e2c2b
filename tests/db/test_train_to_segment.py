"""From two ranks to SQL: the strokes U-Net keeps its dice through conversion, deployment and dbinfer.segment."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import psycopg2
import pytest

from dbinfer.convert import convert
from dbinfer.images.builtin import stroke_files
from dbinfer.models import DeployOptions, deploy
from dbinfer.train import TrainJob, run
from dbinfer.train.processes import check_built

pytestmark = pytest.mark.wide

# a minute and a half on two idle cores, far more beside other tests
FULL = {"epochs": 12, "depth": 3, "dice": 0.90, "apart": 0.01}
# its edges are soft: there the mask in the image's own size differs from that in the network's
SHORT = {"epochs": 3, "depth": 2, "dice": 0.50, "apart": 0.06}
CASE = FULL if os.environ.get("LONG") else SHORT


@pytest.mark.timeout(1800)  # minutes of two cores, which a loaded machine does not give
def test_dice_from_sql_is_that_of_the_training(
    dsn: str, db: psycopg2.extensions.connection, tmp_path: Path
) -> None:
    check_built("mpi")
    options = {"size": 128, "depth": CASE["depth"], "base_width": 8}
    how = {
        "epochs": CASE["epochs"],
        "batch": 4,
        "lr": 2.5e-3,
        "schedule": "cosine",
        "ranks": 2,
        "launcher": "mpi",
        "warmup": 1,
    }
    result = run(TrainJob("unet", "strokes", out=str(tmp_path), network_options=options, **how))  # type: ignore[arg-type]
    trained = result.metrics["val_dice_coefficient"]
    assert trained >= CASE["dice"]

    convert(result.model, tmp_path / "strokes.xml")
    deploy(tmp_path / "strokes.xml", DeployOptions(name="strokes"), dsn)
    scores = [_dice(db, image, mask) for image, mask in stroke_files("heldout", range(96))]
    assert np.mean(scores) == pytest.approx(trained, abs=CASE["apart"])

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
