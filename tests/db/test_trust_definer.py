"""Attacks on every function with its owner's, a superuser's, rights; docs/explanation/security.md lists them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"
IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
SAID = {"source": "s", "target": "t", "function": "f", "model": "m", "version": 1, "connections": 1}
WRONG = [{"version": "1"}, {"version": 1e30}, {"version": -1}, {"version": 1.5}, {"connections": None}, {"source": 5},
         {"target": ["t"]}, {"target": "a.b.c.d.e"}, {"target": "t" * 301}, {"target": ""}, {"model": {}}]  # fmt: skip
JOBS = [f"'{json.dumps(SAID | wrong)}', dbinfer._ask('dbinfer score')" for wrong in WRONG]
# of nobody, of something else, of somebody without such a job; and a claim that could be one
NOTES, CLAIM = ("NULL", "dbinfer._ask('secret')", "dbinfer._ask('dbinfer worker')"), "repeat('0', 32), 5"
CLAIMS = (CLAIM, "'x', 5", "repeat('0', 32), 1e9")
# Each function with calls that must be refused (or give what is right), whoever may call it.
CALLS = {
    "_admit": ["NULL, NULL", "'secret', ''", "'secret', dbinfer._ask('secret')", "'', dbinfer._ask('secret')",
               "NULL, dbinfer._ask(NULL), 'dbinfer:1:0000000000000000'", "'x', NULL, 'x'"],
    "_admit_segment": ["NULL", "''", "dbinfer._ask('secret')"],
    "_status": [],
    "_begin_job": ["'{}', NULL", "NULL, dbinfer._ask('dbinfer score')", "'[]', dbinfer._ask('dbinfer score')", *JOBS],
    "_tell_job": ["1, 0, 0, 0, '', 'done', ''", "1, 0, 0, 0, '', 'done', dbinfer._ask('secret')"],
    "_cancel_job": ["99, NULL", "NULL, dbinfer._ask('dbinfer score')", "99, dbinfer._ask('dbinfer score')"],
    "_share_job": [f"1, '{{}}', NULL, 0, {note}" for note in NOTES],
    "_shared_jobs": ["NULL", "''", "dbinfer._ask('secret')"],
    "_claim_batch": [f"1, {claim}, false, {note}" for claim in CLAIMS for note in NOTES],
    "_cut_batch": [f"1, 0, NULL, '{{1}}', 1, {CLAIM}, {note}" for note in NOTES],
    "_keep_batch": [f"1, 1, {CLAIM}, {note}" for note in NOTES],
    "_end_batch": [f"1, 1, repeat('0', 32), 1, 0, NULL, 1, {note}" for note in NOTES],
    "_end_pass": [f"1, 0, NULL, 0, {note}" for note in NOTES],
    "_model_files": ["'secret', NULL", "'no', dbinfer._ask('dbinfer worker')"],
    "_readable_stores": ["NULL", "dbinfer._ask('secret')"],
    "_model_part": ["1, 'xml', 1, NULL", "1, 'xml', 1, dbinfer._ask('secret')"],
    "_request": ["'x', 'secret', NULL, NULL", "'x', 'no', NULL, dbinfer._ask('dbinfer request')",
                 "NULL, 'open', NULL, dbinfer._ask('dbinfer request')"],
    "_answer": ["1, 0, NULL", "99, 0, dbinfer._ask('dbinfer request')", "NULL, 0, dbinfer._ask('dbinfer request')"],
    "_take_requests": [f"1, {CLAIM}, NULL", "1, 'x', 5, dbinfer._ask('dbinfer worker')"],
    "_give_answer": ["1, 'x', 'y', NULL, 0, NULL", "1, 'x', 'y', NULL, 0, dbinfer._ask('secret')"],
    "_usage_of": ["NULL", "''", "dbinfer._ask('secret')"],
    "_usage_since": [],
    "_keep_usage": [],
    "_full_status": [],
    "_shown_engines": [],
    "_full_engines": ["NULL", "'x'", "''"],
    "_cache": ["NULL", "'x'"],
    "activate": ["'secret', 99", "NULL, 1", "'secret', NULL", "'no', 1"],
    "set_alias": ["'secret', 'a b', 1", "'secret', NULL, 1", "'secret', 'a', 99", "'no', 'a', 1"],
    "drop_alias": ["'secret', 'no'", "NULL, NULL"],
    "set_default": ["'no'", "NULL", "'secret''; DROP TABLE x'"],
    "drop_model": ["'no'", "NULL", "'secret', 99", "'secret', 1, NULL"],
    "grant_model": ["'no', 'public'", "'secret', 'nobody''s'", "'secret', NULL"],
    "revoke_model": ["'secret', 'nobody'", "NULL, 'public'"],
    "set_setting": ["'venv', '/tmp'", "'runtime_digest', 'x'", "'max_models', '0'", "NULL, NULL"],
    "set_isolation": ["'secret', 'sometimes'", "'no', 'always'", "NULL, NULL", "'secret', ''"],
    "_limits": [],
    "_add_journal_entry": ["NULL, '{}'", "'s', NULL", "'s', 'x'"],
    "_journal": ["'s', 'x'"],
    "_lock_registry": [],
    "_missing_parts": [],
    "_add_part": ["repeat('0', 64), '\\x00'", "NULL, NULL", "'x', ''"],
    "_keep_comparison": ["'secret', 1, NULL", "'secret', 1, '[]'", "'secret', 99, '{}'", "'no', 1, '{}'",
                         "NULL, NULL, '{}'", "'secret', NULL, '{}'"],
    "_add_version": ["'a b', '{}', true, NULL", *(f"{call}, dbinfer._ask('dbinfer deploy')" for call in (
                     "'a b', '{}', true", "'ok', '{}', true", "'ok', NULL, true", "NULL, '{}', NULL",
                     "'ok', '{\"manifest\": {}, \"size\": \"1\", \"source_digest\": \"x\"}', true"))],
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.constant(folder, 5, "secret"), DeployOptions(private=True), dsn=dsn)
    deploy(tiny_models.constant(folder, 7, "open"), dsn=dsn)


def test_every_definer_function_is_documented_and_attacked_here(db: Connection) -> None:
    query = (
        "SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace IN "
        "('dbinfer'::regnamespace, 'dbinfer_private'::regnamespace)"
    )
    names = {name for (name,) in rows(db, query)}
    assert names == set(CALLS)
    assert names == set(re.findall(r"^\| `dbinfer\.(\w+)` \|", DOCUMENT.read_text(), re.MULTILINE))


@pytest.mark.wide
def test_wrong_arguments_are_refused_in_one_sentence(db: Connection, subtests: pytest.Subtests) -> None:
    for name, calls in CALLS.items():
        with subtests.test(name=name):
            with role(db, *(() if name.startswith("_admit") else ("dbinfer_admin",))):
                for arguments in calls:
                    with pytest.raises(psycopg2.Error) as caught:
                        rows(db, f"SELECT dbinfer.{name}({arguments})")
                    assert caught.value.diag.sqlstate[:2] in ("22", "42", "55", "2B"), caught.value
            assert ask(db, "SELECT count(*) FROM dbinfer.models") == 2


OPEN = {"_admit", "_admit_segment", "_status", "_begin_job", "_tell_job", "_cancel_job", "_shown_engines"}
OPEN |= {
    "_usage_of",
    "_usage_since",
    "_share_job",
    "_shared_jobs",
    "_claim_batch",
    "_cut_batch",
    "_keep_batch",
}
OPEN |= {"_end_batch", "_end_pass", "_model_files", "_model_part", "_request", "_answer", "_take_requests"}
OPEN |= {"_give_answer", "_readable_stores"}


def test_who_is_no_administrator_is_refused(db: Connection, subtests: pytest.Subtests) -> None:
    for name in [name for name in CALLS if name not in OPEN]:
        with subtests.test(name=name):
            signature = "SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = %s AND prosecdef"
            count = len(ask(db, signature, name).split(",")) if ask(db, signature, name) else 0
            with role(db), pytest.raises(psycopg2.errors.InsufficientPrivilege):
                rows(db, f"SELECT dbinfer.{name}({', '.join(['NULL'] * count)})")


HOSTILE = (
    "CREATE FUNCTION {s}.noted(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.who VALUES "
    "(current_user); RETURN true; END $$",
    "CREATE FUNCTION {s}.same(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT {s}.noted($1) $$",
    "CREATE FUNCTION {s}.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS $$ SELECT {s}.noted($1)::text $$",
    "CREATE FUNCTION {s}.coalesce(text, text) RETURNS text LANGUAGE sql AS $$ SELECT {s}.noted($1)::text $$",
    "CREATE FUNCTION {s}.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'now'::timestamptz WHERE {s}.noted('') $$",
    "CREATE FUNCTION {s}.encode(bytea, text) RETURNS text LANGUAGE sql AS $$ SELECT {s}.noted($2)::text $$",
    "CREATE OPERATOR {s}.= (FUNCTION = {s}.same, LEFTARG = text, RIGHTARG = text)",
    "CREATE OPERATOR {s}.<> (FUNCTION = {s}.same, LEFTARG = text, RIGHTARG = text)",
    "CREATE OPERATOR {s}.~ (FUNCTION = {s}.same, LEFTARG = text, RIGHTARG = text)",
)


@pytest.mark.wide
def test_neither_a_hostile_path_nor_temporary_objects_run_with_their_rights(db: Connection) -> None:
    """Functions and operators of a schema in front of pg_catalog, and temporary tables that shadow the registry's."""
    rows(db, "CREATE TABLE public.who (name text); GRANT ALL ON public.who TO PUBLIC")
    with role(db, "dbinfer_admin") as name:
        rows(db, "RESET ROLE")
        rows(db, f"CREATE SCHEMA hostile AUTHORIZATION {name}")
        rows(db, f"SET ROLE {name}")
        for statement in HOSTILE:
            rows(db, statement.format(s="hostile"))
        for table in ("model", "setting", "model_grant", "alias", "pg_roles", "model_version"):
            rows(
                db,
                f"CREATE TEMPORARY TABLE {table} (name text, value text, model text, role text, rolname text)",
            )
        rows(db, "SET search_path = pg_temp, hostile, pg_catalog")
        for call in (
            "activate('secret', 1)", "set_alias('secret', 'a', 1)", "drop_alias('secret', 'a')",
            "set_default('secret')", "grant_model('secret', 'public')", "revoke_model('secret', 'public')",
            "set_setting('max_models', '4')", "_missing_parts('{x}')", "_lock_registry()", "_limits()",
        ):  # fmt: skip
            rows(db, f"SELECT dbinfer.{call}")
        assert ask(db, "SELECT dbinfer.predict(%s, 'open')", IMAGE) == [7, 7, 7]
        assert rows(db, "SELECT host FROM dbinfer.segments") != []
        rows(db, "RESET search_path")
        assert rows(db, "SELECT * FROM public.who") == []
        rows(db, "DISCARD TEMP")
    rows(db, "DROP TABLE public.who")
