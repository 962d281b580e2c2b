"""Tables that somebody has prepared under a name that is written to: nothing runs there with the writer's rights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.database.sql import TableName
from dbinfer.images.load import load
from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score
from dbinfer.score.scoring import Scoring

PICTURE = Path(__file__).parents[2] / "docs" / "report.png"
IMAGE = tiny_models.file(tiny_models.picture(200, 0, 0))
ROW = "(id integer, model text NOT NULL, version integer NOT NULL, {}, PRIMARY KEY (id, model, version))"
SHAPE = ROW.format("class integer, label text, score real, scored_at timestamptz NOT NULL")
ERRORS = ROW.format("reason text NOT NULL, at timestamptz NOT NULL")
# What each table gets, all of mallory's
PARTS = {
    "a trigger": "CREATE TRIGGER t BEFORE INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION mallory.spy_trigger()",
    "a default": "ALTER TABLE {0} ADD x integer DEFAULT mallory.spy()",
    "a generated column": "ALTER TABLE {0} ADD x integer GENERATED ALWAYS AS (mallory.spy()) STORED",
    "a check": "ALTER TABLE {0} ADD CHECK (mallory.spy() = 1)",
    "an index": "CREATE INDEX ON {0} (mallory.spy(id::integer))",
    "a rule": "CREATE RULE r AS ON INSERT TO {0} DO ALSO SELECT mallory.spy()",
    "a policy": "ALTER TABLE {0} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {0} USING (mallory.spy() = 1)",
    "a domain": "ALTER TABLE {0} ADD x mallory.watched DEFAULT 1",
    "an operator": "ALTER TABLE {0} ADD CHECK (id::integer OPERATOR(mallory.===) 1)",
}
SPY = """
CREATE SCHEMA mallory AUTHORIZATION {0};
GRANT ALL ON SCHEMA public TO {0};
CREATE TABLE mallory.seen (who name);
SET ROLE {0};
CREATE FUNCTION mallory.spy(integer DEFAULT 0) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  RETURN 1; END $$;
CREATE FUNCTION mallory.spy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO mallory.seen VALUES (current_user); RETURN NEW; END $$;
CREATE FUNCTION mallory.same(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT mallory.spy() = 1';
CREATE OPERATOR mallory.=== (LEFTARG = integer, RIGHTARG = integer, FUNCTION = mallory.same);
CREATE DOMAIN mallory.watched AS integer CHECK (mallory.spy() = 1);
RESET ROLE;
"""


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture
def mallory(db: Connection) -> Iterator[str]:
    """A role that may create in public, and the tables of images of a superuser."""
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, SPY.format(name))
        make_images(db, "scans", [IMAGE, b"damaged"])
        try:
            yield name
        finally:
            rows(db, "RESET ROLE")
            rows(
                db,
                "DROP TABLE IF EXISTS public.answers, public.answers_errors, public.scans, public.images CASCADE",
            )
            rows(db, f"DROP SCHEMA mallory CASCADE; DROP OWNED BY {name} CASCADE")


def nothing_ran(db: Connection) -> None:
    assert ask(db, "SELECT pg_catalog.count(*) FROM mallory.seen") == 0


@pytest.mark.parametrize("planted", ["answers_errors", "answers"])
def test_a_table_of_somebody_else_gets_no_results(
    db: Connection, dsn: str, mallory: str, planted: str
) -> None:
    columns = ERRORS if planted == "answers_errors" else SHAPE
    rows(
        db,
        f"SET ROLE {mallory}; CREATE TABLE public.{planted} {columns}; " + PARTS["a trigger"].format(planted),
    )
    rows(db, "RESET ROLE")
    with pytest.raises(
        DataError, match=f"public.{planted} is not written to: table {planted} belongs to {mallory}"
    ):
        score("scans", "answers", ScoreOptions(), dsn)
    nothing_ran(db)


def test_parts_of_somebody_else_on_a_table_of_ones_own(db: Connection, dsn: str, mallory: str) -> None:
    for statement in PARTS.values():
        rows(db, f"CREATE TABLE public.answers {SHAPE}; GRANT ALL ON public.answers TO {mallory}")
        rows(
            db,
            "CREATE TABLE public.images (id bigserial, path text NOT NULL, img bytea NOT NULL)",
        )
        for table in ("public.answers", "public.images"):
            rows(db, "TRUNCATE mallory.seen")
            # as from the time when it was mallory's
            rows(
                db, f"ALTER TABLE {table} OWNER TO {mallory}; SET ROLE {mallory}; " + statement.format(table)
            )
            rows(db, f"RESET ROLE; ALTER TABLE {table} OWNER TO CURRENT_USER; TRUNCATE mallory.seen")
            write = (
                partial(score, "scans", "answers") if table == "public.answers" else partial(load, [PICTURE])
            )
            with pytest.raises(DataError, match=f"is not written to: .* belongs to {mallory}"):
                write(dsn=dsn)
            if table == "public.answers":
                with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="is not written to"):
                    rows(
                        db,
                        "SELECT dbinfer.classify_into('public.answers', 'public.scans', on_error => 'null')",
                    )
            nothing_ran(db)
        rows(db, "DROP TABLE public.answers, public.images CASCADE")


def test_a_table_of_somebody_else_gets_no_missing_rows(db: Connection, dsn: str, mallory: str) -> None:
    rows(
        db,
        f"SET ROLE {mallory}; CREATE TABLE public.answers (id integer, class integer, label text, score real)",
    )
    rows(db, PARTS["a trigger"].format("answers") + "; RESET ROLE")
    rows(db, "DELETE FROM public.scans WHERE id = 1")
    with pytest.raises(DataError, match=f"table answers belongs to {mallory}"):
        score("scans", "answers", ScoreOptions(append=True), dsn)
    nothing_ran(db)


def test_a_partition_of_somebody_else(db: Connection, dsn: str, mallory: str) -> None:
    rows(db, f"CREATE TABLE public.answers {SHAPE} PARTITION BY RANGE (id)")
    rows(db, "CREATE TABLE public.low PARTITION OF public.answers DEFAULT")
    rows(db, f"ALTER TABLE public.low OWNER TO {mallory}")
    with pytest.raises(DataError, match=f"table low belongs to {mallory}"):
        score("scans", "answers", ScoreOptions(), dsn)


def test_a_table_that_takes_the_place_of_ours_meanwhile(db: Connection, dsn: str, mallory: str) -> None:
    """Who owns the schema may drop what others have in it: each transaction looks anew."""
    make_images(db, "many", [IMAGE], 40)
    try:
        batches = Scoring("many", "answers", ScoreOptions(batch=4, connections=1), dsn).batches()
        for progress in batches:
            if progress.done:
                break
        rows(db, "BEGIN; LOCK public.answers; DROP TABLE public.answers")
        rows(
            db,
            f"SET ROLE {mallory}; CREATE TABLE public.answers {SHAPE}; "
            + PARTS["a trigger"].format("answers"),
        )
        rows(db, "RESET ROLE; COMMIT")
        # a session of Greenplum that waited for the table that went does not look its name up again
        refusals = f'table answers belongs to {mallory}|relation "public.answers" does not exist'
        with pytest.raises(DataError, match=refusals):
            list(batches)
        nothing_ran(db)
    finally:
        rows(db, "DROP TABLE public.many")


def test_a_table_that_is_held_on_the_coordinator_alone(db: Connection, mallory: str) -> None:
    """As the batches of a job on a cluster hold theirs: nothing of others runs, and nobody adds any meanwhile."""
    spy = "CREATE OR REPLACE FUNCTION mallory.spy(integer DEFAULT 0) RETURNS integer LANGUAGE plpgsql "
    spy += "IMMUTABLE AS $$ BEGIN {} END $$"
    answers = TableName("public", "answers")
    for statement in PARTS.values():
        rows(db, f"CREATE TABLE public.answers {SHAPE}; ALTER TABLE public.answers OWNER TO {mallory}")
        rows(db, f"SET ROLE {mallory}; {statement.format('public.answers')}; RESET ROLE")
        rows(db, "ALTER TABLE public.answers OWNER TO CURRENT_USER; " + spy.format("RAISE 'it ran';"))
        with db.cursor() as cur, pytest.raises(DataError, match=f"belongs to {mallory}"):
            answers.require_own(cur, here=True)
        rows(db, "DROP TABLE public.answers CASCADE; " + spy.format("RETURN 1;"))
    rows(db, f"CREATE TABLE public.answers {SHAPE}")
    held = "SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = '{}'::regclass AND granted"
    for part in ("public.answers", "mallory.part"):
        rows(db, "BEGIN")
        with db.cursor() as cur:
            answers.require_own(cur, here=True)
        assert ("RowExclusiveLock",) in rows(db, held.format(part))
        rows(db, "COMMIT; CREATE TABLE IF NOT EXISTS mallory.part () INHERITS (public.answers)")
