"""Who may do what, held against a list: a new function shows up here before it shows up at a user's."""

from __future__ import annotations

from pathlib import Path

from asking import rows
from psycopg2.extensions import connection as Connection

GOLDEN = Path(__file__).with_name("privileges.txt")
QUERY = Path(__file__).with_name("privileges.sql")


def test_privileges_are_those_of_the_list(db: Connection) -> None:
    """After a wanted change: write the lines of the failure into privileges.txt, and look at each of them."""
    found = [row[0] for row in rows(db, QUERY.read_text())]
    expected = [line for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#")]
    assert found == expected


def test_definer_functions_fix_their_search_path(db: Connection) -> None:
    loose = rows(
        db,
        "SELECT proname FROM pg_proc WHERE proowner = 'dbinfer_owner'::regrole AND prosecdef "
        "AND coalesce(proconfig::text, '') NOT LIKE '%search_path=pg_catalog, pg_temp%'",
    )
    assert loose == []


def test_no_function_belongs_to_a_superuser(db: Connection) -> None:
    query = (
        "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace "
        "WHERE nspname LIKE 'dbinfer%' AND proowner <> 'dbinfer_owner'::regrole"
    )
    assert rows(db, query) == []
    owner = rows(
        db, "SELECT rolsuper, rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = 'dbinfer_owner'"
    )
    assert owner == [(False, False, False)]


def test_functions_that_keep_something_in_the_process_are_not_parallel_safe(db: Connection) -> None:
    """`SELECT helper()` of plpgsql must not be planned into another process, whose GD is not ours."""
    query = (
        "SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace JOIN pg_language l "
        "ON l.oid = prolang WHERE nspname = 'dbinfer_private' AND lanname = 'plpython3u' AND proparallel = 's'"
    )
    assert rows(db, query) in ([("place",)], [])
