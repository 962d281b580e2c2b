"""One snapshot for training and validation and for all ranks, while another session inserts, updates and deletes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psycopg2
import pytest

from dbinfer.base.errors import DataError, TrainError
from dbinfer.train import TrainJob
from dbinfer.train.data import find_source
from dbinfer.train.processes import check_built, launch
from dbinfer.train.query import Snapshot
from dbinfer.train.setup import make_setup

PROBE = Path(__file__).parents[1] / "unit" / "train_probe.py"
ROWS = 400
STEPS = 64  # 16 bits tell as many changes apart
QUERIES = {
    "key": "SELECT img, label, id FROM scans",
    "order": "SELECT img, label FROM scans ORDER BY id DESC",
    "content": "SELECT img, label FROM scans",
}


def image(number: int) -> bytes:
    """Return a PNG that no other number has."""
    pixels = np.zeros((28, 28), np.uint8)
    pixels[0, :16] = [255 * (number >> bit & 1) for bit in range(16)]
    return bytes(cv2.imencode(".png", pixels)[1].tobytes())


def number_of(data: bytes) -> int:
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    return sum(int(pixels[0, bit] > 0) << bit for bit in range(16))


@pytest.fixture
def scans(empty_dsn: str) -> str:
    """A table of images that all differ, ids 0 to 399; label 0 is that of the unchanged rows."""
    with closing(psycopg2.connect(empty_dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS scans")
        cursor.execute("CREATE TABLE scans (id int PRIMARY KEY, img bytea, label int)")
        for number in range(ROWS):
            cursor.execute("INSERT INTO scans VALUES (%s, %s, %s)", (number, image(number), number % 2))
    return empty_dsn


def change(dsn: str, step: int) -> None:
    """Insert 50 rows, delete some, and give one row another image, all in one transaction; see `state`."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        for number in range(1000 * step, 1000 * step + 50):
            cursor.execute("INSERT INTO scans VALUES (%s, %s, %s)", (number, image(number), number % 2))
        cursor.execute("DELETE FROM scans WHERE mod(id, 20) = %s", (step,))
        new = image(1000 * step + 60)
        cursor.execute("UPDATE scans SET img = %s WHERE id = %s", (new, 100 + step))


def state(steps: int) -> list[int]:
    """Return the numbers of the images after so many changes."""
    rows = {number: number for number in range(ROWS)}
    for step in range(1, steps + 1):
        rows |= {number: number for number in range(1000 * step, 1000 * step + 50)}
        rows = {id: number for id, number in rows.items() if id % 20 != step}
        if 100 + step in rows:
            rows[100 + step] = 1000 * step + 60
    return sorted(rows.values())


def numbers(pipeline: Any) -> list[int]:
    samples = pipeline.loader.samples
    return [number_of(samples.read(index)[0]) for index in range(len(samples))]


@pytest.mark.parametrize("query", QUERIES)
def test_nothing_is_both_trained_and_validated_on_while_the_table_changes(scans: str, query: str) -> None:
    with closing(make_setup(TrainJob("digits", QUERIES[query], scans, val_fraction=0.2))) as setup:
        change(scans, 1)
        train = numbers(setup.training(0, 1))
        change(scans, 2)
        val = numbers(setup.validation(0, 1))
    print(
        f"{len(set(train) & set(val))} of {len(val)} validation images were trained on; {len(train)} trained"
    )
    assert set(train) & set(val) == set()
    assert sorted(train + val) == list(range(ROWS))


@contextmanager
def changing(dsn: str) -> Iterator[None]:
    """Change the table again and again while the block runs."""
    over = threading.Event()

    def go_on() -> None:
        for step in range(1, STEPS):
            if over.wait(0.5):
                return
            change(dsn, step)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("on_segments", [False, True], ids=["snapshot", "spool"])
@pytest.mark.wide
def test_all_ranks_read_one_state_and_each_row_once(
    scans: str, tmp_path: Path, on_segments: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greenplum exports no snapshot: there the launching process reads for all ranks of its host."""
    check_built("gloo")
    if on_segments:
        monkeypatch.setattr(Snapshot, "on_segments", True)
    job = TrainJob("digits", QUERIES["key"], scans, out=str(tmp_path), ranks=2, val_fraction=0.2)
    with changing(scans):
        launch(job, worker=[str(PROBE), "reading"])
    read = [np.load(tmp_path / f"rank-{rank}.npz") for rank in range(2)]
    parts = [[int(n) for n in one[part]] for part in ("train", "val") for one in read]
    delivered = sum(map(len, parts))
    print(
        f"rows delivered to all ranks / rows of the table: {delivered / len({n for part in parts for n in part})}"
    )
    assert sorted(number for part in parts for number in part) in [state(steps) for steps in range(STEPS)]
    assert abs(len(parts[0]) - len(parts[1])) <= 1


def test_ranks_on_several_hosts_are_refused_where_no_snapshot_can_be_exported(
    scans: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snapshot, "on_segments", True)
    job = TrainJob("digits", QUERIES["key"], scans, out=str(tmp_path), ranks=2, hosts="localhost:2")
    with pytest.raises(TrainError, match="ranks on several hosts cannot share a snapshot of this database"):
        launch(job)


def test_a_snapshot_that_is_gone(scans: str) -> None:
    for name in ("00000003-0000001B-1", "no snapshot"):
        with (
            closing(Snapshot(scans, name)) as snapshot,
            pytest.raises(TrainError, match="of this run cannot be read: "),
        ):
            find_source(QUERIES["key"], snapshot)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT img, label, label FROM scans", "the key, the third column of the query, is 0 in two rows"),
        ("SELECT img, label, nullif(id, 7) FROM scans", "the key, .* is NULL in a row"),
        pytest.param(
            "SELECT img, label FROM scans ORDER BY random()",
            "row .* of the query is a different one on the second read",
            marks=pytest.mark.postgres_only("on Greenplum one process reads a query without a key, once"),
        ),
        ("SELECT img, label, (random() * 1e9)::int FROM scans", "the query returned .* rows instead of 400"),
    ],
)
def test_rows_that_cannot_be_told_apart_are_refused(scans: str, query: str, message: str) -> None:
    def read(snapshot: Snapshot) -> None:
        source = find_source(query, snapshot)
        source.open(range(source.count()))

    with closing(Snapshot(scans)) as snapshot, pytest.raises(DataError, match=message):
        read(snapshot)


@pytest.mark.postgres_only("foreign tables of another server")
def test_a_table_of_another_server_is_refused(scans: str) -> None:
    with closing(psycopg2.connect(scans)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
        cursor.execute("CREATE SERVER away FOREIGN DATA WRAPPER postgres_fdw")
        cursor.execute("CREATE USER MAPPING FOR current_user SERVER away")
        cursor.execute("CREATE FOREIGN TABLE away (img bytea, label int) SERVER away")
    wanted = r"the query reads from another server .Foreign Scan on away., where the ranks cannot share"
    with closing(Snapshot(scans)) as snapshot, pytest.raises(DataError, match=wanted):
        find_source("SELECT img, label FROM away", snapshot)
