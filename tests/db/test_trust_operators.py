"""Who may create in a schema of a superuser's path gets nothing run: no operator and no function of his."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from catalog import another_database
from psycopg2.extensions import make_dsn

from dbinfer import doctor, load, predict, score
from dbinfer.images.load import LoadOptions
from dbinfer.install import InstallOptions, install, uninstall, upgrade
from dbinfer.models import DeployOptions, activate, alias, deploy, drop, grant, models, revoke
from dbinfer.score import PredictOptions, ScoreOptions

pytestmark = pytest.mark.wide

# What pg_catalog has no operator for is taken from any schema of the path, the rest from schemas before it.
PAIRS = (
    ("regtype", "regtype"), ("oid", "regclass"), ("regclass", "oid"), ("regclass", "regclass"), ("name", "name"),
    ("text", "text"), ("name", "text"), ("integer", "integer"), ("bigint", "bigint"), ("bigint", "integer"),
    ('"char"', '"char"'), ("oid", "oid"), ("smallint", "integer"), ("regnamespace", "oid"), ("numeric", "integer"),
    ("json", "text"), ("jsonb", "text"), ("boolean", "boolean"), ("real", "real"),
)  # fmt: skip
SIGNS = ("=", "<>", "||", "~", "~~", ">", "<", "+", "-", "->>", "->")
FUNCTIONS = (
    "version()", "current_setting(text)", "to_regclass(text)", "format(text, text)", "current_schemas(boolean)",
    "coalesce(text, text)", "array_to_string(name[], text)", "format_type(oid, integer)", "hashtext(text)", "now()",
    "json_agg(json)", "octet_length(bytea)", "pg_has_role(oid, text)", "shobj_description(oid, name)",
)  # fmt: skip


def plant(dsn: str) -> None:
    """Let mallory, who may create in public, lay everything there that ours could take for the server's."""
    with closing(psycopg2.connect(dsn)) as connection, connection:
        rows(connection, "CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory")
        rows(
            connection, "CREATE TABLE public.ran (who text, what text); GRANT INSERT ON public.ran TO PUBLIC"
        )
        rows(connection, "SET ROLE mallory")
        for number, function in enumerate(FUNCTIONS):
            kind = "boolean" if number % 2 else "text"
            rows(
                connection,
                f"CREATE FUNCTION public.{function} RETURNS {kind} LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.ran "
                f"VALUES (current_user, '{function}'); RETURN NULL; END $$",
            )
        for number, (left, right) in enumerate(PAIRS):
            rows(
                connection,
                f"CREATE FUNCTION public.planted{number}({left}, {right}) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
                f"INSERT INTO public.ran VALUES (current_user, '{left} {right}'); RETURN true; END $$",
            )
            for sign in SIGNS:
                sides = f"LEFTARG = {left}, RIGHTARG = {right}"
                rows(
                    connection, f"CREATE OPERATOR public.{sign} (FUNCTION = public.planted{number}, {sides})"
                )


def own_acts(dsn: str, venv: Path, folder: Path) -> None:
    """What a superuser does with dbinfer, from install to uninstall."""
    pictures = folder / "pictures"
    pictures.mkdir()
    for number in range(3):
        (pictures / f"{number}.png").write_bytes(tiny_models.file(tiny_models.picture(number, 2, 3)))
    install(InstallOptions(venv=str(venv)), dsn)
    deploy(tiny_models.colour_classifier(folder, "colours"), dsn=dsn)
    deploy(tiny_models.constant(folder, 3, "other"), DeployOptions(alias="a"), dsn=dsn)
    alias("other@1", "b", dsn)
    activate("other@1", dsn)
    grant("other", "mallory", dsn=dsn)
    revoke("other", "mallory", dsn=dsn)
    models(dsn)
    for _ in range(2):
        load([pictures], LoadOptions(table="images"), dsn)
    predict([pictures / "0.png"], PredictOptions(model="colours"), dsn)
    score("images", "results", ScoreOptions(model="colours"), dsn)
    doctor(dsn)
    drop("other", dsn=dsn, force=True)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(connection, "SELECT * FROM dbinfer.classify_table('images', 'colours')")
        rows(connection, "CREATE TABLE classes (id bigint, class integer, label pg_catalog.text, score real)")
        assert ask(connection, "SELECT dbinfer.classify_into('classes', 'images', 'colours')") == 3
        rows(connection, "SELECT * FROM dbinfer.warm('colours')")
        rows(connection, "SELECT * FROM dbinfer.segments")
        for call in ("classify_top(img, 2, 'colours')", "image_info(img)", "profile(img, 'colours')"):
            rows(connection, f"SELECT dbinfer.{call} FROM images")
        rows(
            connection,
            "UPDATE dbinfer_private.setting SET value = '' WHERE name OPERATOR(pg_catalog.=) 'sql_digest'",
        )
    assert upgrade(dsn=dsn).changed
    uninstall(dsn)


@pytest.fixture
def hostile(server_dsn: str) -> Iterator[str]:
    with another_database(server_dsn, "test_hostile") as dsn:
        plant(dsn)
        try:
            yield dsn
        finally:
            with closing(psycopg2.connect(dsn)) as connection, connection:
                rows(connection, "DROP OWNED BY mallory; DROP ROLE mallory")


@pytest.mark.parametrize("path", ["public", "public, pg_catalog"])
def test_nothing_hostile_runs(hostile: str, venv: Path, tmp_path: Path, path: str) -> None:
    """`public.<>(regtype, regtype)` ran from classify_table, `public.=(oid, regclass)` from load, with all rights."""
    own_acts(make_dsn(hostile, options=f"-c search_path={path.replace(' ', '')}"), venv, tmp_path)
    with closing(psycopg2.connect(hostile)) as connection:
        assert rows(connection, "SELECT DISTINCT who, what FROM public.ran") == []
