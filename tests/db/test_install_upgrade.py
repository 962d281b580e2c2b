"""upgrade: pending changes once, applied ones frozen, the result equal to a fresh installation, sessions follow."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from catalog import another_database, own_sql, snapshot

from dbinfer.base.errors import InstallError
from dbinfer.install import InstallOptions, install, upgrade
from dbinfer.install.content import Content
from dbinfer.models import deploy

EXTRA = "CREATE TABLE dbinfer_private.extra (n integer);"
FUNCTION = "CREATE OR REPLACE FUNCTION dbinfer.extra() RETURNS integer LANGUAGE sql AS $$ SELECT 42 $$;"


@pytest.fixture
def sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_sql(tmp_path, monkeypatch)


def extend(sql: Path) -> None:
    (sql / "upgrades" / "9998_extra.sql").write_text(EXTRA)
    (sql / "upgrades" / "9999_more.sql").write_text("ALTER TABLE dbinfer_private.extra ADD COLUMN m text;")
    (sql / "functions" / "extra.sql").write_text(FUNCTION)


@pytest.mark.wide
def test_an_upgraded_database_equals_a_fresh_one(server_dsn: str, sql: Path) -> None:
    with another_database(server_dsn, "test_old") as old, another_database(server_dsn, "test_new") as new:
        install(dsn=old)
        extend(sql)
        first = upgrade(dsn=old)
        assert first.changed
        assert "open sessions follow" in first.message
        assert upgrade(dsn=old).changed is False
        install(dsn=new)
        assert snapshot(old) == snapshot(new)
        with closing(psycopg2.connect(old)) as connection:
            names = [
                row[0] for row in rows(connection, "SELECT name FROM dbinfer_private.upgrade ORDER BY 1")
            ]
            assert names[-2:] == ["9998_extra", "9999_more"]
            assert ask(connection, "SELECT dbinfer.extra()") == 42


BEFORE_0_5 = """
DROP FUNCTION dbinfer.draw(bytea, dbinfer.detection[], bytea, dbinfer.text_line[], dbinfer.instance[]);
ALTER FUNCTION dbinfer._draw_found(bytea, dbinfer.detection[], bytea) RENAME TO draw;
DELETE FROM dbinfer_private.upgrade WHERE name = '0019_drawing';
CREATE VIEW public.shown AS SELECT dbinfer.draw(%s, '{}') AS png
"""


@pytest.mark.wide
def test_draw_gained_an_argument(server_dsn: str, venv: Path) -> None:
    """A view holds on to the function that it was made with."""
    image = tiny_models.file(tiny_models.picture(1, 2, 3))
    with another_database(server_dsn) as other:
        install(InstallOptions(venv=str(venv)), other)
        fresh = snapshot(other)
        with closing(psycopg2.connect(other)) as connection, connection:
            rows(connection, BEFORE_0_5, image)
            rows(connection, "SELECT dbinfer_private.set_setting('sql_digest', 'another')")
        assert upgrade(dsn=other).changed
        with closing(psycopg2.connect(other)) as connection, connection:
            assert ask(
                connection, "SELECT png = dbinfer.draw(%s, '{}', lines => '{}') FROM public.shown", image
            )
            assert "_draw_found(" in ask(connection, "SELECT pg_get_viewdef('public.shown')")
            rows(connection, "DROP VIEW public.shown")
        assert snapshot(other) == fresh


BEFORE_TILES = """
DROP FUNCTION dbinfer.segment(bytea, text, text, boolean);
DROP FUNCTION dbinfer.detect(bytea, text, text, boolean);
ALTER FUNCTION dbinfer._segment_image(bytea, text, text) RENAME TO segment;
ALTER FUNCTION dbinfer._detect_image(bytea, text, text) RENAME TO detect;
DELETE FROM dbinfer_private.upgrade WHERE name = '0022_tiles';
CREATE VIEW public.shown AS SELECT dbinfer.segment(%s, 'redness') AS mask, dbinfer.detect(%s, 'redbox') AS found
"""

BEFORE_FINDING = """
DROP FUNCTION dbinfer.similar(regclass, bytea, text, integer, text, name, name, real[], text, text);
ALTER FUNCTION dbinfer._similar_to_image(regclass, bytea, text, integer, text, name, name) RENAME TO "similar";
DROP VIEW dbinfer.models, dbinfer.model_versions;
ALTER TABLE dbinfer_private.model_version DROP COLUMN tower;
DELETE FROM dbinfer_private.upgrade WHERE name = '0021_finding';
CREATE VIEW public.found AS SELECT * FROM dbinfer.similar('public.own', NULL, 'nobody')
"""


@pytest.mark.wide
def test_segment_and_detect_gained_an_argument(server_dsn: str, venv: Path, tmp_path: Path) -> None:
    image = tiny_models.file(tiny_models.picture(200, 2, 3))
    with another_database(server_dsn) as other:
        install(InstallOptions(venv=str(venv)), other)
        for model in (tiny_models.red_mask(tmp_path), tiny_models.red_box(tmp_path)):
            deploy(model, dsn=other)
        fresh = snapshot(other)
        with closing(psycopg2.connect(other)) as connection, connection:
            rows(connection, BEFORE_TILES, image, image)
            rows(connection, "SELECT dbinfer_private.set_setting('sql_digest', 'another')")
        assert upgrade(dsn=other).changed
        with closing(psycopg2.connect(other)) as connection, connection:
            same = "mask = dbinfer.segment(%s, 'redness') AND found = dbinfer.detect(%s, 'redbox')"
            assert ask(connection, f"SELECT {same} FROM public.shown", image, image)
            assert "_segment_image(" in ask(connection, "SELECT pg_get_viewdef('public.shown')")
            rows(connection, "DROP VIEW public.shown")
        assert snapshot(other) == fresh


@pytest.mark.wide
def test_similar_gained_arguments_and_a_column(server_dsn: str) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        fresh = snapshot(other)
        with closing(psycopg2.connect(other)) as connection, connection:
            rows(connection, "CREATE TABLE public.own (id integer, embedding real[])")
            rows(connection, BEFORE_FINDING)
            rows(connection, "SELECT dbinfer_private.set_setting('sql_digest', 'another')")
        assert upgrade(dsn=other).changed
        with closing(psycopg2.connect(other)) as connection:
            assert "_similar_to_image(" in ask(connection, "SELECT pg_get_viewdef('public.found')")
            connection.commit()
            with pytest.raises(psycopg2.Error, match="nobody"):
                rows(connection, "SELECT id, distance FROM public.found")
            connection.rollback()
            rows(connection, "DROP VIEW public.found; DROP TABLE public.own")
            connection.commit()
        assert snapshot(other) == fresh


BEFORE_ANSWERS = """
DROP FUNCTION dbinfer.estimate(regclass, text, double precision, double precision, text, text, name, text);
ALTER FUNCTION dbinfer._estimate_rows(regclass, text, double precision, double precision, text, text, name)
    RENAME TO estimate;
DELETE FROM dbinfer_private.upgrade WHERE name = '0024_answers';
CREATE VIEW public.share AS SELECT * FROM dbinfer.estimate('public.numbers', 'n > 2', within => 0.1)
"""


@pytest.mark.wide
def test_estimate_gained_an_argument(server_dsn: str) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        fresh = snapshot(other)
        with closing(psycopg2.connect(other)) as connection, connection:
            rows(connection, "CREATE TABLE public.numbers AS SELECT n, n AS id FROM generate_series(1, 8) n")
            rows(connection, BEFORE_ANSWERS)
            rows(connection, "SELECT dbinfer_private.set_setting('sql_digest', 'another')")
        assert upgrade(dsn=other).changed
        with closing(psycopg2.connect(other)) as connection, connection:
            assert "_estimate_rows(" in ask(connection, "SELECT pg_get_viewdef('public.share')")
            assert ask(connection, "SELECT estimate FROM public.share") == 0.75
            rows(connection, "DROP VIEW public.share; DROP TABLE public.numbers")
        assert snapshot(other) == fresh


@pytest.mark.wide
def test_install_over_an_older_one_says_upgrade(server_dsn: str, sql: Path) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        extend(sql)
        outcome = install(dsn=other)
        assert outcome.changed is False
        assert "dbinfer upgrade" in outcome.message


@pytest.mark.wide
def test_an_edited_upgrade_is_refused(server_dsn: str, sql: Path) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        before = snapshot(other)
        applied = sql / "upgrades" / "0001_registry.sql"
        applied.write_text(applied.read_text() + "\n-- edited\n")
        with pytest.raises(InstallError, match="0001_registry was edited after this database applied it"):
            upgrade(dsn=other)
        assert snapshot(other) == before


def test_a_failing_upgrade_changes_nothing(server_dsn: str, sql: Path) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        before = snapshot(other)
        extend(sql)
        (sql / "upgrades" / "9999_more.sql").write_text(
            "ALTER TABLE dbinfer_private.nowhere ADD COLUMN m text;"
        )
        with pytest.raises(InstallError, match="nowhere"):
            upgrade(dsn=other)
        assert snapshot(other) == before


def test_a_newer_database_is_refused(server_dsn: str) -> None:
    with another_database(server_dsn) as other:
        install(dsn=other)
        with closing(psycopg2.connect(other)) as connection:
            connection.autocommit = True
            rows(connection, "SELECT dbinfer_private.set_setting('version', '99.0.0')")
            # which this release does not know, and must not take for a stranger's
            rows(connection, "CREATE FUNCTION dbinfer.of_99() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
        for refused in (upgrade, partial(install, InstallOptions(usage="on"))):
            with pytest.raises(InstallError, match=r"the database has dbinfer 99\.0\.0") as caught:
                refused(dsn=other)
            assert "pip" in caught.value.hint


@pytest.mark.wide
def test_settings_and_models_outlive_an_upgrade(
    server_dsn: str, sql: Path, venv: Path, tmp_path: Path
) -> None:
    with another_database(server_dsn) as other:
        install(InstallOptions(venv=str(venv), threads="1"), other)
        deploy(tiny_models.constant(tmp_path, 5), dsn=other)
        extend(sql)
        upgrade(dsn=other)
        with closing(psycopg2.connect(other)) as connection:
            assert ask(connection, "SELECT value FROM dbinfer_private.setting WHERE name = 'threads'") == "1"
            image = tiny_models.file(tiny_models.picture(1, 2, 3))
            assert ask(connection, "SELECT dbinfer.predict(%s)", image) == [5, 5, 5]


def test_an_open_session_runs_the_new_runtime_at_its_next_statement(
    server_dsn: str, venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tiny_models.file(tiny_models.picture(1, 2, 3))
    with another_database(server_dsn) as other:
        install(InstallOptions(venv=str(venv)), other)
        deploy(tiny_models.constant(tmp_path, 5), dsn=other)
        with closing(psycopg2.connect(other)) as connection:
            connection.autocommit = True
            rows(connection, "PREPARE p AS SELECT dbinfer.predict($1)")
            assert ask(connection, "EXECUTE p(%s)", image) == [5, 5, 5]
            before = ask(connection, "SELECT runtime_digest FROM dbinfer.segments")
            changed = Content().modules
            changed["result.vectors"] = changed["result.vectors"].replace(
                "return float_array_literal(output)\n\n\ndef tensor", "return '{77}'\n\n\ndef tensor"
            )
            assert changed != Content().modules
            monkeypatch.setattr(Content, "modules", changed)
            assert upgrade(dsn=other).changed
            assert ask(connection, "EXECUTE p(%s)", image) == [77]
            assert ask(connection, "SELECT runtime_digest FROM dbinfer.segments") != before
            monkeypatch.undo()
            assert upgrade(dsn=other).changed
            assert ask(connection, "EXECUTE p(%s)", image) == [5, 5, 5]
            assert ask(connection, "SELECT runtime_digest FROM dbinfer.segments") == before
