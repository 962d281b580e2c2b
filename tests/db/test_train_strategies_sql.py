"""From each strategy to SQL: digits are read from a table, trained on, converted, deployed, and classified in SQL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from digit_tables import digit_table

from dbinfer.convert import convert
from dbinfer.models import DeployOptions, deploy
from dbinfer.train import TrainJob, run

pytestmark = pytest.mark.wide

QUERY = "SELECT img, label, id FROM dealt"
# The others read their images and write their model with the same code: with LONG=1
SHORT = ("mirrored",)
OTHERS = ("central", "downpour", "sandblaster")


@pytest.fixture(scope="module")
def images(dsn: str) -> str:
    return digit_table(dsn, "dealt", 150)


@pytest.mark.parametrize("strategy", SHORT + OTHERS if os.environ.get("LONG") else SHORT)
def test_what_a_strategy_trains_answers_in_sql_as_in_keras(
    strategy: str, images: str, db: psycopg2.extensions.connection, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"network_options": {"dropout": 0.0}, "device": "cpu", "val": "none"}
    training = {"epochs": 2, "batch": 16, "optimizer": "sgd", "lr": 0.02, "final": "last"}
    job = TrainJob(
        "digits", QUERY, images, strategy=strategy, ranks=2, out=str(tmp_path), **options, **training
    )
    report = run(job)
    assert report.run["images"] == {"train": 150, "validation": 0}
    convert(report.model, tmp_path / "digits.xml")
    deploy(tmp_path / "digits.xml", DeployOptions(name=strategy), images)
    with db.cursor() as cursor:
        cursor.execute("SELECT (dbinfer.classify(img, %s)).class FROM dealt ORDER BY id", (strategy,))
        found = [row[0] for row in cursor.fetchall()]
        cursor.execute(
            "SELECT manifest #>> '{provenance,training,strategy}' FROM dbinfer.model_versions WHERE name = %s",
            (strategy,),
        )
        assert cursor.fetchone() == (strategy,)
    assert found == in_keras(job, report.model)


def in_keras(job: TrainJob, path: Path) -> list[int]:
    """Return the class of each image by the trained model itself."""
    import keras
    import numpy as np

    from dbinfer.train.setup import make_setup

    setup = make_setup(job)
    loader = setup.training(0, 1).loader
    images = np.stack([loader.load(index)[0] for index in range(len(loader.samples))])
    setup.close()
    scores = keras.models.load_model(path).predict(images, verbose=0)
    return [int(number) for number in scores.argmax(axis=1)]
