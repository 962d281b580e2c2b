"""The private functions that any login may call, each with hostile arguments: from the catalog, so none is missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain

import figures
import psycopg2
import pytest
import tiny_models
from asking import ask, force_parallel, role, rows
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.models import deploy

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
LITERAL = f"'\\x{IMAGE.hex()}'"
PRIVATE = (
    "SELECT p.proname::text, ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) t), p.proretset "
    "FROM pg_proc p WHERE p.pronamespace = 'dbinfer'::regnamespace AND p.proname LIKE '\\_%' "
    "AND has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1"
)
TOKEN = "'dbinfer:1:0123456789abcdef'"
SCAN = "'1.20260101000000000000.0123456789abcdef0123456789abcdef'"
WORDS = [
    "NULL",
    "''",
    "'x'",
    "repeat('x', 1000000)",
    "E'\\x1b]0;x\\x07\\u202e'",
    "'../../../etc/passwd'",
    "'%s %n'",
    "'; DROP TABLE x'",
]
KNOWN = [
    "'open'",
    "'open@1'",
    "'predict'",
    "'rows'",
    "'batch'",
    "'rest'",
    "'classify'",
    TOKEN,
    SCAN,
    "'error'",
    "'null'",
    "'{}'",
    "'[[[[[[[['",
]
NUMBERS = ["NULL", "0", "-1", "1", "2147483647", "-2147483648"]
VALUES = {
    "text": WORDS + KNOWN,
    "name": ["NULL", "''", "'id'", "'img'", "'ctid'", "'a\"b'", "repeat('x', 100)::name"],
    "bigint": [*NUMBERS, "9223372036854775807", "-9223372036854775808"],
    "integer": NUMBERS,
    "double precision": ["NULL", "0", "-1", "2", "'NaN'", "'Infinity'"],
    "real": ["NULL", "0", "-1", "'NaN'", "'Infinity'"],
    "boolean": ["NULL", "true", "false"],
    "dbinfer.detection[]": ["NULL", "'{}'", "'{NULL}'", "'{\"(,,,,,,)\"}'", "'{\"(x,1,NaN,Infinity,0,0,-1)\"}'"],
    "dbinfer.text_line[]": ["NULL", "'{}'", "'{NULL}'", "'{\"(,,)\"}'", "'{\"(x,NaN,{1})\"}'"],
    "text[]": ["NULL", "'{}'", "'{a,NULL}'", "'{{a},{b}}'"],
    "bytea": ["NULL", "''", "'\\x00'", LITERAL, "decode(repeat('ff', 100000), 'hex')"],
    "jsonb": ["NULL", "'{}'", "'[]'", "'null'", "'5'", "'{\"source\": {}}'", "repeat('[', 5000)::text::jsonb"],
    "regclass": ["NULL", "'pg_catalog.pg_class'", "'pg_catalog.pg_authid'", "'dbinfer_private.part'", "0::regclass",
                 "'public.mine'"],
}  # fmt: skip
# that somebody is told what is wrong: no traceback (38000), no fault of the server's (XX000), and no lost session
TOLD = {"0A", "21", "22", "23", "2B", "3F", "42", "53", "54", "55", "57", "58"}


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.constant(tmp_path_factory.mktemp("irs"), 7, "open"), dsn=dsn)


@pytest.fixture
def stranger(db: Connection) -> Iterator[Connection]:
    """A session of a role without any right, with a table of its own."""
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, f"GRANT CREATE ON SCHEMA public TO {name}; SET ROLE {name}")
        rows(db, "CREATE TABLE public.mine (id bigint, img bytea)")
        rows(db, "INSERT INTO public.mine SELECT n, %s FROM generate_series(1, 50) n", IMAGE)
        rows(db, "SET statement_timeout = '20s'")
        yield db
        rows(db, "ROLLBACK")
        rows(db, "RESET statement_timeout; DROP TABLE public.mine; RESET ROLE")


def calls(kinds: list[str]) -> Iterator[list[str]]:
    """Yield lists of arguments: all of one sort, and each hostile value beside harmless ones."""
    usual = {
        "text": "'open'",
        "name": "'id'",
        "regclass": "'public.mine'",
        "bytea": LITERAL,
        "jsonb": "'{}'",
        "dbinfer.detection[]": "'{}'",
        "dbinfer.text_line[]": "'{}'",
    }
    harmless = [usual.get(kind, "true" if kind == "boolean" else "1") for kind in kinds]
    yield ["NULL"] * len(kinds)
    yield harmless
    for place, kind in enumerate(kinds):
        for value in VALUES[kind]:
            yield [*harmless[:place], value, *harmless[place + 1 :]]


def tried(db: Connection, query: str) -> str:
    """Run it; return what is wrong with how it ended, or nothing."""
    try:
        with db.cursor() as cursor:
            cursor.execute(query)
    except psycopg2.Error as err:
        text = f"{err.pgcode}: {err.diag.message_primary}"
        if err.pgcode is None or err.pgcode[:2] not in TOLD:
            return text
    return ""


def wrong(db: Connection, shape: str) -> list[str]:
    """Call every private function in a shape of statement; return the calls that ended as none may."""
    found, count = list[str](), 0
    listed = rows(db, PRIVATE)
    assert len(listed) > 30
    for name, kinds, many in listed:
        for arguments in calls(kinds):
            call = f"dbinfer.{name}({', '.join(arguments)})"
            query = shape.format(call=f"ARRAY(SELECT {call}::text)" if many else call)
            problem, count = tried(db, query), count + 1
            # it raises an internal error on purpose
            if problem and not (name == "_check_rest" and "did not come back" in problem):
                found.append(f"{query[:300]}: {problem}")
            # that the session lives, also where the statement began a transaction
            rows(db, "ROLLBACK")
    figures.record(f"private functions as {shape[:40]}", calls=count)
    return found


@pytest.mark.parametrize(
    "shape",
    [
        "SELECT {call}",
        *wide(
            "SELECT {call} FROM generate_series(1, 3)",
            "BEGIN; SAVEPOINT s; SELECT {call}; ROLLBACK TO s; SELECT {call}; ROLLBACK",
            "SELECT n FROM (SELECT n, {call} AS found FROM generate_series(1, 2) n OFFSET 0) x WHERE found IS NOT NULL",
        ),
    ],
)
def test_a_private_function_answers_anything_in_one_sentence(stranger: Connection, shape: str) -> None:
    found = wrong(stranger, shape)
    assert found == [], "\n".join(found)


@pytest.mark.wide
def test_and_in_parallel_workers(stranger: Connection) -> None:
    force_parallel(stranger)
    assert wrong(stranger, "SELECT count(*) FROM (SELECT {call} FROM public.mine OFFSET 0) x") == []


def test_what_is_anothers_stays_anothers(stranger: Connection, dsn: str) -> None:
    """Tokens, tickets, notes and scans of another session, told to a stranger, are worth nothing."""
    with closing(psycopg2.connect(dsn)) as other:
        other.autocommit = True
        note, token = (
            ask(other, "SELECT dbinfer._ask('open')"),
            ask(other, "SELECT dbinfer._resolve('open', false)"),
        )
        scan = ask(other, "SELECT dbinfer._new_scan()")
        for call in chain(
            (
                f"dbinfer._admit('open', '{note}')",
                f"dbinfer._text('predict', '\\x00', '{token}', 'error', 0)",
            ),
            (
                f"dbinfer._rest('predict', '{scan}', '{token}', 'error')",
                f"dbinfer._bytes('tensor', '\\x00', '{token}', 'error', 0)",
            ),
        ):
            with pytest.raises(psycopg2.Error):
                rows(stranger, f"SELECT {call}")
