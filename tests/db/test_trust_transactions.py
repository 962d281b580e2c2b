"""One message of a client may hold several transactions: neither answers nor rights pass from one to another."""

from __future__ import annotations

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

pytestmark = pytest.mark.wide

HEX = f"'\\x{tiny_models.file(tiny_models.picture(1, 2, 3)).hex()}'"
SCORE = f"SELECT (dbinfer.predict({HEX}, 'c'))[1]"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for number in (1, 2):
        deploy(tiny_models.constant(folder, number, "c"), DeployOptions(activate=number == 1), dsn=dsn)
    deploy(tiny_models.constant(folder, 5, "secret"), DeployOptions(private=True), dsn=dsn)
    with psycopg2.connect(dsn) as connection:
        rows(
            connection,
            "CREATE FUNCTION public.tries(lasting boolean) RETURNS real LANGUAGE plpgsql AS $$ DECLARE r real; BEGIN "
            "BEGIN PERFORM dbinfer.activate('c', 2); r := "
            + SCORE.removeprefix("SELECT ")
            + "; IF NOT lasting THEN RAISE 'undo'; END IF; EXCEPTION WHEN raise_exception THEN r := NULL; END; "
            f"RETURN coalesce(r, {SCORE.removeprefix('SELECT ')}); END $$",
        )
    connection.close()


def denied(db: Connection, message: str) -> None:
    """Expect 42501 of a message that begins a transaction, and leave the transaction."""
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        rows(db, message)
    rows(db, "ROLLBACK")


@pytest.mark.parametrize("warm", [False, True])
def test_a_change_rolled_back_in_the_same_message_gives_no_answer(db: Connection, warm: bool) -> None:
    """It gave 2: both transactions have the message's clocks, and no savepoint told them apart."""
    if warm:
        assert ask(db, SCORE) == 1
    assert ask(db, f"BEGIN; SELECT dbinfer.activate('c', 2); {SCORE}; ROLLBACK; {SCORE}") == 1
    assert ask(db, f"BEGIN; SELECT dbinfer.activate('c', 2); {SCORE}") == 2
    rows(db, "ROLLBACK")


@pytest.mark.parametrize("warm", [False, True])
def test_a_caught_exception_takes_the_change_with_it(db: Connection, warm: bool) -> None:
    """It gave 2 in a fresh session, where nothing had noted that the transaction changes the registry."""
    if warm:
        assert ask(db, SCORE) == 1
    assert ask(db, "SELECT public.tries(false)") == 1
    assert ask(db, "BEGIN; SELECT public.tries(true)") == 2
    assert ask(db, f"ROLLBACK; BEGIN; SAVEPOINT s; {SCORE}; ROLLBACK TO s; {SCORE}") == 1
    rows(db, "ROLLBACK")


def test_a_note_of_another_user_is_worth_nothing(db: Connection) -> None:
    """bob got a token of alice's model by a note that her definer function had left in an earlier transaction."""
    with role(db) as alice:
        rows(db, "RESET ROLE")
        rows(db, "SELECT dbinfer.grant_model('secret', %s)", alice)
        rows(
            db,
            "CREATE FUNCTION public.leaves() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
            "PERFORM dbinfer._gate('secret'); PERFORM dbinfer._ask('secret'); RAISE 'left'; END $$",
        )
        rows(db, f"ALTER FUNCTION public.leaves() OWNER TO {alice}")
        left = "DO $$ BEGIN PERFORM public.leaves(); EXCEPTION WHEN OTHERS THEN NULL; END $$"
        with role(db):
            for steal in ("dbinfer._admit('secret', NULL)", "dbinfer._admit('secret', '')"):
                for between in ("", "COMMIT; BEGIN;", "ROLLBACK; BEGIN;"):
                    for savepoint in ("", "SAVEPOINT s;"):
                        denied(db, f"BEGIN; {left}; {between} {savepoint} SELECT {steal}")
        rows(db, "RESET ROLE")
        rows(db, "DROP FUNCTION public.leaves()")
        rows(db, "SELECT dbinfer.revoke_model('secret', %s)", alice)


def test_a_note_counts_once_and_for_its_model(db: Connection) -> None:
    with role(db):
        assert ask(db, "SELECT dbinfer._admit('c', dbinfer._ask('c'))").startswith("dbinfer:")
        refused(db, "42501", "SELECT dbinfer._admit('c', dbinfer._ask('secret'))")
        refused(db, "42501", "SELECT dbinfer._admit(NULL, dbinfer._ask('c'), 'dbinfer:1:0000000000000000')")
        refused(db, "42501", "SELECT dbinfer._admit('secret', dbinfer._ask('secret'))")
        note = ask(db, "SELECT dbinfer._ask('c')")
        assert ask(db, "SELECT dbinfer._admit('c', %s)", note).startswith("dbinfer:")
        refused(db, "42501", "SELECT dbinfer._admit('c', %s)", note)


def test_a_revoke_counts_within_the_message(db: Connection) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, "SELECT dbinfer.grant_model('secret', %s)", name)
        score = f"SET LOCAL ROLE {name}; SELECT (dbinfer.predict({HEX}, 'secret'))[1]; RESET ROLE"
        rows(db, f"BEGIN; {score}")
        denied(db, f"SELECT dbinfer.revoke_model('secret', '{name}'); {score}")
        rows(db, "SELECT dbinfer.revoke_model('secret', %s)", name)
