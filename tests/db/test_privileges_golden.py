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
        "SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname LIKE 'dbinfer%' "
        "AND prosecdef AND coalesce(proconfig::text, '') NOT LIKE '%search_path=pg_catalog, pg_temp%'",
    )
    assert loose == []


def test_everything_belongs_to_a_superuser(db: Connection) -> None:
    """The owner of a function or table decides what the others' backends run."""
    owned = (
        "SELECT {name} FROM {catalog} JOIN pg_roles r ON r.oid = {prefix}owner AND NOT r.rolsuper "
        "JOIN pg_namespace n ON n.oid = {prefix}namespace WHERE nspname LIKE 'dbinfer%'"
    )
    for prefix, catalog in (("pro", "pg_proc"), ("rel", "pg_class"), ("typ", "pg_type")):
        assert rows(db, owned.format(name=f"{prefix}name", catalog=catalog, prefix=prefix)) == []
    assert (
        rows(
            db,
            "SELECT nspname FROM pg_namespace JOIN pg_roles r ON r.oid = nspowner AND NOT rolsuper "
            "WHERE nspname LIKE 'dbinfer%'",
        )
        == []
    )


def test_the_administrators_role_has_calls_and_nothing_else(db: Connection) -> None:
    role = rows(
        db, "SELECT rolsuper, rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = 'dbinfer_admin'"
    )
    assert role == [(False, False, False)]
    held = rows(
        db,
        "SELECT classid::regclass::text, deptype FROM pg_shdepend WHERE refobjid = 'dbinfer_admin'::regrole "
        "AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY 1, 2",
    )
    assert held == [("pg_proc", "a")]
    open_to_it = rows(
        db,
        "SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace, LATERAL aclexplode(proacl) a "
        "WHERE a.grantee = 'dbinfer_admin'::regrole AND NOT (prosecdef AND nspname = 'dbinfer')",
    )
    assert open_to_it == []


def test_functions_that_keep_something_in_the_process_are_not_parallel_safe(db: Connection) -> None:
    """`SELECT helper()` of plpgsql must not be planned into another process, whose GD is not ours."""
    query = (
        "SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace JOIN pg_language l "
        "ON l.oid = prolang WHERE nspname = 'dbinfer_private' AND lanname = 'plpython3u' AND proparallel = 's'"
    )
    assert rows(db, query) in ([("place",)], [])
