"""Search by likeness on segments: each sorts what it holds, and images stay where they lie, with both planners."""

from __future__ import annotations

import pytest
import tiny_models
from asking import ask, refused, rows
from float32 import tolerance
from plans import asked_for, planner
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy


@pytest.fixture(scope="module", autouse=True)
def features(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_embedding(tmp_path_factory.mktemp("vector")), dsn=cluster)


@pytest.fixture(autouse=True)
def tables(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS features")
    call = "SELECT id, dbinfer.embed(img, 'vector') AS embedding FROM images"
    rows(session, f"CREATE TABLE features AS {call} DISTRIBUTED BY (id)")
    rows(session, "ANALYZE features")


def nearest(session: Connection, table: str) -> str:
    """Return the statement inside `similar`, with the array that it searches for as a constant."""
    inner = ask(session, f"SELECT dbinfer._embeddings('{table}', 'vector', 'error', 'id', NULL, 3)")
    distance = ask(session, "SELECT dbinfer._distance('s.e', 'ARRAY[1,2,3]::pg_catalog.float4[]')")
    return f"SELECT s.id, {distance} AS distance FROM ({inner}) s ORDER BY distance LIMIT 3"


@pytest.mark.parametrize("table", ["features", "images"])
def test_the_nearest_come_first(session: Connection, table: str) -> None:
    (image,) = rows(session, "SELECT img FROM images WHERE label = 'red' LIMIT 1")[0]
    found = rows(session, f"SELECT id, distance FROM dbinfer.similar('{table}', %s, 'vector', 20)", image)
    red = {row[0] for row in rows(session, "SELECT id FROM images WHERE label = 'red'")}
    assert {row[0] for row in found} == red
    assert max(row[1] for row in found) <= tolerance(1.0, 8)  # norms, quotients and their product


@pytest.mark.parametrize("table", ["features", "images"])
def test_each_segment_sorts_what_it_holds(session: Connection, table: str) -> None:
    query = nearest(session, table)
    lines = [row[0].strip() for row in rows(session, f"EXPLAIN (VERBOSE, COSTS OFF) {query}")]
    print("\n" + "\n".join(lines))
    assert planner(session, query) == asked_for(session)
    (motion,) = [place for place, line in enumerate(lines) if "Motion" in line]
    assert any("Limit" in line for line in lines[motion:])
    # in brackets a value comes from below: the Motion carries ids and distances, which the scan has worked out
    assert lines[motion + 1].startswith("Output: ((")
    assert ", (dbinfer.cosine_distance(" in lines[motion + 1]
    (scan,) = [place for place, line in enumerate(lines) if "Seq Scan" in line]
    assert motion < scan
    assert ", dbinfer.cosine_distance(" in lines[scan + 1]


def test_pairs_move_embeddings_and_no_images(session: Connection) -> None:
    found = rows(session, "SELECT id, other FROM dbinfer.near_duplicates('features', 0.001, 'vector')")
    assert len(found) == 3 * 20 * 19 // 2
    labels = dict(rows(session, "SELECT id, label FROM images"))
    assert all(labels[one] == labels[other] and one < other for one, other in found)


def test_it_cannot_read_a_table_from_within_another_statement(session: Connection) -> None:
    query = "SELECT count(*) FROM images i, LATERAL (SELECT * FROM dbinfer.similar('features', i.img, 'vector') s) x"
    with pytest.raises(Exception, match=r"cannot|not supported|from within"):
        rows(session, query)
    diag = refused(session, "0A000", "SELECT dbinfer.index_embeddings('features', 'vector')")
    assert "pgvector" in str(diag.message_primary)
