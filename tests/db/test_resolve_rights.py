"""Who may score with what: grants, roles, definer functions, forged tokens and direct calls of helpers."""

from __future__ import annotations

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
FORGED = f"dbinfer:1:{'0' * 16}"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder, "secret"), DeployOptions(private=True), dsn=dsn)
    deploy(tiny_models.constant(folder, 7, "open"), dsn=dsn)


def test_a_role_without_a_grant_is_refused_with_the_cure(db: Connection) -> None:
    with role(db) as name:
        diag = refused(db, "42501", "SELECT dbinfer.predict(%s, 'secret')", IMAGE)
        assert diag.message_primary == 'permission denied for model "secret"'
        assert name in (diag.message_detail or "")
        assert f"dbinfer.grant_model('secret', '{name}')" in (diag.message_hint or "")
        assert ask(db, "SELECT dbinfer.predict(%s, 'open')", IMAGE) == [7, 7, 7]


def test_grants_count_through_membership(db: Connection) -> None:
    with role(db) as group:
        rows(db, "RESET ROLE")
        rows(db, "SELECT dbinfer.grant_model('secret', %s)", group)
        with role(db, group):
            assert len(ask(db, "SELECT dbinfer.predict(%s, 'secret')", IMAGE)) == 3
        rows(db, "SELECT dbinfer.revoke_model('secret', %s)", group)


def test_members_of_the_owner_may_run_everything(db: Connection) -> None:
    with role(db, "dbinfer_admin"):
        assert len(ask(db, "SELECT dbinfer.predict(%s, 'secret')", IMAGE)) == 3


def test_a_revoke_counts_at_the_next_statement_of_an_open_session(db: Connection) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, "SELECT dbinfer.grant_model('secret', %s)", name)
        rows(db, f"SET ROLE {name}")
        rows(db, "PREPARE p AS SELECT dbinfer.predict($1, 'secret')")
        assert len(ask(db, "EXECUTE p(%s)", IMAGE)) == 3
        rows(db, "RESET ROLE")
        rows(db, "SELECT dbinfer.revoke_model('secret', %s)", name)
        rows(db, f"SET ROLE {name}")
        refused(db, "42501", "EXECUTE p(%s)", IMAGE)
        rows(db, "DEALLOCATE p")


def test_a_token_of_another_role_in_the_same_statement_is_not_reused(db: Connection) -> None:
    rows(db, "SELECT dbinfer.predict(%s, 'secret')", IMAGE)
    with role(db) as name:
        rows(db, "RESET ROLE")
        body = (
            f"DO $$ BEGIN PERFORM dbinfer.predict('\\x{IMAGE.hex()}', 'secret'); SET LOCAL ROLE {name}; "
            f"PERFORM dbinfer.predict('\\x{IMAGE.hex()}', 'secret'); END $$"
        )
        refused(db, "42501", body)


def test_a_definer_function_scores_with_its_owners_right(db: Connection) -> None:
    rows(
        db,
        "CREATE FUNCTION public.lent(b bytea) RETURNS real[] LANGUAGE sql STABLE SECURITY DEFINER "
        "SET search_path = pg_catalog AS $$ SELECT dbinfer.predict(b, 'secret') $$",
    )
    with role(db):
        assert len(ask(db, "SELECT public.lent(%s)", IMAGE)) == 3
        refused(db, "42501", "SELECT public.lent(%s), dbinfer.predict(%s, 'secret')", IMAGE, IMAGE)
        refused(db, "42501", "SELECT dbinfer.predict(%s, 'secret')", IMAGE)
    rows(db, "DROP FUNCTION public.lent(bytea)")


def test_what_a_failing_definer_function_leaves_behind_is_worth_nothing(db: Connection) -> None:
    """The window between _ask and _admit: an error there must not lend the definer's right to its caller."""
    rows(
        db,
        "CREATE FUNCTION public.broken() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS "
        "$$ BEGIN PERFORM dbinfer._ask('secret'); RAISE 'stack depth'; END $$",
    )
    attack = (
        "DO $$ BEGIN BEGIN PERFORM public.broken(); EXCEPTION WHEN raise_exception THEN NULL; END; "
        "PERFORM dbinfer._admit('secret', NULL); END $$"
    )
    with role(db):
        assert "internal" in (refused(db, "42501", attack).message_primary or "")
        refused(db, "P0001", "SELECT public.broken()")
        refused(db, "42501", "SELECT dbinfer._admit('secret', NULL)")
    rows(db, "DROP FUNCTION public.broken()")


@pytest.mark.parametrize("helper", ["_text", "_bytes"])
@pytest.mark.parametrize(
    "token",
    [
        FORGED,
        f"dbinfer:999999999:{'f' * 16}",
        "dbinfer",
        "dbinfer.gate",
        "dbinfer.tickets",
        "dbinfer.note",
        "",
        None,
        "secret",
        f"{FORGED}\n",
    ],
)
@pytest.mark.wide
def test_a_forged_token_gives_nothing(db: Connection, helper: str, token: str | None) -> None:
    with role(db):
        query = f"SELECT dbinfer.{helper}('predict', %s, %s, 'error', 0)"
        for _ in ("in a new session", "where the runtime is loaded"):
            diag = refused(db, "22023", query, IMAGE, token)
            assert "unknown model token" in (diag.message_primary or "")
            assert "dbinfer.predict" in (diag.message_hint or "")
            rows(db, "SELECT dbinfer.predict(%s, 'open')", IMAGE)


@pytest.mark.parametrize(
    "token", [FORGED, "dbinfer:999:0000000000000000", "dbinfer", "", None, "secret", f"{FORGED}\n"]
)
@pytest.mark.wide
def test_a_forged_token_is_not_admitted(db: Connection, token: str | None) -> None:
    """As Greenplum's segments admit themselves: _here keeps the token, _admit_segment checks the grant."""
    with role(db):
        for _ in ("in a new session", "where the runtime is loaded"):
            with pytest.raises(psycopg2.Error) as caught:
                rows(
                    db,
                    "SELECT coalesce(dbinfer._here(%s, false), dbinfer._admit_segment(dbinfer._ask(NULL, false)))",
                    token,
                )
            assert caught.value.diag.sqlstate in ("22023", "42501", "42704")
            assert "Error:" not in (caught.value.diag.message_primary or "")
            rows(db, "SELECT dbinfer.predict(%s, 'open')", IMAGE)


def test_a_token_with_a_guessed_end_still_needs_the_grant(db: Connection) -> None:
    with role(db):
        rows(db, "SELECT dbinfer._ask(NULL)")
        refused(db, "42501", "SELECT dbinfer._admit(%s, NULL, %s)", FORGED, FORGED)
        refused(db, "42501", "SELECT dbinfer._admit(NULL, dbinfer._ask(NULL), %s)", FORGED)


def test_admit_without_a_note_is_refused(db: Connection) -> None:
    with role(db):
        refused(db, "42501", "SELECT dbinfer._admit_segment(NULL)")
        assert "internal" in (
            refused(db, "42501", "SELECT dbinfer._admit('open', NULL)").message_primary or ""
        )
        refused(db, "42501", "SELECT dbinfer._admit(NULL, NULL)")
        refused(db, "42501", "SELECT dbinfer._admit('open', 'x')")


def test_a_token_of_an_earlier_transaction_is_dead(db: Connection) -> None:
    with role(db):
        token = ask(
            db, "SELECT coalesce(dbinfer._gate('open'), dbinfer._admit('open', dbinfer._ask('open')))"
        )
        diag = refused(db, "22023", "SELECT dbinfer._text('predict', %s, %s, 'error', 0)", IMAGE, token)
        assert "another transaction" in (diag.message_primary or "")


@pytest.mark.parametrize("task", ["", "nothing", "image_info", "__class__"])
def test_an_unknown_task_is_refused(db: Connection, task: str) -> None:
    with role(db):
        resolve = "coalesce(dbinfer._gate('open'), dbinfer._admit('open', dbinfer._ask('open')))"
        refused(db, "22023", f"SELECT dbinfer._text(%s, %s, {resolve}, 'error', 0)", task, IMAGE)
        refused(db, "22023", f"SELECT dbinfer._text(NULL, %s, {resolve}, 'error', 0)", IMAGE)


def test_private_helpers_and_tables_are_out_of_reach(db: Connection) -> None:
    names = [
        row[0]
        for row in rows(
            db, "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'dbinfer_private'::regnamespace"
        )
    ]
    tables = [
        row[0]
        for row in rows(
            db,
            "SELECT relname FROM pg_class WHERE relnamespace = 'dbinfer_private'::regnamespace AND relkind = 'r'",
        )
    ]
    assert len(names) > 15
    assert len(tables) > 8
    with role(db):
        for name in names:
            refused(db, "42501", f"SELECT dbinfer_private.{name}()")
        for table in tables:
            refused(db, "42501", f"SELECT * FROM dbinfer_private.{table}")
            refused(
                db, "42501", f"SELECT query_to_xml('SELECT * FROM dbinfer_private.{table}', true, false, '')"
            )


def test_the_registry_belongs_to_the_owner(db: Connection, subtests: pytest.Subtests) -> None:
    for call in [
        "activate('open', 1)",
        "drop_model('open', 1, true)",
        "drop_model('open')",
        "grant_model('secret', 'public')",
        "revoke_model('open', 'public')",
        "set_alias('open', 'mine', 1)",
        "drop_alias('open', 'mine')",
        "set_default('open')",
    ]:
        with subtests.test(call=call), role(db):
            refused(db, "42501", f"SELECT dbinfer.{call}")


def test_a_hostile_search_path_changes_nothing(db: Connection) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, f"CREATE SCHEMA hostile AUTHORIZATION {name}")
        rows(db, f"SET ROLE {name}")
        for made in (
            "FUNCTION hostile.split_part(text, text, integer) RETURNS text LANGUAGE sql AS $$ SELECT 'open' $$",
            "FUNCTION hostile.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS $$ SELECT 'hostile' $$",
            "FUNCTION hostile.same(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$",
            "OPERATOR hostile.= (FUNCTION = hostile.same, LEFTARG = text, RIGHTARG = text)",
        ):
            rows(db, f"CREATE {made}")
        rows(db, "SET search_path = hostile, pg_catalog")
        diag = refused(db, "42501", "SELECT dbinfer.predict(%s, 'secret')", IMAGE)
        assert diag.message_primary == 'permission denied for model "secret"'
        assert ask(db, "SELECT dbinfer.predict(%s, 'open')", IMAGE) == [7, 7, 7]
        assert ask(db, "SELECT dbinfer.profile(%s, 'open') IS NOT NULL", IMAGE)
        rows(db, "RESET search_path")
