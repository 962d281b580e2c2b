"""One style for errors, as PostgreSQL writes them: lower case and no full stop; details and hints are sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for folder in ("dbinfer", "udf/dbinfer_udf") for path in (ROOT / folder).rglob("*.py"))
STATEMENTS = sorted(path for path in (ROOT / "sql").rglob("*.sql") if path.parent.name != "upgrades")
ERRORS = re.compile(
    r"(Usage|Server|Install|Registry|ModelFile|Convert|Data|Train|Dbinfer|Udf|Image|Model|Engine)Error$"
)
NAMES = (
    "GIF",
    "Horovod",
    "IR",
    "JPEG",
    "Keras",
    "NNCF",
    "OpenCV",
    "OpenVINO",
    "PL/Python",
    "PNG",
    "PostgreSQL",
)
CALL = re.compile(r"(MESSAGE|DETAIL|HINT) =\s+(?:pg_catalog\.)?(?:format\()?'((?:[^']|'')*)'")


def text(node: ast.expr) -> str | None:
    """Return a string as far as it is written in the source, `{}` for each value; None for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) or "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return text(node.left)
    return None


def words(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (message, detail or hint; line; text) of the errors that a module makes."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call) or not ERRORS.search(ast.unparse(call.func)):
            continue
        named = [(keyword.arg or "", keyword.value) for keyword in call.keywords]
        for kind, node in [*zip(("message", "hint"), call.args, strict=False), *named]:
            found = text(node)
            if found and kind in ("message", "detail", "hint"):
                yield kind, node.lineno, found


def wrong(kind: str, found: str) -> bool:
    """Say whether a text is not in the style; a hint may end in a command after a colon."""
    if kind == "message":
        return re.search(r"[^.]\.$", found) is not None or (
            found[0].isupper() and not found.startswith(NAMES)
        )
    return found[0].islower() or not (found.endswith((".", ")", "{}", "%s")) or ": " in found)


def test_errors_in_python() -> None:
    found = [(path, *each) for path in MODULES for each in words(path)]
    assert [f"{path}:{line}: {said}" for path, kind, line, said in found if wrong(kind, said)] == []


def test_errors_in_sql() -> None:
    for path in STATEMENTS:
        joined = re.sub(
            r"'\s*\n\s*'", "", path.read_text(encoding="utf-8")
        )  # SQL joins literals on two lines
        found = [(kind.lower(), said) for kind, said in CALL.findall(joined)]
        assert [f"{path}: {said}" for kind, said in found if wrong(kind, said)] == []
