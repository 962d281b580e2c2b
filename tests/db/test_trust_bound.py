"""classify_table keeps its results in one value of 1 GB at most: what cannot fit is refused before it is scored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.registry import deploy
from dbinfer_udf import batch_rows

MOST = 40  # instead of 30 million
RED = tiny_models.file(tiny_models.picture(200, 0, 0))


@pytest.fixture(scope="module", autouse=True)
def colours(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture
def bounded(db: Connection) -> Iterator[Connection]:
    """A session on a database whose _batches takes 40 rows at most."""
    name = "dbinfer._batches(regclass,text,text,name,name)"
    whole: str = ask(db, f"SELECT pg_get_functiondef('{name}'::regprocedure)")
    assert whole.count("30000000;") == 1
    rows(db, whole.replace("30000000;", f"{MOST};"))
    try:
        yield db
    finally:
        rows(db, whole)


def classified(db: Connection, table: str) -> int:
    return len(rows(db, "SELECT id FROM dbinfer.classify_table(%s, 'colours')", table))


def test_too_many_rows_are_counted_although_nobody_analysed_the_table(bounded: Connection) -> None:
    """Before: only reltuples counted, and a table loaded an hour ago failed hours later, when all was scored."""
    rows(bounded, "CREATE TABLE fresh (id bigint, img bytea) WITH (autovacuum_enabled = off)")
    rows(bounded, "INSERT INTO fresh SELECT n, %s FROM generate_series(1, %s) n", RED, MOST)
    assert classified(bounded, "fresh") == MOST
    rows(bounded, "INSERT INTO fresh VALUES (0, 'no image')")
    for call in ("classify_table('fresh', 'colours')", "classify_into('taken', 'fresh', 'colours')"):
        rows(bounded, "CREATE TABLE IF NOT EXISTS taken (id bigint, class integer, label text, score real)")
        # not 22P03: no image was looked at
        diag = refused(bounded, "54000", f"SELECT * FROM dbinfer.{call}")
        assert diag.message_primary == "dbinfer: fresh has more rows than can be classified at once (40)"
        assert "dbinfer.classify_into" in diag.message_hint
    rows(bounded, "CREATE VIEW part AS SELECT * FROM fresh WHERE id BETWEEN 1 AND 20")
    assert classified(bounded, "part") == 20


def test_partitions_count_together(bounded: Connection) -> None:
    rows(bounded, "CREATE TABLE parted (id bigint, img bytea) PARTITION BY RANGE (id)")
    for first in (0, 30):
        rows(
            bounded,
            f"CREATE TABLE parted_{first} PARTITION OF parted FOR VALUES FROM ({first}) TO ({first + 30})",
        )
    rows(bounded, "INSERT INTO parted SELECT n, %s FROM generate_series(0, 59) n", RED)
    refused(bounded, "54000", "SELECT * FROM dbinfer.classify_table('parted', 'colours')")
    assert classified(bounded, "parted_30") == 30


def test_an_old_estimate_refuses_nothing(bounded: Connection) -> None:
    """Before: reltuples from the last ANALYZE refused a table that had become small since."""
    make_images(bounded, "shrunk", [RED], copies=60)
    rows(bounded, "DELETE FROM shrunk WHERE id >= 10")
    assert ask(bounded, "SELECT reltuples FROM pg_class WHERE relname = 'shrunk'") == 60
    assert classified(bounded, "shrunk") == 10


@pytest.mark.parametrize("size", [1, 4, 32])
@pytest.mark.parametrize("label", ["7", "a label of 26 characters..", "grün"])
def test_the_runtime_counts_what_the_server_needs(db: Connection, size: int, label: str) -> None:
    """Views are not counted, and long labels or images one by one take more than 28 bytes a row: _batch adds up."""
    query = (
        "SELECT pg_column_size(row(array_agg(n::bigint), array_agg(0), array_agg(%s::text), array_agg(0.5::real))"
        "::dbinfer._scored) FROM generate_series(1, %s) n"
    )
    width = batch_rows.PER_LABEL + -(-len(label.encode()) // 4) * 4
    needed = ask(db, query, label, size)
    counted = batch_rows.PER_BATCH + size * (batch_rows.PER_ROW + width)
    # arrays of few elements have a header that is three bytes shorter
    assert needed - 4 <= counted <= needed + 12
