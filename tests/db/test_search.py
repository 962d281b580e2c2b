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

from dbinfer.models import deploy
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


def test_the_nearest_come_first(db: Connection, where: str, subtests: pytest.Subtests) -> None:
    for table in ["features", "shots"]:
        with subtests.test(table=table):
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


def naive(db: Connection, table: str) -> list[tuple[int, int, float]]:
    """Return all pairs of a table (id, embedding) that have a distance, as one statement that compares all rows."""
    stored = ask(db, f"SELECT dbinfer._embeddings('{table}', NULL, 'error', 'id', NULL, NULL)")
    distance = ask(db, "SELECT dbinfer._distance('a.e', 'b.e')")
    pairs = f"SELECT a.id, b.id AS other, {distance} AS distance FROM ({stored}) a JOIN ({stored}) b ON a.id < b.id"
    found = rows(db, f"SELECT * FROM ({pairs}) p WHERE distance <= 'Infinity' ORDER BY 1, 2")
    return [(int(one), int(other), float(distance)) for one, other, distance in found]


def test_near_duplicates_are_those_of_the_naive_statement(db: Connection, where: str) -> None:
    """Bit by bit, with ties, at limits that are distances themselves, and of rows that have no distance."""
    rows(db, "CREATE TEMP TABLE odd (id bigint, embedding real[])")
    values = np.random.default_rng(7).integers(-2, 3, (200, 5)).astype(np.float32)
    values[100:] += np.float32(0.001) * values[:100][:, ::-1]
    with db.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO odd VALUES (%s, %s)", [(n, row.tolist()) for n, row in enumerate(values)]
        )
    rows(
        db,
        "INSERT INTO odd VALUES (NULL, '{1,1,1,1,1}'), (1000, NULL), (1001, '{0,0,0,0,0}'), "
        "(-7, '{1e-20,0,0,0,1e-20}')",
    )
    if where == "plain":  # pgvector's type takes none of these, before and now
        rows(
            db,
            "INSERT INTO odd VALUES (1002, '{1,2}'), (1003, '{2,4}'), (1004, '{}'), (1005, '{1,NULL,0,0,0}'), "
            "(1006, '{3,0,0,0,NULL}'), (1007, '{NaN,1,1,1,1}'), (1008, '{Infinity,1,1,1,1}'), (1009, '{{1},{2}}')",
        )
    every = naive(db, "odd")
    distances = sorted(distance for *_, distance in every)
    for most in (0, distances[50], distances[500], distances[-1], 0.01, 1, 2, np.inf):
        found = rows(db, "SELECT * FROM dbinfer.near_duplicates('odd', %s) ORDER BY 1, 2", float(most))
        assert found == [pair for pair in every if pair[2] <= most], most
    rows(db, "DROP TABLE odd")


@pytest.mark.wide
def test_near_duplicates_say_how_many_pairs_there_are(db: Connection) -> None:
    db.notices.clear()
    rows(db, "SELECT * FROM dbinfer.near_duplicates('features', 0.01, 'vector')")
    assert db.notices[-1] == "NOTICE:  dbinfer: comparing 780 pairs\n"
    with role(db):
        refused(db, "42501", "SELECT * FROM dbinfer.near_duplicates('features', 0.01, 'vector')")


@pytest.mark.wide
def test_near_duplicates_across_blocks(db: Connection, where: str) -> None:
    """Five blocks and a part, of which one is read as the others are compared with it; each row's copy is far away."""
    values = "ARRAY(SELECT (random() + 0 * n)::real FROM generate_series(1, 32))"
    rows(
        db,
        f"CREATE TEMP TABLE many AS SELECT n::bigint AS id, {values} AS embedding FROM generate_series(1, 2800) n",
    )
    rows(db, "INSERT INTO many SELECT id + 2800, embedding FROM many; ANALYZE many")
    found = rows(db, "SELECT id, other, distance FROM dbinfer.near_duplicates('many', 0.000001)")
    assert {(one, other) for one, other, _ in found} == {(n, n + 2800) for n in range(1, 2801)}
    assert len(found) == 2800
    with pytest.raises(Exception, match="statement timeout"):
        rows(db, "SET statement_timeout = 200; SELECT count(*) FROM dbinfer.near_duplicates('many', 2)")
    rows(db, "SET statement_timeout = 0; DROP TABLE many")


@pytest.mark.wide
def test_an_index_finds_near_duplicates_of_large_tables(db: Connection, where: str) -> None:
    if where == "plain":
        pytest.skip("needs pgvector's index")
    values = "ARRAY[sin(n % 75000), cos(n % 75000)]::real[]"
    rows(
        db,
        f"CREATE TEMP TABLE large AS SELECT n::bigint AS id, {values} AS embedding FROM generate_series(1, 150000) n",
    )
    rows(db, "ANALYZE large")
    rows(db, "SELECT dbinfer.index_embeddings('large', method => 'ivfflat')")
    db.notices.clear()
    with pytest.raises(Exception, match="statement timeout"):
        rows(db, "SET statement_timeout = '2s'; SELECT count(*) FROM dbinfer.near_duplicates('large', 0)")
    rows(db, "SET statement_timeout = 0")
    assert db.notices[-1].startswith("NOTICE:  dbinfer: asking the index for those near each of 150000 rows")
    # the same statement on few rows: nothing of this depends on how many there are
    stored = ask(db, "SELECT dbinfer._embeddings('features', 'vector', 'error', 'id', NULL, NULL)")
    distance = ask(db, "SELECT dbinfer._distance('b.e', 'a.e')")
    nearest = (
        f"SELECT a.id, n.id AS other, n.distance FROM ({stored}) a CROSS JOIN LATERAL (SELECT b.id, {distance} "
        f"AS distance FROM ({stored}) b ORDER BY distance LIMIT 40) n WHERE n.distance <= $1 AND a.id < n.id"
    )
    found = rows(db, "SELECT * FROM dbinfer._indexed_pairs(%s, %s, 0.01)", nearest, stored)
    assert found == rows(
        db, "SELECT * FROM dbinfer.near_duplicates('features', 0.01, 'vector') ORDER BY 1, 3"
    )
    rows(db, "DROP TABLE large")


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


def test_bad_calls(db: Connection, subtests: pytest.Subtests) -> None:
    for call, state, message in [
        ("similar('features', img, 'vector', 0)", "22023", "k is 0, but must be 1 or more"),
        ("similar('features', img, 'vector', NULL)", "22023", "k is NULL, but must be 1 or more"),
        ("similar('features', img, 'colours')", "22023", "colours"),
        (
            "near_duplicates('features', 0.1, 'vector', id_column => 'model')",
            "42703",
            'no column "model" of whole numbers',
        ),
        (
            "similar('features', img, 'vector', source_column => 'nope')",
            "42703",
            'no column "nope" of embeddings or',
        ),
        ("similar(NULL, img, 'vector')", "42703", 'NULL has no column "id"'),
        ("near_duplicates('shots', 0.1, 'vector')", "42703", 'shots has no column "embedding" of embeddings'),
        (
            "near_duplicates('shots', 0.1, 'vector', source_column => 'img')",
            "42703",
            'no column "img" of embeddings',
        ),
        ("near_duplicates('features', -1, 'vector')", "22023", "most is -1, but must be 0 or more"),
        ("near_duplicates('features', 'NaN', 'vector')", "22023", "most is NaN, but must be 0 or more"),
        ("near_duplicates('features', NULL, 'vector')", "22023", "most is NULL, but must be 0 or more"),
    ]:
        with subtests.test(call=call, state=state, message=message):
            assert message in str(
                refused(
                    db, state, f"SELECT * FROM dbinfer.{call.replace(', img,', f', {IMAGE},')}"
                ).message_primary
            )


def test_embeddings_of_another_length(db: Connection) -> None:
    rows(db, "CREATE TEMP TABLE short AS SELECT id::bigint, ARRAY[1,2]::real[] AS embedding FROM shots")
    diag = refused(db, "22000", f"SELECT * FROM dbinfer.similar('short', {IMAGE}, 'vector')")
    assert (
        diag.message_primary == "dbinfer: the embeddings of short have 2 values, but the one looked for has 3"
    )
    rows(db, "DROP TABLE short")


def test_with_the_rights_of_the_caller(db: Connection) -> None:
    with role(db):
        refused(db, "42501", f"SELECT * FROM dbinfer.similar('features', {IMAGE}, 'vector')")


def test_cosine_distance(db: Connection, subtests: pytest.Subtests) -> None:
    for one, other, distance in [
        ("{1,0}", "{2,0}", 0),
        ("{1,0}", "{0,3}", 1),
        ("{1,0}", "{-5,0}", 2),
        ("{1}", "{1,2}", None),
        ("{0}", "{1}", None),
        ("{}", "{}", None),
    ]:
        with subtests.test(one=one, other=other, distance=distance):
            assert ask(db, "SELECT dbinfer.cosine_distance(%s::real[], %s::real[])", one, other) == distance
