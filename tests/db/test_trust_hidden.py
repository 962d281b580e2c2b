"""What ordinary users do not see, what ends with its role or version, and settings that change how literals read."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy, drop

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
DETAILS = "granted_to, precision, input, labels, metrics, provenance, aliases, size, created_at, created_by"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder, "secret"), DeployOptions(private=True), dsn=dsn)
    deploy(tiny_models.constant(folder, 7, "open"), dsn=dsn)


def test_a_private_model_is_there_and_nothing_of_it_is_shown(db: Connection) -> None:
    with role(db) as name:
        seen = rows(db, f"SELECT {DETAILS} FROM dbinfer.models WHERE name = 'secret'")
        assert seen == [(None,) * 10]
        columns = "digest, manifest, aliases, size, created_at, created_by, trial"
        seen = rows(db, f"SELECT {columns} FROM dbinfer.model_versions WHERE name = 'secret'")
        assert seen == [(None,) * 7]
        assert ask(db, "SELECT granted_to FROM dbinfer.models WHERE name = 'open'") == ["public"]
        assert ask(db, "SELECT manifest IS NOT NULL FROM dbinfer.model_versions WHERE name = 'open'")
        rows(db, "RESET ROLE")
        rows(db, "SELECT dbinfer.grant_model('secret', %s)", name)
        rows(db, f"SET ROLE {name}")
        assert ask(db, "SELECT granted_to FROM dbinfer.models WHERE name = 'secret'") == [name]
        assert ask(db, "SELECT manifest IS NOT NULL FROM dbinfer.model_versions WHERE name = 'secret'")
        rows(db, "RESET ROLE")
        rows(db, "SELECT dbinfer.revoke_model('secret', %s)", name)
    with role(db, "dbinfer_admin"):
        assert ask(db, "SELECT labels FROM dbinfer.models WHERE name = 'secret'") == 3


def test_studies_are_for_administrators(db: Connection) -> None:
    """Nobody else can tune; a study tells what was tried on which data, and how good it was."""
    entries = ['{"op_code": 4, "datetime_start": "2026-01-01T00:00:00"}']
    rows(db, "SELECT dbinfer._add_journal_entry('secret study', %s)", *entries)
    seen = "SELECT count(*) FROM dbinfer.trials"
    assert ask(db, seen) == 1
    with role(db, "dbinfer_admin"):
        assert ask(db, seen) == 1
    with role(db):
        assert ask(db, seen) == 0


PATHS = "SELECT host, venv, cache_dir, cache_bytes, cache_free FROM dbinfer.segments LIMIT 1"


@pytest.mark.parametrize("become", ["SET ROLE", "SET SESSION AUTHORIZATION"])
def test_hosts_and_folders_are_for_administrators(db: Connection, become: str) -> None:
    assert None not in rows(db, PATHS)[0]
    with role(db, "dbinfer_admin"):
        assert None not in rows(db, PATHS)[0]
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, f"{become} {name}")
        assert rows(db, PATHS) == [(None,) * 5]
        assert "/" not in ask(db, "SELECT string_agg(s, '') FROM dbinfer._segments() s")
        assert ask(db, "SELECT openvino FROM dbinfer.segments LIMIT 1")
        refused(db, "42501", "SELECT dbinfer._full_status()")
        rows(db, f"RESET {become.removeprefix('SET ')}")


def test_a_function_of_somebody_that_an_administrator_calls_sees_no_host(db: Connection) -> None:
    """session_user was the superuser, so the function of anybody got names of hosts and folders."""
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(
            db,
            "CREATE FUNCTION public.seen() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN "
            "(SELECT string_agg(concat(host, venv, cache_dir), '') FROM dbinfer.segments); END $$",
        )
        rows(db, f"GRANT CREATE ON SCHEMA public TO {name}")
        rows(db, f"ALTER FUNCTION public.seen() OWNER TO {name}")
        assert ask(db, "SELECT public.seen()") == ""
        rows(db, "DROP FUNCTION public.seen()")


BAD = "SELECT dbinfer.predict('\\x1234'::bytea, 'open')"


def test_errors_and_warm_name_the_host_to_administrators_alone(db: Connection) -> None:
    diag = refused(db, "22P03", BAD)
    assert re.search(r"On (segment -?\d+, )?host \S+, pid \d+", diag.message_detail or "")
    with role(db, "dbinfer_admin"):
        assert "host " in (refused(db, "22P03", BAD).message_detail or "")
        assert None not in rows(db, "SELECT host FROM dbinfer.warm('open')")[0]
    with role(db):
        for query in (BAD, "SELECT dbinfer.image_info('\\x1234'::bytea)"):
            detail = refused(db, "22P03", query).message_detail or ""
            assert re.fullmatch(r"On (segment -?\d+|this server), pid \d+", detail), detail
        assert {host for (host,) in rows(db, "SELECT host FROM dbinfer.warm('open')")} == {None}
    assert None not in rows(db, "SELECT host FROM dbinfer.warm('open')")[0], (
        "the model is loaded, the asker another"
    )


@pytest.mark.parametrize(
    ("setting", "path", "words"),
    [
        ("venv", "/nowhere/venv", "the runtime's Python packages are not there"),
        ("cache_dir", "/proc/nowhere", "the cache folder cannot be made: "),
    ],
)
def test_a_folder_that_is_missing_is_named_to_administrators_alone(
    db: Connection, dsn: str, setting: str, path: str, words: str
) -> None:
    right = ask(db, "SELECT value FROM dbinfer_private.setting WHERE name = %s", setting)
    rows(db, "SELECT dbinfer_private.set_setting(%s, %s)", setting, path)
    try:
        with closing(psycopg2.connect(dsn)) as fresh:
            fresh.autocommit = True
            query = "SELECT dbinfer.predict(%s, 'open')"
            with role(fresh):
                with pytest.raises(psycopg2.Error) as caught:
                    rows(fresh, query, IMAGE)
                assert path not in str(caught.value)
                assert words in str(caught.value)
                assert "dbinfer doctor" in (caught.value.diag.message_hint or "")
            with pytest.raises(psycopg2.Error, match=path):
                rows(fresh, query, IMAGE)
    finally:
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = %s", setting)
        if right is not None:
            rows(db, "SELECT dbinfer_private.set_setting(%s, %s)", setting, right)


def test_a_grant_ends_with_its_role(db: Connection) -> None:
    """A role of the same name, made later by somebody else, ran the model."""
    rows(db, "CREATE ROLE analyst")
    rows(db, "SELECT dbinfer.grant_model('secret', 'analyst')")
    rows(db, "SET ROLE analyst")
    assert len(ask(db, "SELECT dbinfer.predict(%s, 'secret')", IMAGE)) == 3
    rows(db, "RESET ROLE")
    rows(db, "DROP ROLE analyst; CREATE ROLE analyst")
    rows(db, "SET ROLE analyst")
    refused(db, "42501", "SELECT dbinfer.predict(%s, 'secret')", IMAGE)
    assert ask(db, "SELECT labels FROM dbinfer.models WHERE name = 'secret'") is None
    rows(db, "RESET ROLE")
    rows(db, "UPDATE dbinfer_private.model_grant SET cluster = 'another' WHERE role = 'analyst'")
    rows(db, "SET ROLE analyst")
    assert len(ask(db, "SELECT dbinfer.predict(%s, 'secret')", IMAGE)) == 3, (
        "a restored backup names its roles"
    )
    rows(db, "RESET ROLE")
    rows(db, "SELECT dbinfer.revoke_model('secret', 'analyst')")
    rows(db, "DROP ROLE analyst")


@pytest.mark.wide
def test_a_version_number_is_never_given_twice(db: Connection, dsn: str, tmp_path: Path) -> None:
    """The highest version, dropped, gave its number to other content."""
    for number in (1, 2):
        assert deploy(tiny_models.constant(tmp_path, number, "counted"), dsn=dsn).version == number
    drop("counted@2", force=True, dsn=dsn)
    assert deploy(tiny_models.constant(tmp_path, 9, "counted"), dsn=dsn).version == 3
    refused(db, "42704", "SELECT dbinfer.predict(%s, 'counted@2')", IMAGE)
    drop("counted", force=True, dsn=dsn)
    done = deploy(tiny_models.constant(tmp_path, 9, "counted"), dsn=dsn)
    assert done.version == 4
    assert ask(db, "SELECT granted_to FROM dbinfer.models WHERE name = 'counted'") == ["public"]


@pytest.mark.parametrize("setting", ["array_nulls", "standard_conforming_strings", "escape_string_warning"])
@pytest.mark.wide
def test_settings_that_change_literals_change_no_result(db: Connection, setting: str) -> None:
    """array_nulls=off made labels 'NULL' of no label; standard_conforming_strings=off broke warm()."""
    make_images(db, "nulls", [IMAGE, None], copies=40)
    rows(db, "UPDATE public.nulls SET id = id")
    rows(db, f"SET {setting} = off")
    found = rows(
        db, "SELECT DISTINCT class, label FROM dbinfer.classify_table('public.nulls', 'secret') ORDER BY 1"
    )
    assert found == [(0, "red"), (None, None)]
    assert len(rows(db, "SELECT * FROM dbinfer.warm('secret')")) >= 1
    assert ask(db, "SELECT (dbinfer.classify(%s, 'secret')).label", IMAGE) == "red"
    assert ask(db, "SELECT format FROM dbinfer.image_info(%s)", IMAGE) == "PNG"
    rows(db, f"RESET {setting}")
