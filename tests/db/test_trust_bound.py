"""Memory of classify_table does not grow with the table: its results stream into the server's temporary files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

pytestmark = pytest.mark.wide

LONG = os.environ.get("LONG") == "1"
RED = tiny_models.file(tiny_models.picture(200, 0, 0))
MB = 1 << 20
ROWS = 100_000
# more than one value of 1 GB could hold, at 28 bytes each
MANY = 40_000_000 if LONG else 10 * ROWS
LABEL, IMAGES = MB, 1300 if LONG else 40
IN_BATCHES = "SELECT count(*), count(class), sum(id) FROM dbinfer.classify_table('{}', 'colours')"


@pytest.fixture(scope="module", autouse=True)
def colours(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@contextmanager
def fresh(dsn: str) -> Iterator[Connection]:
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        yield db


def peak(db: Connection) -> int:
    """Return the most memory that the session's process has had so far, in bytes."""
    status = Path(f"/proc/{ask(db, 'SELECT pg_backend_pid()')}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def scored(dsn: str, count: int) -> int:
    """Score so many rows, the first one alone with an image, in a new session; return its peak."""
    with fresh(dsn) as db:
        rows(
            db,
            "CREATE OR REPLACE VIEW cheap AS SELECT n AS id, CASE n WHEN 1 THEN img END AS img "
            f"FROM generate_series(1, {count}) n, one",
        )
        found = rows(db, IN_BATCHES.format("cheap"))
        assert found == [(count, 1, count * (count + 1) // 2)]
        return peak(db)


@pytest.mark.postgres_only("reads /proc of the backend that scores")
def test_memory_is_the_same_for_many_more_rows(db: Connection, dsn: str) -> None:
    """Before: 28 bytes a row and more, until a value reached 1 GB; a table of 30 million rows was refused."""
    make_images(db, "one", [RED])
    few, many = scored(dsn, ROWS), scored(dsn, MANY)
    print(f"\n{ROWS:,} rows: {few / MB:.1f} MB, {MANY:,} rows: {many / MB:.1f} MB")
    assert many - few < 8 * MB


@pytest.mark.postgres_only("parallel workers")
def test_results_of_any_length_come_back_from_all_processes(
    db: Connection, dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Before: each process could collect its results, and the server could not join them."""
    labels = [letter * LABEL for letter in "rgb"]
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs"), "long", labels=labels), dsn=dsn)
    make_images(db, "images", [RED], IMAGES)
    rows(db, "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    rows(db, "ALTER TABLE images SET (parallel_workers = 1)")
    query = "SELECT count(*), min(length(label)), max(length(label)) FROM dbinfer.classify_table('images', 'long')"
    assert rows(db, query) == [(IMAGES, LABEL, LABEL)]


@pytest.mark.postgres_only("pg_ls_tmpdir")
def test_nothing_stays_on_disk(db: Connection) -> None:
    make_images(db, "images", [RED, b"no image"], 60)
    rows(db, "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    rows(db, "ALTER TABLE images SET (parallel_workers = 2)")
    ours = "SELECT count(*) FROM pg_ls_tmpdir() WHERE name LIKE 'pgsql_tmp_dbinfer%'"
    for _ in range(5):
        with pytest.raises(psycopg2.Error, match="dbinfer"):
            rows(db, IN_BATCHES.format("images"))
        # what a failed scan has left goes with the next one
        assert ask(db, ours) <= 3
    rows(db, "DELETE FROM images WHERE length(img) < 20")
    assert rows(db, IN_BATCHES.format("images"))[0][:2] == (60, 60)
    assert ask(db, ours) == 0
