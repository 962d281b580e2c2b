"""What the engine answers is what the backend answers, bit by bit: all functions, precisions and errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

chooses = pytest.mark.in_backends("the database's `always` leaves a model no choice")
COLOURS = tiny_models.picture(200, 30, 10)
NOISY = tiny_models.file(tiny_models.picture(7, 130, 250, (61, 47)), "JPEG", quality=70)
IMAGES = [tiny_models.file(COLOURS), NOISY, tiny_models.file(tiny_models.picture(1, 2, 3, (300, 20)), "WEBP")]
BAD = [b"", b"no image", tiny_models.file(COLOURS)[:40], NOISY[:200]]
# every function of a model, with a model that it fits and one that it does not
CALLS = [
    "predict(img, 'conv')::text", "encode(dbinfer.predict_tensor(img, 'conv'), 'hex')",
    "classify(img, 'colours')::text", "classify(img, 'conv')::text", "classify(img, 'half')::text",
    "classify_top(img, 2, 'colours')::text", "classify_top(img, 9, 'conv')::text",
    "classify_top(img, 0, 'conv')::text", "classify_top(img, NULL, 'conv')::text",
    "classify_all(img, 'colours')::text", "classify_all(img, 'conv')::text", "classify_all(img, 'vector')::text",
    "encode(dbinfer.segment(img, 'redness'), 'hex')", "embed(img, 'vector')::text",
    "predict(img, 'gaps')::text", "segment(img, 'conv')::text", "embed(img, 'conv')::text",
    "classify(img, 'vector')::text", "predict(img, 'two')::text", "predict(img, 'two', output => 'largest')::text",
    "encode(dbinfer.predict_tensor(img, 'two', 'error', 'largest'), 'hex')",
    "detect(img, 'redbox')::text", "instances(img, 'redbox')::text", "instances(img, 'lines')::text",
    "find_text(img, 'lines')::text", "read_line(img, 'letters')::text", "find_text(img, 'letters')::text",
    "predict(img, 'letters')::text", "outputs(img, 'lines')::text",
    "outputs(img, 'two')::text", "outputs(img, 'gaps')::text",
    "predict(img, 'two', output => 'least')::text", "predict(img, 'conv', output => 'largest')::text",
]  # fmt: skip
TABLE = "SELECT * FROM dbinfer.classify_table('many', '{model}', '{on_error}') ORDER BY id"
LOADED = (
    "CREATE OR REPLACE FUNCTION public.native() RETURNS text LANGUAGE plpython3u AS "
    "$$\nimport sys\nreturn ' '.join(n for n in ('numpy', 'cv2', 'orjson', 'openvino') if n in sys.modules) $$"
)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for path in (
        tiny_models.colour_classifier(folder), tiny_models.convolution(folder), tiny_models.red_mask(folder),
        tiny_models.colour_embedding(folder), tiny_models.gaps(folder), tiny_models.two_outputs(folder),
        tiny_models.convolution(folder, "half", 1, precision="bf16"),
        tiny_models.red_box(folder), tiny_models.dark_lines(folder), tiny_models.colour_reader(folder),
    ):  # fmt: skip
        deploy(path, DeployOptions(isolation="always"), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, LOADED)
        make_images(db, "many", [*IMAGES, None], 40)


def isolate(db: Connection, isolation: str) -> None:
    # one by one: Greenplum takes no locks above a scan of a table
    for (name,) in rows(db, "SELECT name FROM dbinfer.models"):
        rows(db, "SELECT dbinfer.set_isolation(%s, %s)", name, isolation)


def answers(dsn: str, isolation: str, asked: Sequence[tuple[object, ...]]) -> list[object]:
    """Return what a fresh session answers to each query with its values: rows, or an error's parts but its process."""
    found: list[object] = []
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        isolate(db, isolation)
        for query, *values in asked:
            try:
                found.append(rows(db, query, *values))
            except psycopg2.Error as err:
                found.append((err.diag.sqlstate, _told(err), err.diag.message_hint))
        if isolation == "always":
            assert ask(db, "SELECT public.native()") == ""
    return found


def differing(dsn: str, asked: Sequence[tuple[object, ...]]) -> list[object]:
    """Return the queries, with their values, that the engine answers in another way than a backend."""
    one, other = (answers(dsn, isolation, asked) for isolation in ("never", "always"))
    return [what for what, here, there in zip(asked, one, other, strict=True) if here != there]


def _told(err: psycopg2.Error) -> str:
    """Return the message without the segment and pid that Greenplum adds to it."""
    return re.sub(r"  \(seg\d+ .*\)$", "", err.diag.message_primary or "")


@pytest.mark.wide
@chooses
def test_every_function(dsn: str) -> None:
    queries = [f"SELECT dbinfer.{call}".replace("dbinfer.encode(", "encode(") for call in CALLS]
    given = " FROM (SELECT %s::bytea AS img) s"
    assert differing(dsn, [(query + given, img) for query in queries for img in (*IMAGES, *BAD)]) == []


@chooses
def test_whole_tables(dsn: str, db: Connection) -> None:
    models = ("colours", "conv", "half", "vector")
    asked = [(TABLE.format(model=model, on_error=what),) for model in models for what in ("error", "null")]
    assert differing(dsn, asked) == []
    rows(db, "INSERT INTO public.many VALUES (-1, 'no image')")
    try:
        assert differing(dsn, asked) == []
    finally:
        rows(db, "DELETE FROM public.many WHERE id = -1")


def test_a_backend_that_asks_the_engine_has_no_native_code(dsn: str) -> None:
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        isolate(db, "always")
        for img in IMAGES:
            assert ask(db, "SELECT dbinfer.classify(%s, 'colours')::text", img)
        assert ask(db, "SELECT (dbinfer.image_info(%s)).width", IMAGES[1]) == 61
        assert len(rows(db, TABLE.format(model="conv", on_error="error"))) == 160
        assert ask(db, "SELECT dbinfer.profile(%s, 'conv')->'microseconds' IS NOT NULL", IMAGES[0])
        found = rows(db, "SELECT pid, milliseconds > 0 FROM dbinfer.warm('conv')")
        assert found == [(db.get_backend_pid(), True)] or len(found) > 1
        assert ask(db, "SELECT public.native()") == ""


@chooses
@pytest.mark.postgres_only("the files of the trial lie on the server's host")
def test_auto_runs_short_rows_here_once_it_pays(dsn: str, db: Connection) -> None:
    isolate(db, "always")
    scored = ask(db, "SELECT dbinfer.classify(%s, 'colours')::text", IMAGES[0])
    isolate(db, "auto")
    with closing(psycopg2.connect(dsn)) as fresh:
        fresh.autocommit = True
        # a mean of 192 numbers takes microseconds, as its trial on this host has shown, the libraries 100 ms
        assert ask(fresh, "SELECT dbinfer.classify(%s, 'colours')::text", IMAGES[0]) == scored
        assert ask(fresh, "SELECT public.native()") == ""
        # from 16 on PostgreSQL takes one row for the DISTINCT of what no column is in; OFFSET 0 keeps all of them
        call = "SELECT dbinfer.classify(%s || int4send(n), 'colours')::text AS found"
        call += " FROM generate_series(1, 1500) n OFFSET 0"
        assert rows(fresh, f"SELECT DISTINCT found FROM ({call}) AS s", IMAGES[0]) == [(scored,)]
        assert "numpy" in ask(fresh, "SELECT public.native()")
        assert "openvino" not in ask(fresh, "SELECT public.native()")
