"""The coordinator's reader process ("entry db" slice): it scores what the dispatcher resolved, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

LIMITED = "(SELECT * FROM images ORDER BY id LIMIT 3) l"
# Greenplum runs the SELECT list of this one in the reader, with both planners.
IN_READER = (
    f"CREATE TEMP TABLE found AS SELECT l.id, {{value}} AS v FROM {LIMITED} "
    "JOIN pg_class c ON c.relname = 'pg_class' DISTRIBUTED BY (id)"
)
CALL = "(dbinfer.predict(l.img, 'constant'))[1]"
BODY = "(dbinfer.predict(b, 'constant'))[1]"
HIDING = {
    "plpgsql": f"LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN {BODY}; END $$",
    "definer": f"LANGUAGE sql STABLE SECURITY DEFINER AS $$ SELECT {BODY} $$",
    "strict": f"LANGUAGE sql STABLE STRICT AS $$ SELECT {BODY} $$",
    "search_path": f"LANGUAGE sql STABLE SET search_path = pg_catalog AS $$ SELECT {BODY} $$",
}
SHOWING = f"LANGUAGE sql STABLE AS $$ SELECT {BODY} $$"


@pytest.fixture
def second(cluster: str, folder: Path) -> Iterator[int]:
    """The number of a version of `constant` for one test, which answers 8 and is not active."""
    version = deploy(tiny_models.constant(folder, 8), DeployOptions(activate=False), dsn=cluster).version
    yield version
    with closing(psycopg2.connect(cluster)) as connection:
        connection.autocommit = True
        rows(connection, "SELECT dbinfer.drop_model('constant', %s)", version)


def in_reader(session: Connection, value: str = CALL) -> list[float]:
    """Return the values of three images that the reader process computes."""
    rows(session, "DROP TABLE IF EXISTS found")
    rows(session, IN_READER.format(value=value))
    found = rows(session, "SELECT v FROM found ORDER BY id")
    rows(session, "DROP TABLE found")
    return [row[0] for row in found]


def wrapper(session: Connection, body: str) -> None:
    rows(session, f"CREATE OR REPLACE FUNCTION wrapped(b bytea) RETURNS real {body}")


def test_it_is_the_reader(session: Connection) -> None:
    """The other tests show something only where this holds."""
    rows(
        session,
        "CREATE OR REPLACE FUNCTION place(b bytea) RETURNS text LANGUAGE plpgsql STABLE AS "
        "$$ BEGIN RETURN current_setting('gp_role') || current_setting('gp_contentid'); END $$",
    )
    assert in_reader(session, "place(l.img)") == ["execute-1"] * 3


def test_create_table_as_a_join_with_the_catalog(session: Connection) -> None:
    assert in_reader(session) == [7, 7, 7]
    assert in_reader(session, "(dbinfer.predict(l.img, 'colours'))[1]") == [250, 0, 0]
    assert in_reader(session, "(dbinfer.image_info(l.img)).width") == [8, 8, 8]


def test_two_models_and_the_same_statement_again(session: Connection) -> None:
    both = "(dbinfer.predict(l.img, 'colours'))[1] + (dbinfer.predict(l.img, 'constant'))[1]"
    for _ in range(3):
        assert in_reader(session, both) == [257, 7, 7]


def test_a_bad_image_is_one_error(session: Connection) -> None:
    diag = refused(session, "22P03", IN_READER.format(value="dbinfer.predict('\\x1234', 'constant')"))
    assert "not an image" in diag.message_primary
    bad = "CASE l.id WHEN 1 THEN '\\x1234' ELSE l.img END"
    diag = refused(session, "22P03", IN_READER.format(value=f"dbinfer.predict({bad}, 'constant')"))
    assert "segment -1" in diag.message_detail
    assert in_reader(session, f"(dbinfer.predict({bad}, 'constant', 'null'))[1]") == [7, None, 7]


def test_versions_are_those_of_the_statement(session: Connection, second: int) -> None:
    assert in_reader(session) == [7, 7, 7]
    rows(session, "BEGIN")
    rows(session, "SELECT dbinfer.activate('constant', %s)", second)
    assert in_reader(session) == [8, 8, 8]
    rows(session, "ROLLBACK")
    assert in_reader(session) == [7, 7, 7]


@pytest.mark.parametrize("kind", HIDING)
def test_a_function_that_hides_the_model(session: Connection, kind: str) -> None:
    wrapper(session, HIDING[kind])
    diag = refused(session, "0A000", IN_READER.format(value="wrapped(l.img)"))
    assert diag.message_primary.startswith(
        'dbinfer: model "constant" cannot be looked up in the coordinator\'s reader process'
    )
    assert "CREATE TEMP TABLE few AS" in diag.message_hint
    assert "LANGUAGE sql" in diag.message_hint


@pytest.mark.parametrize("kind", HIDING)
def test_the_cures_that_the_hint_names(session: Connection, kind: str) -> None:
    wrapper(session, HIDING[kind])
    rows(session, "DROP TABLE IF EXISTS few")
    rows(session, f"CREATE TEMP TABLE few AS SELECT * FROM {LIMITED}")
    assert rows(session, "SELECT wrapped(img) FROM few") == [(7,)] * 3
    wrapper(session, SHOWING)
    assert in_reader(session, "wrapped(l.img)") == [7, 7, 7]


@pytest.mark.parametrize("kind", HIDING)
def test_above_a_limit_the_dispatcher_refuses_it(session: Connection, kind: str) -> None:
    """The message is Greenplum's own; its CONTEXT names the hint."""
    wrapper(session, HIDING[kind])
    diag = refused(session, "0A000", f"SELECT wrapped(img) FROM {LIMITED}")
    assert "multiple segworker groups" in diag.message_primary
    assert "CREATE TEMP TABLE few AS SELECT" in diag.context
    assert (
        rows(session, f"SELECT wrapped(img), dbinfer.predict(img, 'constant') FROM {LIMITED}")[0][0] == 7
        or kind == "definer"
    )


@pytest.mark.parametrize("kind", ["plpgsql", "strict", "search_path"])
def test_a_model_that_the_statement_names_elsewhere_is_found(session: Connection, kind: str) -> None:
    wrapper(session, HIDING[kind])
    assert in_reader(session, f"wrapped(l.img) + {CALL}") == [14, 14, 14]
    refused(session, "0A000", IN_READER.format(value="wrapped(l.img)"))


def token_of(session: Connection) -> str:
    """Return the token that a plan shows."""
    plan = rows(session, f"EXPLAIN (VERBOSE) SELECT {CALL} FROM {LIMITED}")
    found = re.search(r"dbinfer:\d+:[0-9a-f]{16}", str(plan))
    assert found
    return found[0]


def by_token(token: str) -> str:
    """Return what a plan computes for a token."""
    here = f"dbinfer._here('{token}', l.img IS NULL)"
    admitted = "dbinfer._admit_segment(dbinfer._ask(NULL, l.img IS NULL))"
    return f"(dbinfer._text('predict', l.img, coalesce({here}, {admitted}), 'error', 0)::real[])[1]"


def test_a_token_counts_for_its_user_in_its_transaction(session: Connection) -> None:
    with role(session) as other:
        for command in ("RESET ROLE", f"GRANT SELECT ON images TO {other}", "BEGIN"):
            rows(session, command)
        token = token_of(session)
        assert in_reader(session, by_token(token)) == [7, 7, 7]
        rows(session, "SAVEPOINT mine")
        rows(session, f"SET LOCAL ROLE {other}")
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match="another user or transaction"):
            rows(session, IN_READER.format(value=by_token(token)))
        rows(session, "ROLLBACK TO mine")
        assert in_reader(session, by_token(token)) == [7, 7, 7]
        rows(session, "COMMIT")
        diag = refused(session, "22023", IN_READER.format(value=by_token(token)))
        assert "another user or transaction" in diag.message_primary


@pytest.mark.parametrize("token", ["dbinfer:1:0123456789abcdef", "dbinfer:1:../../PG_VERSION", "x", ""])
def test_a_forged_token(session: Connection, token: str) -> None:
    assert in_reader(session) == [7, 7, 7]
    refused(session, "22023", IN_READER.format(value=by_token(token)))


def test_of_sessions_that_are_gone_nothing_is_left(cluster: str) -> None:
    for _ in range(3):
        with closing(psycopg2.connect(cluster)) as connection:
            connection.autocommit = True
            in_reader(connection)
    with closing(psycopg2.connect(cluster)) as connection:
        connection.autocommit = True
        in_reader(connection)
        left = {row[0] for row in rows(connection, "SELECT pg_ls_dir('dbinfer_entry')")}
        alive = {str(row[0]) for row in rows(connection, "SELECT sess_id FROM pg_stat_activity")}
        mine = str(ask(connection, "SHOW gp_session_id"))
        tickets = rows(connection, f"SELECT pg_ls_dir('dbinfer_entry/{mine}')")
    assert {name for name in left if not name.startswith("runtime-")} <= alive
    assert mine in left
    assert len(tickets) == 5  # owner, digest, runtime, one ticket and its name
