"""Who may deploy may do that and nothing else: the source that backends run, and all tables, are a superuser's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from catalog import another_database
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from released_version import Release

from dbinfer import doctor
from dbinfer.base.errors import DbinferError, InstallError, RegistryError
from dbinfer.install import InstallOptions, install, uninstall, upgrade
from dbinfer.models import DeployOptions, activate, deploy, drop

pytestmark = pytest.mark.wide

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
EVIL = (
    "CREATE FUNCTION public.evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "INSERT INTO public.ran VALUES (current_user); RETURN NEW; END $$"
)
# What a member of 0.1.0's owner role could leave: it would run with a superuser's rights, or keep a hand in.
PLANTED = {
    "trigger": "CREATE TRIGGER planted BEFORE INSERT OR UPDATE ON dbinfer_private.setting FOR EACH ROW "
    "EXECUTE PROCEDURE public.evil()",
    "rule": "CREATE RULE planted AS ON INSERT TO dbinfer_private.runtime_module DO ALSO "
    "INSERT INTO public.ran VALUES (current_user)",
    "default": "ALTER TABLE dbinfer_private.upgrade ADD COLUMN planted text DEFAULT public.name_of()",
    "constraint": "ALTER TABLE dbinfer_private.setting ADD CONSTRAINT planted CHECK (public.name_of() <> name)",
    "index": "CREATE INDEX planted ON dbinfer_private.setting ((public.name_of()))",
    "child": "CREATE TABLE public.planted () INHERITS (dbinfer_private.runtime_module)",
    "overload": "CREATE FUNCTION dbinfer_private.set_setting(varchar, varchar) RETURNS void LANGUAGE sql AS "
    "$$ INSERT INTO public.ran VALUES (current_user) $$",
    "function": "CREATE FUNCTION dbinfer.planted() RETURNS text LANGUAGE sql AS $$ SELECT current_user::text $$",
    "view": "ALTER TABLE dbinfer_private.alias RENAME TO planted; "
    "CREATE VIEW dbinfer_private.alias AS SELECT 'a'::text AS model, "
    "public.name_of() AS alias, 1 AS version",
    "policy": "CREATE POLICY planted ON dbinfer_private.setting USING (public.name_of() IS NOT NULL)",
    "operator": "CREATE OPERATOR dbinfer.= (FUNCTION = public.same, LEFTARG = text, RIGHTARG = integer)",
}


@pytest.fixture
def old(server_dsn: str, venv: Path) -> Iterator[str]:
    """A database of 0.1.0 where mallory is a member of its owner role."""
    with another_database(server_dsn, "test_released") as dsn:
        Release("0.1.0").install(dsn, {"venv": str(venv)})
        Release("0.1.0").deploy(dsn)
        with closing(psycopg2.connect(dsn)) as connection, connection:
            rows(connection, "CREATE ROLE mallory LOGIN; GRANT dbinfer_owner TO mallory")
            rows(connection, "CREATE TABLE public.ran (who text); GRANT ALL ON public.ran TO PUBLIC")
            rows(connection, "GRANT CREATE ON SCHEMA public TO dbinfer_owner")
            rows(connection, "GRANT CREATE ON SCHEMA dbinfer TO mallory")
        try:
            yield dsn
        finally:
            with closing(psycopg2.connect(dsn)) as connection, connection:
                rows(connection, "DROP OWNED BY mallory; DROP ROLE mallory")


@contextmanager
def as_role(dsn: str, name: str) -> Iterator[Connection]:
    with closing(psycopg2.connect(dsn, options=f"-c role={name}")) as connection:
        connection.autocommit = True
        yield connection


@pytest.mark.parametrize("kind", PLANTED)
def test_what_a_member_of_the_old_owner_left_is_named_and_does_not_run(old: str, kind: str) -> None:
    """`dbinfer install` gave him superuser, by a trigger on setting that ran with the installing superuser's rights."""
    with as_role(old, "dbinfer_owner") as member:
        rows(member, EVIL)
        rows(
            member,
            "CREATE FUNCTION public.name_of() RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''x''::text'",
        )
        rows(
            member, "CREATE FUNCTION public.same(text, integer) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
        try:
            rows(member, PLANTED[kind])
        except psycopg2.errors.FeatureNotSupported as err:
            pytest.skip(f"this server knows no such thing: {err.diag.message_primary}")
        rows(member, "DELETE FROM public.ran")
    for change in (lambda: upgrade(dsn=old), lambda: install(InstallOptions(max_models=3), old)):
        with pytest.raises(InstallError, match="hold what is not ours") as caught:
            change()
        assert "planted" in caught.value.message or kind in ("overload", "operator")
    with closing(psycopg2.connect(old)) as connection:
        assert rows(connection, "SELECT * FROM public.ran") == []


def test_members_of_the_old_owner_deploy_and_nothing_else(old: str, tmp_path: Path) -> None:
    model = tiny_models.constant(tmp_path, 3, "m")
    report = upgrade(dsn=old)
    assert "dbinfer_owner" in report.administrators
    assert "Members of dbinfer_admin" in report.message
    theirs = make_dsn(old, options="-c role=mallory")
    assert deploy(model, dsn=theirs).version == 3
    activate("m@1", theirs)
    drop("m@3", dsn=theirs)
    for name in ("mallory", "dbinfer_owner"):
        with as_role(old, name) as member:
            for attempt in (
                "UPDATE dbinfer_private.runtime_module SET source = 'import os'",
                "UPDATE dbinfer_private.runtime_code SET code = ''",
                "UPDATE dbinfer_private.setting SET value = '/tmp' WHERE name = 'venv'",
                "SELECT dbinfer_private.set_setting('venv', '/tmp')",
                "SELECT * FROM dbinfer_private.part",
                "CREATE TRIGGER t BEFORE INSERT ON dbinfer_private.setting FOR EACH ROW EXECUTE PROCEDURE evil()",
                "CREATE RULE r AS ON INSERT TO dbinfer_private.setting DO INSTEAD NOTHING",
                "CREATE FUNCTION dbinfer.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
                "CREATE OR REPLACE FUNCTION dbinfer.predict(img bytea, model text DEFAULT NULL, on_error text "
                "DEFAULT 'error') RETURNS real[] LANGUAGE sql AS 'SELECT NULL::real[]'",
                "ALTER FUNCTION dbinfer._admit(text, text, text) SET search_path = public",
                "ALTER VIEW dbinfer.models RENAME TO mine",
                "DROP FUNCTION dbinfer.activate(text, integer)",
            ):
                refused(member, "42501", attempt)
            rows(
                member, "GRANT EXECUTE ON FUNCTION dbinfer.activate(text, integer) TO PUBLIC"
            )  # warns, grants nothing
            may = "SELECT has_function_privilege('pg_signal_backend', 'dbinfer.activate(text, integer)', 'EXECUTE')"
            assert ask(member, may) is False
    with closing(psycopg2.connect(old)) as connection:
        held = (
            "SELECT count(*) FROM pg_shdepend WHERE refobjid = 'dbinfer_owner'::regrole "
            "AND classid IN ('pg_proc'::regclass, 'pg_type'::regclass) "
            "AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        assert ask(connection, held) == 0


def test_settings_of_no_consequence_and_no_others(db: Connection) -> None:
    with role(db, "dbinfer_admin"):
        for name, value in (("max_models", "2"), ("threads", "auto"), ("max_image_pixels", "1000000")):
            rows(db, "SELECT dbinfer.set_setting(%s, %s)", name, value)
        for name in ("venv", "cache_dir", "runtime_digest", "version", "default_model", "", None):
            refused(db, "42501", "SELECT dbinfer.set_setting(%s, '/tmp')", name)
        for value in ("0", "65", "-1", "1e3", "", None, "2; DROP TABLE x", "99999999999999999999"):
            refused(db, "22023", "SELECT dbinfer.set_setting('max_models', %s)", value)
    rows(db, "SELECT dbinfer.set_setting('max_models', '4')")
    with role(db):
        refused(db, "42501", "SELECT dbinfer.set_setting('max_models', '2')")


@contextmanager
def role_of_somebody(server_dsn: str, name: str) -> Iterator[None]:
    """A role of that name which dbinfer has not made, with a member; ours, if any, has another name meanwhile."""
    with closing(psycopg2.connect(server_dsn)) as admin:
        admin.autocommit = True
        rows(admin, "DROP ROLE IF EXISTS squatter")
        ours = ask(admin, "SELECT count(*) FROM pg_roles WHERE rolname = %s", name)
        if ours:
            rows(admin, f"ALTER ROLE {name} RENAME TO put_aside")
        rows(admin, f"CREATE ROLE {name}; CREATE ROLE squatter; GRANT {name} TO squatter")
        try:
            yield
        finally:
            rows(admin, f"DROP ROLE IF EXISTS {name}; DROP ROLE squatter")
            if ours:
                rows(admin, f"ALTER ROLE put_aside RENAME TO {name}")


@pytest.mark.parametrize("name", ["dbinfer_admin", "dbinfer_owner"])
def test_a_role_that_is_not_ours_is_not_adopted_silently(server_dsn: str, venv: Path, name: str) -> None:
    options = InstallOptions(venv=str(venv))
    with role_of_somebody(server_dsn, name), another_database(server_dsn) as other:
        with pytest.raises(InstallError, match=f"a role {name} exists already") as caught:
            install(options, other)
        assert "squatter" in caught.value.message
        assert "--adopt-role" in caught.value.hint
        report = install(InstallOptions(venv=str(venv), adopt_role=True), other)
        assert ("squatter" in report.administrators) is (name == "dbinfer_admin")
        uninstall(other)


def test_a_restored_database_gets_its_role_and_rights_back(
    server_dsn: str, venv: Path, tmp_path: Path
) -> None:
    """As after a restore into a cluster that never saw the role: install, upgrade and doctor said that all is well."""
    with another_database(server_dsn, "test_restored") as dsn:
        install(InstallOptions(venv=str(venv)), dsn)
        model = tiny_models.constant(tmp_path, 3, "m")
        deploy(model, dsn=dsn)
        with closing(psycopg2.connect(dsn)) as connection:
            connection.autocommit = True
            rows(connection, "DROP OWNED BY dbinfer_admin")
            with role(connection, "dbinfer_admin") as name:
                with pytest.raises(RegistryError):
                    activate("m@1", make_dsn(dsn, options=f"-c role={name}"))
                assert install(dsn=dsn).message.endswith("dbinfer upgrade.")
                assert upgrade(dsn=dsn).changed
                activate("m@1", make_dsn(dsn, options=f"-c role={name}"))
            assert upgrade(dsn=dsn).changed is False


WATCHERS = (
    "CREATE EVENT TRIGGER spy ON ddl_command_end EXECUTE FUNCTION pg_catalog.pg_event_trigger_ddl_commands()",
    "CREATE PUBLICATION spy FOR TABLE dbinfer_private.part",
    "CREATE PUBLICATION spy FOR ALL TABLES",
    "CREATE RULE spy AS ON SELECT TO dbinfer_private.part DO INSTEAD SELECT 1",
    "CREATE STATISTICS public.spy ON digest, content FROM dbinfer_private.part",
    "COPY dbinfer_private.part TO PROGRAM 'cat'",
    "LOCK TABLE dbinfer_private.model_version IN ACCESS SHARE MODE",
    "ALTER TABLE dbinfer_private.part REPLICA IDENTITY FULL",
)


def test_nobody_but_a_superuser_has_the_servers_ways_to_watch_tables(db: Connection) -> None:
    """Event triggers see each command, publications each row; an administrator of models makes none of ours."""
    database = ask(db, "SELECT pg_catalog.current_database()")
    with role(db, "dbinfer_admin") as name:
        rows(db, "RESET ROLE")
        rows(db, f"GRANT CREATE ON DATABASE {database} TO {name}; GRANT CREATE ON SCHEMA public TO {name}")
        rows(db, f"SET ROLE {name}")
        for command in WATCHERS:
            with pytest.raises(psycopg2.Error) as caught:
                rows(db, f"BEGIN; {command}")
            rows(db, "ROLLBACK")
            # 42501, or what a server says that has no such command, or asks for rights later
            assert caught.value.pgcode in {"42501", "0A000", "42601", "42P17", "42703"}, (
                command,
                caught.value,
            )


def test_a_refused_model_is_looked_at_no_further_than_its_grant(
    db: Connection, dsn: str, tmp_path: Path
) -> None:
    """So the time of a refusal says nothing of a model: no file of it is fetched, tried or loaded, no image decoded."""
    deploy(tiny_models.constant(tmp_path, 3, "hidden"), DeployOptions(private=True), dsn)
    cache = Path(ask(db, "SELECT cache_dir FROM dbinfer.segments LIMIT 1"))
    before = sorted(cache.glob("*"))
    with role(db):
        for image in (IMAGE, b"no image", b"\xff\xd8" * 50_000):
            refused(db, "42501", "SELECT dbinfer.predict(%s, 'hidden')", image)
        rows(db, "RESET ROLE")
    assert sorted(cache.glob("*")) == before
    drop("hidden", force=True, dsn=dsn)


def test_upgrades_among_drops_and_deploys(dsn: str, tmp_path: Path) -> None:
    """Each waits for the other or says in one sentence why not; what is left is whole."""
    model, problems = tiny_models.constant(tmp_path, 3, "swift"), list[str]()

    def again(deed: Callable[[], object]) -> None:
        for _ in range(4):
            try:
                deed()
            except DbinferError as err:
                problems.append(err.message)
            except Exception as err:
                problems.append(f"unclear: {err!r}")

    deeds = (
        lambda: upgrade(dsn=dsn),
        lambda: deploy(model, dsn=dsn),
        lambda: drop("swift", force=True, dsn=dsn),
    )
    with ThreadPoolExecutor() as threads:
        list(threads.map(again, deeds))
    assert [problem for problem in problems if problem != 'model "swift" does not exist'] == []
    deploy(model, dsn=dsn)
    with closing(psycopg2.connect(dsn)) as db:
        assert ask(db, "SELECT dbinfer.predict(%s, 'swift')", IMAGE) == [3, 3, 3]
    assert [check for check in doctor(dsn).checks if not check.ok] == []
    drop("swift", force=True, dsn=dsn)
