"""dbinfer.detect: boxes in pixels of the image as shown, suppression, and what others say of a detector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import ModelFileError
from dbinfer.models import DeployOptions, deploy

FOUND = [
    (1, 2, 5, 6, 0.75, 1),
    (1, 2, 5, 5, 0.875, 1),
    (1, 2, 5, 5, 0.5, 0),
    (0, 0, 8, 8, 0.25, 0),
    (0, 0, 1, 1, 0, 0),
]
QUERY = "SELECT d.label, d.class, d.score, d.x, d.y, d.width, d.height FROM unnest(dbinfer.detect(%s, %s)) d"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.boxes(folder, FOUND, labels=["a", 'b "c"']), dsn=dsn)
    suppressing = tiny_models.boxes(folder, FOUND, "suppressing", iou_threshold=0.5, threshold=0.25)
    deploy(suppressing, dsn=dsn)
    deploy(tiny_models.red_box(folder, resize="fit_to_window_letterbox"), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    return folder


def file(width: int = 80, height: int = 40) -> bytes:
    return tiny_models.file(np.zeros((height, width, 3), np.uint8))


def test_objects_come_with_label_score_and_box(db: Connection) -> None:
    found = rows(db, QUERY, file(), "boxes")
    assert found == [
        ('b "c"', 1, 0.875, 10, 10, 40, 15),
        ('b "c"', 1, 0.75, 10, 10, 40, 20),
        ("a", 0, 0.5, 10, 10, 40, 15),
    ]


def test_suppression_is_per_class(db: Connection) -> None:
    found = [(number, score) for _, number, score, *_ in rows(db, QUERY, file(), "suppressing")]
    assert found == [(1, 0.875), (0, 0.5), (0, 0.25)]


def test_a_box_comes_back_through_letterbox_and_exif_turn(db: Connection) -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[10:30, 20:40, 0] = 255
    assert rows(db, QUERY, tiny_models.file(pixels), "redbox") == [("thing", 0, 1, 20, 10, 20, 20)]
    turned = tiny_models.file(
        np.rot90(pixels),
        "JPEG",
        quality=100,
        exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
    )
    assert rows(db, QUERY, turned, "redbox") == [("thing", 0, 1, 20, 10, 20, 20)]


def test_nothing_found_is_empty_and_null_is_null(db: Connection) -> None:
    assert ask(db, "SELECT dbinfer.detect(%s, 'redbox')::text", file()) == "{}"
    assert ask(db, "SELECT dbinfer.detect(NULL, 'redbox') IS NULL") is True
    assert ask(db, "SELECT dbinfer.detect('\\x00', 'redbox', 'null') IS NULL") is True


def test_predict_and_profile_take_a_detector(db: Connection) -> None:
    assert ask(db, "SELECT dbinfer.predict(%s, 'boxes')", file())[:6] == [1, 2, 5, 6, 0.75, 1]
    assert ask(db, "SELECT dbinfer.profile(%s, 'boxes')", file())["microseconds"]["postprocess"] > 0


def test_a_model_of_another_task_is_refused(db: Connection) -> None:
    with pytest.raises(psycopg2.Error, match=r"is for classification, but detect\(\) needs detection"):
        ask(db, "SELECT dbinfer.detect(%s, 'colours')", file())
    with pytest.raises(psycopg2.Error, match="is for detection") as refused:
        ask(db, "SELECT dbinfer.classify(%s, 'boxes')", file())
    assert "Call dbinfer.detect, instances or predict" in str(refused.value)


def test_an_output_of_another_form_is_not_deployed(dsn: str, models: Path) -> None:
    with pytest.raises(ModelFileError, match=r"but a detector's is \[1, N, 6\]"):
        deploy(models / "colours.xml", DeployOptions("bad", values={"task": "detection"}), dsn)
