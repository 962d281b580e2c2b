"""SQL of ours that runs with the caller's search_path names no operator, function or type that the path could replace.

Who may create in a schema of that path could otherwise have his own operator run with the caller's rights.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbinfer.base.errors import DataError
from dbinfer.database import sql
from dbinfer.install.content import RERUN_FOLDERS
from dbinfer.train.query import Query

GRAMMAR = {
    "coalesce", "exists", "any", "all", "values", "filter", "in", "case", "over", "array", "row", "returns", "table",
    "format", "on", "by", "select", "and", "or", "not", "where", "from", "as", "distinct", "with", "key", "least",
    "greatest", "operator", "s", "a", "x", "q", "w", "join", "gp_dist_random",
    "materialized", "lateral", "r", "t", "when", "group",
}  # fmt: skip
TYPES = "text|bytea|json|jsonb|name|oid|regclass|regtype|regprocedure"
LOOKS_UP_AN_OPERATOR = r"\b(LIKE|ILIKE|SIMILAR TO|BETWEEN|DISTINCT FROM|NULLIF|USING ?\(|IN \()"


def bare(text: str) -> str:
    """Return SQL without comments and literals, and without what is qualified."""
    text = re.sub(r"/\* (?:greenplum6?|postgresql): (.*?) \*/", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"--.*|/\*.*?\*/", "", text)
    text = re.sub(r"'(?:[^']|'')*'", "''", text)
    text = re.sub(r"%\(\w+\)s|%\d?\$?[sIL]|\{\w+\}", "x", text)
    return re.sub(r"OPERATOR\(pg_catalog\.[^)\s]+\)", " ", text)


def bodies() -> list[tuple[str, str]]:
    """Return what runs with the caller's path: functions that do not fix it, and the client's statements."""
    found = []
    for folder in RERUN_FOLDERS:
        for path in sorted((sql.root() / folder).glob("*.sql")):
            text = sql.read(f"{folder}/{path.name}")
            if "FUNCTION" in text and "SET search_path" not in text and "plpython3u" not in text:
                found.append((path.name, text.split("$$")[1]))
    for path in sorted((sql.root() / "client").glob("*.sql")):
        found.append((path.name, sql.read(f"client/{path.name}")))
    return found


def test_nothing_of_the_callers_path_is_named() -> None:
    found = bodies()
    assert len(found) > 20
    assert {name: wrong for name, text in found if (wrong := loose(text))} == {}


def loose(text: str) -> list[str]:
    """Return what a statement leaves to the caller's path."""
    text = bare(text)
    text = re.sub(
        r"\b(MESSAGE|HINT|DETAIL|ERRCODE|DIAGNOSTICS n|fillfactor|SET search_path) =|\w+ = (?=PG_EXCEPTION_)",
        "",
        text,
    )
    signs = re.sub(r":=|=>|::|\(\*\)|\.\*|\$\w*\$|- ?\d|\.\.", " ", text)
    found = re.findall(r"[^\n]*[-+*/<>=~!@#%^&|]+[^\n]*", signs) + re.findall(LOOKS_UP_AN_OPERATOR, text)
    found += re.findall(rf"::({TYPES})\b", text)
    called = re.findall(r"(?<![.\w])([a-z_]+) ?\(", text, re.IGNORECASE)
    return found + sorted({word.lower() for word in called} - GRAMMAR)


class Recorder:
    """A snapshot without rows that keeps the statements it is given."""

    on_segments = False

    def __init__(self, second: int, key: bool) -> None:
        self.kinds = [17, second, *([1043] if key else [])]
        self.statements: list[str] = []

    @contextmanager
    def cursor(self, name: str | None = None) -> Iterator[Any]:
        yield self

    def execute(self, text: str, values: object = None) -> None:
        self.statements.append(text)
        types = self.kinds if "LIMIT 0" in text else []
        self.description = [SimpleNamespace(type_code=kind, name="") for kind in types]

    def fetchone(self) -> tuple[str]:
        return ("OPERATOR(pg_catalog.=)" if "pg_opclass" in self.statements[-1] else "character varying",)

    def fetchall(self) -> list[tuple[str]]:
        return [("no",)] if "DISTINCT" in self.statements[-1] else []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def test_training_reads_its_query_without_the_callers_path(subtests: pytest.Subtests) -> None:
    for key, second in itertools.product([False, True], [17, 25]):
        with subtests.test(key=key, second=second):
            snapshot = Recorder(second, key)
            query = Query.find("SELECT", cast(Any, snapshot))
            assert query.count() == 0
            query.open([])
            with pytest.raises((DataError, IndexError)):
                query.open([0])
            assert len(snapshot.statements) >= 4
            for statement in snapshot.statements:
                assert loose(statement.replace("*", "").replace("EXPLAIN (COSTS OFF)", "")) == []


def test_the_installer_and_the_registry_fix_the_path() -> None:
    """Their transactions name no table of a user, so plain names there are the server's own."""
    root = Path(sql.__file__).parents[1]
    for name in ("install/steps.py", "models/deployment.py", "models/registry.py", "install/doctor.py"):
        assert "catalog_only=True" in (root / name).read_text(encoding="utf-8"), name
