"""Search with a condition gives the nearest of the rows that fulfil it, with every kind of index, key and vector."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tiny_models
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.models import deploy

MANY, VALUES, K = 3000, 24, 10
VECTORS = np.random.default_rng(3).standard_normal((MANY, VALUES)).astype(np.float32)
WANTED = np.random.default_rng(4).standard_normal((12, VALUES)).astype(np.float32)
# the function stands alone in its FROM, as Greenplum wants it
FOUND = "SELECT id FROM dbinfer.similar('own', k => 10, embedding => %s::real[], condition => %s)"


@pytest.fixture(autouse=True)
def own(db: Connection) -> Iterator[None]:
    """Make a table of vectors that no model of ours has made."""
    rows(db, "CREATE TABLE public.own (id integer, name text, part integer, embedding real[])")
    with db.cursor() as cursor:
        text = ",".join(
            cursor.mogrify("(%s, %s, %s, %s::real[])", (n, f"row {n}", n % 100, vector.tolist())).decode()
            for n, vector in enumerate(VECTORS)
        )
        cursor.execute(f"INSERT INTO own VALUES {text}")
    rows(db, "ANALYZE own")
    yield
    rows(db, "DROP TABLE own; DROP EXTENSION IF EXISTS vector CASCADE")


@pytest.fixture(params=["plain", *wide("exact", "hnsw", "ivfflat", "old")])
def index(request: pytest.FixtureRequest, db: Connection) -> str:
    """Without pgvector, with it, with each of its indexes, and with an index of a release that stops searching."""
    kind = str(request.param)
    if kind != "plain":
        if not ask(db, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"):
            pytest.skip("needs pgvector: apt-get install postgresql-15-pgvector, or that of your server")
        rows(db, "CREATE EXTENSION vector")
    if kind in ("hnsw", "ivfflat", "old"):
        ask(db, "SELECT dbinfer.index_embeddings('own', method => %s)", "hnsw" if kind == "old" else kind)
    if kind == "old":
        rows(db, "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    return kind


def nearest(wanted: np.ndarray, below: int) -> list[int]:
    """Return the ids of the nearest rows of the parts below a number."""
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    order = np.argsort(-(unit @ wanted))
    return [int(place) for place in order if place % 100 < below][:K]


def plan(db: Connection) -> str:
    """Return how the planner would find the nearest that fulfil a condition."""
    stored = ask(
        db, "SELECT dbinfer._embeddings('own', NULL, 'error', 'id', NULL, %s, true, 'part < 50')", VALUES
    )
    wanted = "'" + str([1] * VALUES) + "'" if ".vector(" in stored else "ARRAY" + str([1] * VALUES)
    distance = ask(db, "SELECT dbinfer._distance('s.e', %s || dbinfer._vector_cast(%s))", wanted, VALUES)
    query = "SELECT dbinfer._nearest(%s, %s, 10, true, false, dbinfer._iterates('own'))"
    return str(rows(db, f"EXPLAIN {ask(db, query, distance, stored)}"))


def test_the_nearest_that_fulfil_a_condition(db: Connection, index: str, subtests: pytest.Subtests) -> None:
    """At least 0.99 of them where an index is asked, and all where it is not; the planner may not read all rows."""
    rows(db, "SET enable_seqscan = off" if index in ("hnsw", "old") else "RESET enable_seqscan")
    for percent in (1, 10, 50):
        with subtests.test(percent=percent):
            right = 0
            for wanted in WANTED:
                found = [row[0] for row in rows(db, FOUND, wanted.tolist(), f"part < {percent} -- of 100")]
                assert len(found) == K
                right += len({*found} & {*nearest(wanted, percent)})
            print(f"\n{index}, {percent} %: {right / (K * len(WANTED)):.4f}")
            assert right >= (0.99 if index == "hnsw" else 1) * K * len(WANTED)
    assert ("Index Scan using own_" in plan(db)) == (index == "hnsw")
    rows(db, "RESET enable_seqscan")
    if index == "hnsw":
        assert rows(db, "SHOW hnsw.iterative_scan; SHOW hnsw.ef_search") == [("40",)]


@pytest.mark.wide
def test_fewer_than_wanted_are_all(db: Connection, index: str) -> None:
    rows(db, "SET enable_seqscan = off")
    assert {row[0] for row in rows(db, FOUND, WANTED[0].tolist(), "id IN (5, 7)")} == {5, 7}
    assert rows(db, FOUND, WANTED[0].tolist(), "id < 0") == []
    rows(db, "RESET enable_seqscan")


def test_keys_of_any_type(db: Connection, subtests: pytest.Subtests) -> None:
    rows(db, "ALTER TABLE own ADD code uuid; UPDATE own SET code = md5(id::text)::uuid")
    first = nearest(WANTED[0], 100)[0]
    code = ask(db, "SELECT md5(%s::text)::uuid::text", first)
    query = "SELECT id, key FROM dbinfer.similar('own', k => 1, embedding => %s::real[], id_column => %s)"
    for column, expected in (
        ("id", (first, str(first))),
        ("name", (None, f"row {first}")),
        ("code", (None, code)),
    ):
        with subtests.test(column=column):
            assert rows(db, query, WANTED[0].tolist(), column) == [expected]
    diag = refused(db, "42703", query, WANTED[0].tolist(), "nope")
    assert diag.message_primary == 'dbinfer: own has no column "nope"'


def test_bad_conditions(db: Connection, subtests: pytest.Subtests) -> None:
    for condition, state, message in (
        ("nope > 1", "42703", 'column "nope" does not exist'),
        ("part", "42804", "argument of WHERE must be type boolean, not type integer"),
        ("", "42601", 'syntax error at or near ")"'),
        ("true) OR (", "42601", 'syntax error at or near ")"'),
        ("part = $1", "42P02", "there is no parameter $1"),
        ("true); SELECT (true", "42P11", "cannot open multi-query plan as cursor"),
    ):
        with subtests.test(condition=condition):
            diag = refused(db, state, FOUND, WANTED[0].tolist(), condition)
            said = f"dbinfer: the condition '{condition}' cannot be used: {message}"
            assert diag.message_primary == said
            assert diag.message_hint == "Write what could follow SELECT * FROM own WHERE."
    for call, message in (
        (
            "img => '\\x00', embedding => '{1}'",
            "finds what is like an image, an embedding or a text, but has got several",
        ),
        ("embedding => '{1,2}'", "the embeddings of own have 24 values, but the one looked for has 2"),
    ):
        with subtests.test(call=call), pytest.raises(Exception, match=message):
            rows(db, f"SELECT * FROM dbinfer.similar('own', {call})")
    assert rows(
        db, "SELECT * FROM dbinfer.similar('own', embedding => %s, condition => NULL)", WANTED[0].tolist()
    )


def test_a_condition_has_the_rights_of_the_caller(db: Connection) -> None:
    rows(db, "CREATE TABLE public.secrets AS SELECT 1 AS word; GRANT SELECT ON own TO PUBLIC")
    with role(db):
        diag = refused(db, "42501", FOUND, WANTED[0].tolist(), "part = (SELECT word FROM secrets)")
        assert str(diag.message_primary).endswith("cannot be used: permission denied for table secrets")
        assert rows(db, FOUND, WANTED[0].tolist(), "part = 1")
    rows(db, "DROP TABLE secrets")


@pytest.mark.wide
def test_of_images_only_those_are_scored(
    db: Connection, dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deploy(tiny_models.colour_embedding(tmp_path_factory.mktemp("vector")), dsn=dsn)
    rows(db, "CREATE TABLE public.shots (id uuid, img bytea)")
    image = tiny_models.file(tiny_models.picture(200, 10, 10))
    rows(
        db,
        "INSERT INTO shots VALUES (md5('one')::uuid, %s), (md5('two')::uuid, '\\x89504e470d0a1a0a')",
        image,
    )
    query = "SELECT key FROM dbinfer.similar('shots', %s, 'vector', condition => %s)"
    assert rows(db, query, image, "length(img) > 8") == rows(db, "SELECT md5('one')::uuid::text")
    assert "cut off" in str(refused(db, "22P03", query, image, "true").message_primary)
    rows(db, "DROP TABLE shots")
