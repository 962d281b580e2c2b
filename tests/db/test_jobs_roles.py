"""A job belongs to the role that acts: after SET ROLE, and within somebody's SECURITY DEFINER function."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from asking import ask, make_images, refused, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, jobs, score

IMAGE = tiny_models.file(tiny_models.picture(200, 0, 0))
BEGIN = "SELECT dbinfer._begin_job(%s, dbinfer._ask('dbinfer score'))"
TELL = "SELECT dbinfer._tell_job(%s, 7, 9, 0, NULL, 'running', dbinfer._ask('dbinfer score'))"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


def facts(target: str) -> str:
    names = ("source", "target", "function", "model")
    return json.dumps(dict.fromkeys(names, target) | {"version": 1, "connections": 1})


@pytest.fixture
def started(db: Connection) -> Iterator[Any]:
    """A function that begins a job as the role that the session is now."""
    rows(db, "CREATE TABLE public.answers (id integer)")
    yield lambda: ask(db, BEGIN, facts("public.answers"))
    rows(db, "DROP TABLE public.answers")


def listed(db: Connection) -> list[int]:
    return [number for (number,) in rows(db, "SELECT id FROM dbinfer.jobs ORDER BY id")]


def test_after_set_role_the_job_is_that_roles(db: Connection, started: Any) -> None:
    with role(db) as name:
        number = started()
        assert rows(db, "SELECT id, role FROM dbinfer.jobs") == [(number, name)]
        assert ask(db, TELL, number) is False
        rows(db, "SELECT dbinfer.cancel_job(%s)", number)
        assert ask(db, TELL, number) is True


def test_set_role_leaves_the_sessions_own_jobs_behind(db: Connection, started: Any) -> None:
    """The session is a superuser's, who sees all; the role that it takes sees nothing of his."""
    number = started()
    with role(db):
        assert listed(db) == []
        assert ask(db, TELL, number) is None
        refused(db, "42704", "SELECT dbinfer.cancel_job(%s)", number)
    rows(db, "SELECT dbinfer.cancel_job(%s)", number)


def test_a_function_of_somebody_else_gets_nothing_of_an_administrator(db: Connection, started: Any) -> None:
    """What a SECURITY DEFINER function of an ordinary role does is done as that role, whoever calls it."""
    number = started()
    rows(db, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    with role(db) as name:
        rows(
            db,
            "CREATE FUNCTION public.innocent(number bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ "
            "BEGIN PERFORM dbinfer.cancel_job(number); RETURN 0; END $$",
        )
        rows(
            db,
            "CREATE FUNCTION public.seen() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS "
            "$$ SELECT count(*) FROM dbinfer.jobs $$",
        )
        rows(
            db,
            "CREATE FUNCTION public.begun(facts jsonb) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS "
            "$$ SELECT dbinfer._begin_job(facts, dbinfer._ask('dbinfer score')) $$",
        )
        rows(db, "RESET ROLE")
        refused(db, "42704", "SELECT public.innocent(%s)", number)
        assert ask(db, "SELECT public.seen()") == 0
        own = ask(db, "SELECT public.begun(%s)", facts("public.others"))
        assert ask(db, "SELECT role FROM dbinfer.jobs WHERE id = %s", own) == name
        assert ask(db, "SELECT public.innocent(%s)", own) == 0
    rows(db, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")


def test_what_strangers_say_of_their_jobs_harms_no_administrator(db: Connection) -> None:
    """Their words are shown on administrators' terminals: no escape sequences, no text without end, no wrong types."""
    evil = "\x1b]0;owned\x07 \u202egnp.exe \x9b31m" + "x" * 5000
    with role(db) as name:
        said = dict.fromkeys(("source", "function", "model"), evil) | {
            "target": "public.t",
            "version": 1,
            "connections": 1,
        }
        number = ask(db, BEGIN, json.dumps(said | {"more": evil}))
        tell = "SELECT dbinfer._tell_job(%s, -7, NULL, NULL, %s, 'failed', dbinfer._ask('dbinfer score'))"
        assert ask(db, tell, number, evil) is False
        rows(db, "RESET ROLE")
        (job,) = rows(
            db, "SELECT source, function, model, last_error FROM dbinfer.jobs WHERE role = %s", name
        )
        assert [len(text) for text in job] == [300, 100, 300, 2000]
        assert all(text.isprintable() for text in job)
        assert rows(db, "SELECT done, total, errors FROM dbinfer.jobs WHERE id = %s", number) == [
            (0, None, 0)
        ]
        assert ask(db, "SELECT count(*) FROM dbinfer_private.job WHERE facts ? 'more'") == 0
        # what an older client could store
        rows(
            db,
            'UPDATE dbinfer_private.job SET facts = \'{"version": "no", "connections": [1]}\' WHERE id = %s',
            number,
        )
        assert rows(db, "SELECT version, connections FROM dbinfer.jobs WHERE id = %s", number) == [
            (None, None)
        ]


def test_a_role_that_is_made_again_under_an_old_name_is_another_one(db: Connection, started: Any) -> None:
    with role(db) as name:
        number = started()
        assert listed(db) == [number]
        rows(db, f"RESET ROLE; DROP ROLE {name}; CREATE ROLE {name} NOLOGIN; SET ROLE {name}")
        assert listed(db) == []
        assert ask(db, TELL, number) is None
        refused(db, "42704", "SELECT dbinfer.cancel_job(%s)", number)


def test_a_role_keeps_no_more_than_a_thousand_jobs(db: Connection, started: Any) -> None:
    with role(db) as name:
        number = started()
        rows(db, "RESET ROLE")
        # without nextval, of which Greenplum 7.0 gives the same numbers to a segment and to the session that asks it
        copies = "id + n, role, facts, 'done', 0, 0, 0, '', pid, false, now(), now(), now()"
        rows(
            db,
            f"INSERT INTO dbinfer_private.job SELECT {copies} FROM dbinfer_private.job, generate_series(1, 1500) n "
            f"WHERE id = {number}",
        )
        rows(db, f"SELECT setval('dbinfer_private.job_id', {number} + 1500)")
        rows(db, f"SET ROLE {name}")
        last = ask(db, BEGIN, facts("public.another"))
        assert (len(listed(db)), listed(db)[-1]) == (1001, last)


def test_score_and_deploy_go_by_the_role_that_the_connection_takes(
    db: Connection, dsn: str, tmp_path: Path
) -> None:
    make_images(db, "images", [IMAGE], copies=10)
    rows(
        db,
        "CREATE ROLE jobs_taken; GRANT dbinfer_admin TO jobs_taken; CREATE SCHEMA taken AUTHORIZATION jobs_taken",
    )
    taken = make_dsn(dsn, options="-c role=jobs_taken")
    try:
        assert (
            score(predictions="taken.predictions", options=ScoreOptions(model="colours"), dsn=taken).rows
            == 10
        )
        assert jobs(1, taken).jobs[0]["role"] == "jobs_taken"
        deploy(tiny_models.constant(tmp_path, 5, "mine"), dsn=taken)
        assert ask(db, "SELECT created_by FROM dbinfer.model_versions WHERE name = 'mine'") == "jobs_taken"
    finally:
        rows(db, "DROP OWNED BY jobs_taken CASCADE")
        rows(db, "DROP ROLE jobs_taken")
        rows(db, "DROP TABLE images")
