"""session: one transaction, and the server's errors as one sentence of the wanted class."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest
from asking import role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import DataError, InstallError, RegistryError, ServerError
from dbinfer.database.connection import not_installed, session


def _create_and_fail(conn: Connection) -> None:
    rows(conn, "CREATE TABLE public.lost (a int)")
    raise RuntimeError


def test_commits_at_the_end_and_rolls_back_on_an_error(empty_dsn: str) -> None:
    with session(empty_dsn, needs_dbinfer=False) as conn, conn.cursor() as cur:
        cur.execute("CREATE TABLE public.kept (a int)")
    with pytest.raises(RuntimeError), session(empty_dsn, needs_dbinfer=False) as conn:
        _create_and_fail(conn)
    with closing(psycopg2.connect(empty_dsn)) as conn:
        assert rows(conn, "SELECT to_regclass('kept') IS NULL, to_regclass('lost') IS NULL") == [
            (False, True)
        ]


@pytest.mark.parametrize("error", [DataError, RegistryError, InstallError])
def test_a_database_without_dbinfer_is_refused_in_one_way(empty_dsn: str, error: type[DataError]) -> None:
    with pytest.raises(error) as caught, session(empty_dsn, error=error):
        pass
    assert str(caught.value) == str(not_installed(error))
    assert caught.value.hint == "Install it: dbinfer install"


def test_a_database_with_dbinfer_is_not(dsn: str) -> None:
    with session(dsn, readonly=True) as conn:
        assert rows(conn, "SELECT count(*) FROM dbinfer.models") == [(0,)]


def test_what_the_server_says_becomes_one_sentence(empty_dsn: str) -> None:
    text = "DO $$ BEGIN RAISE 'no such thing' USING DETAIL = 'It is gone.', HINT = 'Make it.'; END $$"
    with (
        pytest.raises(RegistryError) as caught,
        session(empty_dsn, error=RegistryError, needs_dbinfer=False) as conn,
    ):
        rows(conn, text)
    assert (caught.value.message, caught.value.hint) == ("no such thing (It is gone)", "Make it.")


def test_denied_permission_names_the_cure_of_its_kind(empty_dsn: str) -> None:
    with closing(psycopg2.connect(empty_dsn)) as admin:
        admin.autocommit = True
        rows(admin, "CREATE TABLE public.closed (a int)")
        with role(admin) as name:
            theirs = make_dsn(empty_dsn, options=f"-c role={name}")
            for error in (InstallError, RegistryError):
                with (
                    pytest.raises(error) as caught,
                    session(theirs, error=error, needs_dbinfer=False) as conn,
                ):
                    rows(conn, "TABLE public.closed")
                assert caught.value.message == "permission denied for table closed"
                assert caught.value.hint == error.when_denied != ""


def test_readonly_refuses_changes_and_autocommit_opens_no_transaction(empty_dsn: str) -> None:
    with (
        pytest.raises(DataError, match="read-only transaction"),
        session(empty_dsn, needs_dbinfer=False, readonly=True) as conn,
    ):
        rows(conn, "CREATE TABLE public.never (a int)")
    with session(empty_dsn, needs_dbinfer=False, autocommit=True) as conn, conn.cursor() as cur:
        cur.execute("VACUUM pg_class")


def test_a_lost_connection_is_the_servers(empty_dsn: str) -> None:
    with pytest.raises(ServerError) as caught, session(empty_dsn, needs_dbinfer=False) as conn:
        rows(conn, "SELECT pg_terminate_backend(pg_backend_pid())")
    assert "connection" in str(caught.value)


def test_text_is_utf8_whatever_the_environment_says(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with session(empty_dsn, needs_dbinfer=False) as conn:
        assert rows(conn, "SHOW client_encoding") == [("UTF8",)]
