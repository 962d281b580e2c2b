"""Training from SQL queries: the same shards and the same result as from the folder; queries that do not do."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg2
import pytest
from float32 import tolerance

from dbinfer.base.errors import DataError
from dbinfer.images import builtin
from dbinfer.images.builtin import write_strokes
from dbinfer.train import TrainJob, run
from dbinfer.train.data import find_source
from dbinfer.train.processes import check_built
from dbinfer.train.query import Snapshot
from dbinfer.train.setup import make_setup

SEGMENTS = "SELECT img, mask FROM strokes ORDER BY name"


@pytest.fixture(scope="module")
def strokes(empty_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve images with masks in a folder and in the table `strokes`; digits in the table `digits`."""
    folder = tmp_path_factory.mktemp("strokes")
    pairs = write_strokes(folder, "train", 12)
    with closing(psycopg2.connect(empty_dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE strokes (name text, img bytea, mask bytea)")
        for image, mask in reversed(pairs):
            values = (image.name, image.read_bytes(), mask.read_bytes())
            cursor.execute("INSERT INTO strokes VALUES (%s, %s, %s)", values)
        cursor.execute("CREATE TABLE digits (id int, img bytea, label int, word text)")
        for number, (data, label) in zip(range(40), builtin.digit_files("heldout"), strict=False):
            cursor.execute("INSERT INTO digits VALUES (%s, %s, %s, %s)", (number, data, label, f"no {label}"))
    return folder


@pytest.fixture
def job(strokes: Path, empty_dsn: str, tmp_path: Path) -> TrainJob:
    options = {"size": 16, "depth": 1, "base_width": 2}
    return TrainJob(
        "unet",
        SEGMENTS,
        out=str(tmp_path / "sql"),
        network_options=options,
        dsn=empty_dsn,
        epochs=2,
        batch=2,
        val_fraction=0.25,
    )


def test_each_rank_gets_the_rows_that_the_folder_gives_it(job: TrainJob, strokes: Path) -> None:
    sql, folder = make_setup(job), make_setup(replace(job, data=str(strokes)))
    assert list(sql.train.rows) == list(folder.train.rows)
    for rank in range(5):
        for part in ("training", "validation"):
            ours, theirs = getattr(sql, part)(rank, 5), getattr(folder, part)(rank, 5)
            assert (ours is None) is (theirs is None)
            if ours is not None:
                both = [pipeline.loader.samples for pipeline in (ours, theirs)]
                rows = [[one.read(i) for i in range(len(one))] for one in both]
                assert rows[0] == rows[1]
                assert rows[0]


@pytest.mark.wide
def test_training_gives_the_same_model_as_from_the_folder(
    job: TrainJob, strokes: Path, tmp_path: Path
) -> None:
    ranks = 2 if os.environ.get("LONG") else 1
    check_built("gloo")
    both = [
        replace(job, ranks=ranks),
        replace(job, ranks=ranks, data=str(strokes), out=str(tmp_path / "folder")),
    ]
    results = [run(one) for one in both]
    # two epochs of five steps; gradients and losses are sums over all pixels of a batch
    steps, terms = 2 * 5, 2 * ranks * 16 * 16
    rounding = tolerance(max(results[1].metrics.values()), steps, terms)
    assert results[0].metrics == pytest.approx(results[1].metrics, abs=rounding)
    weights = []
    for one in both:
        with np.load(one.folder / "checkpoint-2" / "weights.npz") as arrays:
            weights.append([arrays[name] for name in arrays.files])
    differences = [float(np.abs(a - b).max()) for a, b in zip(*weights, strict=True)]
    assert max(differences) <= tolerance(weights[1], steps, terms)
    assert "password" not in results[0].manifest.read_text()


def test_without_an_order_all_ranks_see_the_same_one(empty_dsn: str, strokes: Path) -> None:
    one = find_source("SELECT img, mask FROM strokes WHERE name LIKE '0%';", Snapshot(empty_dsn))
    other = find_source(
        "SELECT img, mask FROM (SELECT * FROM strokes ORDER BY name) s WHERE true", Snapshot(empty_dsn)
    )
    rows = [
        [source.open(range(12)).read(i) for i in range(12)]
        for source in (one, find_source(SEGMENTS, Snapshot(empty_dsn)))
    ]
    assert other.count() == 12
    assert sorted(rows[0]) == sorted(rows[1])  # type: ignore[type-var]
    first, second = (
        find_source("SELECT img, mask FROM strokes", Snapshot(empty_dsn)).open(range(3, 9)) for _ in range(2)
    )
    assert [first.read(i) for i in range(6)] == [second.read(i) for i in range(6)]


@pytest.mark.parametrize(("column", "labels"), [("label", "0123456789"), ("word", None)])
def test_labels_are_numbers_or_words(empty_dsn: str, strokes: Path, column: str, labels: str | None) -> None:
    source = find_source(f"SELECT img, {column} FROM digits ORDER BY id", Snapshot(empty_dsn))
    assert source.labels == (tuple(labels) if labels else tuple(f"no {digit}" for digit in range(10)))
    files = list(builtin.digit_files("heldout"))
    found = source.open([0, 7, 8, 39])
    assert [found.read(index) for index in range(4)] == [files[row] for row in (0, 7, 8, 39)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT img FROM strokes",
            "the query returns the columns img, but must return an image and a mask, boxes or label",
        ),
        ("SELECT name, mask FROM strokes", "the query returns the columns name, mask, but"),
        ("SELECT img, mask FROM nowhere", 'relation "nowhere" does not exist'),
        ("SELECT img, label FROM digits WHERE false", "the query returns no rows"),
        (
            "WITH x AS (DELETE FROM digits RETURNING *) SELECT img, label FROM x",
            "must be at the top level|read-only",
        ),
    ],
)
def test_a_query_that_does_not_do(empty_dsn: str, strokes: Path, query: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_source(query, Snapshot(empty_dsn))


def test_a_null_is_named(empty_dsn: str, strokes: Path) -> None:
    source = find_source(
        "SELECT img, CASE WHEN name > '0005' THEN mask END FROM strokes ORDER BY name", Snapshot(empty_dsn)
    )
    with pytest.raises(DataError, match="row 0 of the query has a NULL"):
        source.open(range(12))
