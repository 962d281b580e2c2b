"""DESIGN.md 3 under PostgreSQL's parallel plans: right results in every shape, and no server that crashes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import ask, force_parallel, make_images, role, rows, workers
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.models import DeployOptions, deploy, revoke
from dbinfer.server import ServerReport

pytestmark = pytest.mark.postgres_only("Greenplum has no parallel workers")
COLOURS = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
LABELS = ["red", "green", "blue"] * 40


@pytest.fixture(scope="module", autouse=True)
def images(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    deploy(tiny_models.constant(folder, 7), dsn=dsn)
    deploy(tiny_models.colour_embedding(folder), DeployOptions(private=True), dsn=dsn)
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    make_images(connection, "images", [tiny_models.file(tiny_models.picture(*c)) for c in COLOURS], copies=40)
    rows(connection, "ALTER TABLE images SET (parallel_workers = 2)")
    rows(connection, (HERE / "parallel_objects.sql").read_text())
    connection.close()


@pytest.fixture
def parallel(db: Connection) -> Iterator[Connection]:
    """A fresh session whose plans are parallel, also where that is not worth it."""
    force_parallel(db)
    yield db
    assert ask(db, "SELECT (dbinfer.classify(img, 'colours')).label FROM images WHERE id = 0") == "red"


def labels(db: Connection, call: str = "dbinfer.classify(img, 'colours')") -> list[str]:
    return [row[0] for row in rows(db, f"SELECT ({call}).label FROM images ORDER BY id")]


def test_the_plan_is_parallel_and_right(parallel: Connection) -> None:
    query = "SELECT count(dbinfer.classify(img, 'colours')) FROM images"
    assert workers(parallel, query) == 2
    assert ask(parallel, query) == 120
    assert labels(parallel) == LABELS


def test_workers_do_score(parallel: Connection) -> None:
    rows(parallel, "SET parallel_leader_participation = off")
    query = "SELECT sum((dbinfer.predict(img, 'constant'))[1]) FROM images"
    assert workers(parallel, query) == 2
    assert ask(parallel, query) == 7 * 120
    rows(parallel, "RESET parallel_leader_participation")


@pytest.mark.parametrize("leader", ["on", *wide("off")])
def test_cold_caches_and_fresh_workers(parallel: Connection, server: ServerReport, leader: str) -> None:
    rows(parallel, f"SET parallel_leader_participation = {leader}")
    for _ in range(3):  # at first nothing may lie there yet
        assert labels(parallel) == LABELS
        shutil.rmtree(Path(server.data_dir) / "dbinfer_cache")
    assert labels(parallel) == LABELS
    rows(parallel, "RESET parallel_leader_participation")


def test_a_role_without_the_grant_is_refused_in_a_worker(parallel: Connection) -> None:
    rows(parallel, "SET parallel_leader_participation = off")
    with role(parallel):
        assert labels(parallel) == LABELS
        with pytest.raises(
            psycopg2.errors.InsufficientPrivilege, match='permission denied for model "vector"'
        ):
            rows(parallel, "SELECT dbinfer.embed(img, 'vector') FROM images")
        assert labels(parallel) == LABELS
    rows(parallel, "RESET parallel_leader_participation")


def test_a_role_with_the_grant_gets_results(parallel: Connection, dsn: str) -> None:
    with role(parallel) as name:
        rows(parallel, "RESET ROLE")
        rows(parallel, "SELECT dbinfer.grant_model('vector', %s)", name)
        rows(parallel, f"SET ROLE {name}")
        found = rows(parallel, "SELECT dbinfer.embed(img, 'vector') FROM images WHERE id = 1")
        assert found[0][0] == pytest.approx([0, 1, 0])
        revoke("vector", name, dsn)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            rows(parallel, "SELECT dbinfer.embed(img, 'vector') FROM images")


HERE = Path(__file__).parent
SHAPES = {
    part.splitlines()[0].strip(): part.split("\n", 1)[1]
    for part in (HERE / "shapes.sql").read_text().split("-- name:")[1:]
}


@pytest.mark.wide
def test_shape(parallel: Connection, subtests: pytest.Subtests) -> None:
    for shape, query in SHAPES.items():
        with subtests.test(shape=shape):
            assert [row[0] for row in rows(parallel, query)] == LABELS


@pytest.mark.wide
def test_a_hash_of_scores_with_jit(parallel: Connection) -> None:
    rows(
        parallel,
        "SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0",
    )
    assert labels(parallel) == LABELS
    counted = dict(
        rows(parallel, "SELECT (dbinfer.classify(img, 'colours')).label, count(*) FROM images GROUP BY 1")
    )
    assert counted == {"red": 40, "green": 40, "blue": 40}


WRAPPERS = {
    "safe": "plpgsql PARALLEL SAFE",
    "immutable": "plpgsql IMMUTABLE PARALLEL SAFE",
    "strict": "plpgsql STRICT STABLE PARALLEL SAFE",
    "definer": "plpgsql SECURITY DEFINER STABLE PARALLEL SAFE SET search_path = pg_catalog",
    "unsafe": "plpgsql",
}


@pytest.mark.wide
def test_wrapper(parallel: Connection, subtests: pytest.Subtests) -> None:
    for wrapper, language in WRAPPERS.items():
        with subtests.test(wrapper=wrapper):
            rows(
                parallel,
                f"CREATE OR REPLACE FUNCTION wrapped(b bytea) RETURNS text LANGUAGE {language} AS "
                "$$ BEGIN RETURN (dbinfer.classify(b, 'colours')).label; END $$",
            )
            assert [row[0] for row in rows(parallel, "SELECT wrapped(img) FROM images ORDER BY id")] == LABELS


@pytest.mark.parametrize(
    "kind", ["IMMUTABLE", "STRICT STABLE", "STABLE SECURITY DEFINER SET search_path = ''"]
)
@pytest.mark.wide
def test_sql_wrapper(parallel: Connection, kind: str) -> None:
    rows(
        parallel,
        f"CREATE OR REPLACE FUNCTION sql_wrapped(b bytea) RETURNS text LANGUAGE sql {kind} PARALLEL SAFE AS "
        "$$ SELECT (dbinfer.classify(b, 'colours')).label $$",
    )
    assert [row[0] for row in rows(parallel, "SELECT sql_wrapped(img) FROM images ORDER BY id")] == LABELS


@pytest.mark.wide
def test_a_wrapper_with_an_exception_block_gives_one_clear_error_or_results(parallel: Connection) -> None:
    rows(parallel, "SET parallel_leader_participation = off")
    if parallel.server_version >= 170000:  # since then workers may have subtransactions of their own
        assert [row[0] for row in rows(parallel, "SELECT catching(img) FROM images ORDER BY id")] == LABELS
    else:
        with pytest.raises(psycopg2.Error, match="parallel"):
            rows(parallel, "SELECT catching(img) FROM images ORDER BY id")
    rows(parallel, "RESET parallel_leader_participation")
    rows(parallel, "ALTER FUNCTION catching(bytea) PARALLEL UNSAFE")
    assert [row[0] for row in rows(parallel, "SELECT catching(img) FROM images ORDER BY id")] == LABELS
    assert ask(parallel, "SELECT catching('no image')") == "bad"


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.wide
def test_prepared(parallel: Connection, mode: str) -> None:
    rows(parallel, f"SET plan_cache_mode = {mode}")
    rows(parallel, "PREPARE p(text) AS SELECT (dbinfer.classify(img, $1)).label FROM images ORDER BY id")
    for _ in range(7):
        assert [row[0] for row in rows(parallel, "EXECUTE p('colours')")] == LABELS
    with pytest.raises(psycopg2.errors.UndefinedObject, match='model "nobody" does not exist'):
        rows(parallel, "EXECUTE p('nobody')")


def test_cursors(parallel: Connection) -> None:
    rows(parallel, "BEGIN")
    rows(
        parallel,
        "DECLARE c CURSOR FOR SELECT (dbinfer.classify(img, 'colours')).label FROM images ORDER BY id",
    )
    rows(
        parallel,
        "DECLARE d CURSOR WITH HOLD FOR SELECT (dbinfer.classify(img, 'colours')).label FROM images ORDER BY id",
    )
    first = rows(parallel, "FETCH 50 FROM c")
    assert rows(parallel, "SELECT (dbinfer.predict(img, 'constant'))[1] FROM images WHERE id = 0") == [(7.0,)]
    assert [row[0] for row in first + rows(parallel, "FETCH ALL FROM c")] == LABELS
    rows(parallel, "COMMIT")
    assert [row[0] for row in rows(parallel, "FETCH ALL FROM d")] == LABELS
    rows(parallel, "CLOSE d")


def test_writing_with_scores(parallel: Connection) -> None:
    rows(parallel, "CREATE TABLE scored AS SELECT id, (dbinfer.classify(img, 'colours')).label FROM images")
    assert rows(parallel, "SELECT label, count(*) FROM scored GROUP BY 1 ORDER BY 1") == [
        ("blue", 40),
        ("green", 40),
        ("red", 40),
    ]
    rows(parallel, "DROP TABLE scored")


def test_a_bad_image_in_a_worker_is_one_clear_error(parallel: Connection) -> None:
    rows(parallel, "SET parallel_leader_participation = off")
    with pytest.raises(psycopg2.Error) as caught:
        rows(parallel, "SELECT dbinfer.predict(substr(img, 1, 20), 'colours') FROM images")
    assert caught.value.diag.sqlstate == "22P03"
    assert (
        ask(parallel, "SELECT count(dbinfer.predict(substr(img, 1, 20), 'colours', 'null')) FROM images") == 0
    )
    rows(parallel, "RESET parallel_leader_participation")


def test_no_helper_uses_plpy(db: Connection) -> None:
    """The naive way, plpy.execute for each row's model, crashes a server under a parallel plan."""
    bodies = dict(
        rows(
            db,
            "SELECT pronamespace::regnamespace || '.' || proname, prosrc FROM pg_proc p "
            "JOIN pg_language l ON l.oid = prolang WHERE lanname = 'plpython3u' "
            "AND pronamespace IN ('dbinfer'::regnamespace, 'dbinfer_private'::regnamespace)",
        )
    )
    assert [name for name, body in bodies.items() if "plpy.execute" in body or "plpy.prepare" in body] == []
    assert len(bodies) > 10


def test_an_unknown_token_in_a_parallel_plan_is_refused(parallel: Connection) -> None:
    rows(parallel, "SET parallel_leader_participation = off")
    forged = f"dbinfer:1:{'0' * 16}"
    with pytest.raises(psycopg2.Error, match="unknown model token") as caught:
        rows(parallel, "SELECT dbinfer._text('predict', img, %s, 'error', 0) FROM images", forged)
    assert caught.value.diag.sqlstate == "22023"
    rows(parallel, "RESET parallel_leader_participation")
    assert np.all(np.array(labels(parallel)) == LABELS)
