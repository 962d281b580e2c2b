"""SQL of ours that runs with the caller's search_path names no operator, function or type that the path could replace.

Who may create in a schema of that path could otherwise have his own operator run with the caller's rights.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dbinfer import sqlfiles
from dbinfer.install.content import RERUN_FOLDERS

GRAMMAR = {
    "coalesce", "exists", "any", "all", "values", "filter", "in", "case", "over", "array", "row", "returns", "table",
    "format", "on", "by", "select", "and", "or", "not", "where", "from", "as", "distinct", "with", "key", "least",
    "greatest", "operator", "s", "a", "x", "gp_dist_random",
}  # fmt: skip
TYPES = "text|bytea|json|jsonb|name|oid|regclass|regtype|regprocedure"
LOOKS_UP_AN_OPERATOR = r"\b(LIKE|ILIKE|SIMILAR TO|BETWEEN|DISTINCT FROM|NULLIF|USING \(|IN \()"


def bare(text: str) -> str:
    """Return SQL without comments and literals, and without what is qualified."""
    text = re.sub(r"/\* (?:greenplum|postgresql): (.*?) \*/", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"--.*|/\*.*?\*/", "", text)
    text = re.sub(r"'(?:[^']|'')*'", "''", text)
    text = re.sub(r"%\(\w+\)s|%\d?\$?[sIL]|\{\w+\}", "x", text)
    return re.sub(r"OPERATOR\(pg_catalog\.[^)\s]+\)", " ", text)


def bodies() -> list[tuple[str, str]]:
    """Return what runs with the caller's path: functions that do not fix it, and the client's statements."""
    found = []
    for folder in RERUN_FOLDERS:
        for path in sorted((sqlfiles.root() / folder).glob("*.sql")):
            text = path.read_text(encoding="utf-8")
            if "FUNCTION" in text and "SET search_path" not in text and "plpython3u" not in text:
                found.append((path.name, text.split("$$")[1]))
    for path in sorted((sqlfiles.root() / "client").glob("*.sql")):
        found.append((path.name, path.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize(
    ("name", "text"), bodies(), ids=lambda value: value if value.endswith(".sql") else ""
)
def test_nothing_of_the_callers_path_is_named(name: str, text: str) -> None:
    text = bare(text)
    text = re.sub(r"\b(MESSAGE|HINT|DETAIL|DIAGNOSTICS n|fillfactor) =", "", text)
    signs = re.sub(r":=|=>|::|\(\*\)|\.\*|\$\w*\$|- ?\d|\.\.", " ", text)
    assert re.findall(r"[^\n]*[-+*/<>=~!@#%^&|]+[^\n]*", signs) == []
    assert re.findall(LOOKS_UP_AN_OPERATOR, text) == []
    assert re.findall(rf"::({TYPES})\b", text) == []
    called = re.findall(r"(?<![.\w])([a-z_]+) ?\(", text, re.IGNORECASE)
    assert {word.lower() for word in called} - GRAMMAR == set()


def test_the_pattern_finds_what_it_should() -> None:
    assert len(bodies()) > 20
    for loose in ("SELECT a = b", "SELECT count(*)", "SELECT x::text", "a || b", "x LIKE ''", "a <> ALL (b)"):
        with pytest.raises(AssertionError):
            test_nothing_of_the_callers_path_is_named("loose", loose)


def test_the_installer_and_the_registry_fix_the_path() -> None:
    """Their transactions name no table of a user, so plain names there are the server's own."""
    root = Path(sqlfiles.__file__).parent
    for name in ("install/_steps.py", "registry/deployment.py", "registry/versions.py", "doctor.py"):
        assert "catalog_only=True" in (root / name).read_text(encoding="utf-8"), name
