"""Training data with boxes from a user's own table: every form that a column may have, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pytest

from dbinfer.base.errors import DataError
from dbinfer.images import boxes
from dbinfer.images.builtin import written
from dbinfer.train import TrainJob, run
from dbinfer.train.data import find_source
from dbinfer.train.query import Snapshot
from dbinfer.train.source import Source

TABLE = """
CREATE TYPE marked AS (label text, x real, y real, width real, height real, by_whom text);
CREATE TABLE written (id int, img bytea, boxes jsonb, rows marked[], plain json);
"""
COLUMNS = ("boxes", "rows", "plain")


@pytest.fixture(scope="module")
def table(empty_dsn: str) -> str:
    """Twelve stroke images with their boxes in three forms, without any object of dbinfer."""
    with closing(psycopg2.connect(empty_dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(TABLE)
        for number, one in enumerate(written("train", range(12))):
            text = json.dumps(one.boxes)
            cursor.execute(
                "INSERT INTO written SELECT %s, %s, %s, array(SELECT m FROM"
                " jsonb_populate_recordset(NULL::marked, %s) m), %s",
                (number, one.image, text, text, text),
            )
    return empty_dsn


@pytest.fixture
def snapshot(table: str) -> Iterator[Snapshot]:
    opened = Snapshot(table)
    yield opened
    opened.close()


def _rows(source: Source) -> list[tuple[bytes, Any]]:
    opened = source.open(range(source.count()))
    pairs = [opened.read(index) for index in range(len(opened))]
    return [(image, np.asarray(boxes.unpacked(target)).tolist()) for image, target in pairs]  # type: ignore[arg-type]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("order", [", id FROM written", " FROM written ORDER BY id", " FROM written"])
def test_every_form_gives_the_same_boxes(snapshot: Snapshot, column: str, order: str) -> None:
    if snapshot.on_segments and ", id" not in order:
        with pytest.raises(DataError, match="on Greenplum a query for boxes needs a unique key"):
            find_source(f"SELECT img, {column}{order}", snapshot)
        return
    source = find_source(f"SELECT img, {column}{order}", snapshot)
    assert source.task == "detection"
    labels = sorted({str(box["label"]) for one in written("train", range(12)) for box in one.boxes})
    assert source.labels == tuple(labels)
    numbers = {label: number for number, label in enumerate(labels)}
    wanted = [
        (one.image, boxes.unpacked(boxes.packed(one.boxes, numbers, "it")).tolist())
        for one in written("train", range(12))
    ]
    found = _rows(source)
    ordered = "id" in order
    assert (found if ordered else sorted(found)) == (wanted if ordered else sorted(wanted))


def test_classes_of_the_training_hold_for_the_validation(snapshot: Snapshot) -> None:
    labels = tuple("0123456789")
    assert find_source("SELECT img, boxes, id FROM written", snapshot, labels).labels == labels
    with pytest.raises(DataError, match=r"the query returns the class '\d', but the classes are cat"):
        find_source("SELECT img, boxes, id FROM written", snapshot, ("cat",))


def test_images_without_objects_are_images(snapshot: Snapshot) -> None:
    text = "SELECT img, CASE WHEN id % 2 = 0 THEN boxes ELSE '[]' END, id FROM written"
    assert [found for _, found in _rows(find_source(text, snapshot))][1::2] == [[]] * 6


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("'[]'::jsonb", "no row of the query has a box"),
        ("boxes->0", r"the boxes of a row of the query are \{.*, but must be a list"),
        ("'[{\"x\": 1}]'::jsonb", "box 1 of a row of the query has the label null"),
        ("ARRAY[1.5, 2]", "must return an image and a mask, boxes or label"),
        ("'{}'::point", "invalid input syntax for type point"),
    ],
)
def test_a_column_that_does_not_do(snapshot: Snapshot, column: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_source(f"SELECT img, {column}, id FROM written", snapshot)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("CASE WHEN id < 11 THEN boxes END", "row 11 of the query has a NULL"),
        (
            "jsonb_set(boxes, '{0,width}', CASE WHEN id = 7 THEN '-3' ELSE '5' END::jsonb)",
            r"box 1 of row 7 of the query has -3 x \d+ pixels, but must have an area",
        ),
        (
            "jsonb_set(boxes, '{0,x}', CASE WHEN id = 7 THEN 'null' ELSE '5' END::jsonb)",
            "box 1 of row 7 of the query has the x null, but must have a number",
        ),
    ],
)
def test_bad_boxes_of_a_row_are_named_before_the_training(
    snapshot: Snapshot, column: str, message: str
) -> None:
    source = find_source(f"SELECT img, {column}, id FROM written", snapshot)
    with pytest.raises(DataError, match=message):
        source.open(range(12))


@pytest.mark.wide
def test_training_from_the_table(table: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    query = "SELECT img, rows, id FROM written"
    how = {"network_options": {"base_width": 2}, "epochs": 1, "batch": 4, "val_fraction": 0.25}
    done = run(TrainJob("finder", query, out=str(tmp_path), dsn=table, **how))  # type: ignore[arg-type]
    assert "val_map50" in done.metrics
    assert json.loads(done.manifest.read_text())["task"] == "detection"
