"""Search by likeness gives the same rows with pgvector and without it, and says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tiny_models
from asking import ask, make_images, refused, role, rows
from float32 import tolerance
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.registry import deploy
from dbinfer.score import ScoreOptions, score

COLOURS = np.random.default_rng(5).integers(1, 255, (40, 3))
# the function stands alone in its FROM, as Greenplum wants it
IMAGE = "(SELECT img FROM shots WHERE id = 1)"
VECTOR = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_embedding(folder), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)


@pytest.fixture(autouse=True)
def tables(db: Connection, dsn: str, models: None) -> Iterator[None]:
    make_images(db, "shots", [tiny_models.file(tiny_models.picture(*map(int, c))) for c in COLOURS])
    score("shots", "features", ScoreOptions(model="vector", function="embed"), dsn)
    yield
    rows(db, "DROP TABLE IF EXISTS shots, features, features_errors; DROP EXTENSION IF EXISTS vector CASCADE")


@pytest.fixture(params=["plain", *wide("pgvector", "elsewhere")])
def where(request: pytest.FixtureRequest, db: Connection) -> str:
    """Without the extension, with it, and with it in a schema that is not in the search path."""
    if request.param != "plain":
        if not ask(db, VECTOR):
            pytest.skip("needs pgvector: apt-get install postgresql-15-pgvector, or that of your server")
        rows(db, 'DROP SCHEMA IF EXISTS "odd \'place" CASCADE')
        if request.param == "elsewhere":
            rows(db, 'CREATE SCHEMA "odd \'place"; CREATE EXTENSION vector SCHEMA "odd \'place"')
        else:
            rows(db, "CREATE EXTENSION vector")
    return str(request.param)


def nearest(number: int, k: int) -> list[int]:
    """Return the ids of the k colours with the least angle to one of them."""
    unit = COLOURS / np.linalg.norm(COLOURS, axis=1, keepdims=True)
    return [int(place) for place in np.argsort(1 - unit @ unit[number], kind="stable")[:k]]


@pytest.mark.parametrize("table", ["features", "shots"])
def test_the_nearest_come_first(db: Connection, where: str, table: str) -> None:
    (image,) = rows(db, "SELECT img FROM shots WHERE id = 7")[0]
    found = rows(db, f"SELECT id, distance FROM dbinfer.similar('{table}', %s, 'vector', 5)", image)
    assert [row[0] for row in found] == nearest(7, 5)
    distances = [row[1] for row in found]
    assert distances == sorted(distances)
    assert abs(distances[0]) <= tolerance(1.0, 8)  # norms, quotients and their product


def test_an_index_is_used(db: Connection, where: str) -> None:
    if where == "plain":
        diag = refused(db, "0A000", "SELECT dbinfer.index_embeddings('features', 'vector')")
        assert diag.message_primary == "dbinfer: the extension vector (pgvector) is not in this database"
        assert "CREATE EXTENSION vector" in str(diag.message_hint)
        return
    for method in ("hnsw", "ivfflat"):
        rows(db, "DROP INDEX IF EXISTS features_embedding_idx, features_expr_idx")
        assert ask(db, f"SELECT dbinfer.index_embeddings('features', 'vector', '{method}')") == method
    inner = ask(db, "SELECT dbinfer._embeddings('features', 'vector', 'error', 'id', NULL, 3)")
    distance = ask(db, "SELECT dbinfer._distance('s.e', '''[1,2,3]''' || dbinfer._vector_cast(3))")
    with db.cursor() as cur:
        cur.execute("SET enable_seqscan = off; SET enable_sort = off")
        cur.execute(f"EXPLAIN SELECT s.id, {distance} AS distance FROM ({inner}) s ORDER BY distance LIMIT 3")
        plan = "\n".join(row[0] for row in cur.fetchall())
        cur.execute("RESET enable_seqscan; RESET enable_sort")
    assert "Index Scan" in plan
    assert "Order By" in plan


def test_near_duplicates(db: Connection, where: str) -> None:
    unit = COLOURS / np.linalg.norm(COLOURS, axis=1, keepdims=True)
    gaps = 1 - unit @ unit.T
    expected = {(i, j) for i in range(40) for j in range(i + 1, 40) if gaps[i, j] <= 0.01}
    found = rows(db, "SELECT id, other FROM dbinfer.near_duplicates('features', 0.01, 'vector')")
    assert expected
    assert set(found) == expected


def test_rows_of_another_version_are_left_out(db: Connection, dsn: str) -> None:
    rows(db, "UPDATE features SET version = 99 WHERE id = 7")
    (image,) = rows(db, "SELECT img FROM shots WHERE id = 7")[0]
    found = rows(db, "SELECT id FROM dbinfer.similar('features', %s, 'vector', 3)", image)
    assert [row[0] for row in found] == nearest(7, 4)[1:]
    rows(db, "UPDATE features SET version = 99")
    diag = refused(db, "P0002", f"SELECT * FROM dbinfer.similar('features', {IMAGE}, 'vector')")
    assert diag.message_primary == "dbinfer: features has no embeddings of vector"


def test_a_table_of_ones_own(db: Connection) -> None:
    rows(db, 'CREATE TEMP TABLE "Odd ""name" ("the key" int, "Fea\'tures" real[])')
    rows(db, 'INSERT INTO "Odd ""name" SELECT id, embedding FROM features')
    rows(db, 'INSERT INTO "Odd ""name" VALUES (900, NULL), (901, ARRAY[0,0,0]), (902, ARRAY[1,2]::real[])')
    query = """SELECT id FROM dbinfer.similar('"Odd ""name"', (SELECT img FROM shots WHERE id = 3), 'vector', 100,
               id_column => 'the key', source_column => 'Fea''tures')"""
    assert [row[0] for row in rows(db, query)] == nearest(3, 40)
    rows(db, 'DROP TABLE "Odd ""name"')


def test_a_damaged_image(db: Connection) -> None:
    rows(db, "INSERT INTO shots (id, img) VALUES (70, '\\x89504e470d0a1a0a')")
    (image,) = rows(db, "SELECT img FROM shots WHERE id = 7")[0]
    query = "SELECT id FROM dbinfer.similar('shots', %s, 'vector', 100{})"
    assert "cut off" in str(refused(db, "22P03", query.format(""), image).message_primary)
    assert len(rows(db, query.format(", 'null'"), image)) == 40
    assert rows(db, "SELECT * FROM dbinfer.similar('features', NULL, 'vector')") == []
    assert rows(db, "SELECT * FROM dbinfer.similar('features', '\\x00', 'vector', on_error => 'null')") == []


@pytest.mark.parametrize(
    ("call", "state", "message"),
    [
        ("similar('features', img, 'vector', 0)", "22023", "k is 0, but must be 1 or more"),
        ("similar('features', img, 'vector', NULL)", "22023", "k is NULL, but must be 1 or more"),
        ("similar('features', img, 'colours')", "22023", "colours"),
        ("similar('features', img, 'vector', id_column => 'model')", "42703", 'no column "model" of whole numbers'),
        ("similar('features', img, 'vector', source_column => 'nope')", "42703", 'no column "nope" of embeddings or'),
        ("similar(NULL, img, 'vector')", "42703", 'NULL has no column "id" of whole numbers'),
        ("near_duplicates('shots', 0.1, 'vector')", "42703", 'shots has no column "embedding" of embeddings'),
        ("near_duplicates('shots', 0.1, 'vector', source_column => 'img')", "42703", 'no column "img" of embeddings'),
        ("near_duplicates('features', -1, 'vector')", "22023", "most is -1, but must be 0 or more"),
        ("near_duplicates('features', NULL, 'vector')", "22023", "most is NULL, but must be 0 or more"),
    ],
)  # fmt: skip
def test_bad_calls(db: Connection, call: str, state: str, message: str) -> None:
    assert message in str(
        refused(db, state, f"SELECT * FROM dbinfer.{call.replace(', img,', f', {IMAGE},')}").message_primary
    )


def test_embeddings_of_another_length(db: Connection) -> None:
    rows(db, "CREATE TEMP TABLE short AS SELECT id::bigint, ARRAY[1,2]::real[] AS embedding FROM shots")
    diag = refused(db, "22000", f"SELECT * FROM dbinfer.similar('short', {IMAGE}, 'vector')")
    assert (
        diag.message_primary == "dbinfer: the embeddings of short have 2 values, but those of vector have 3"
    )
    rows(db, "DROP TABLE short")


def test_with_the_rights_of_the_caller(db: Connection) -> None:
    with role(db):
        refused(db, "42501", f"SELECT * FROM dbinfer.similar('features', {IMAGE}, 'vector')")


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("{1,0}", "{2,0}", 0), ("{1,0}", "{0,3}", 1), ("{1,0}", "{-5,0}", 2), ("{1}", "{1,2}", None),
     ("{0}", "{1}", None), ("{}", "{}", None)],
)  # fmt: skip
def test_cosine_distance(db: Connection, one: str, other: str, distance: float | None) -> None:
    assert ask(db, "SELECT dbinfer.cosine_distance(%s::real[], %s::real[])", one, other) == distance
