"""Which modules the packages of this tree have, and what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def sources(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert len(found) > 3
    return found


def imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (module, names) of each import of a file, also those within functions; relative ones start with a dot."""
    yield from imports_of(ast.parse(path.read_text(encoding="utf-8"), str(path)))


def imports_of(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Yield the same of a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]


def tops(path: Path) -> set[str]:
    return {module.partition(".")[0] for module, _ in imports(path) if not module.startswith(".")}


def ours(path: Path) -> set[str]:
    """Return the full names of our modules that a file imports; `from dbinfer_udf import x` counts as dbinfer_udf.x."""
    found = set()
    for module, names in imports(path):
        if module.partition(".")[0].startswith("dbinfer"):
            found |= {f"{module}.{name}" for name in names} if module == "dbinfer_udf" else {module}
    return found


def modules(package: str, folder: str = ".") -> dict[str, Path]:
    """Return the modules of a package by their full names; a package itself is its __init__."""
    top = ROOT / folder
    paths = sorted((top / package).rglob("*.py"))
    names = [".".join(path.relative_to(top).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


CLIENT = modules("dbinfer")
HOUSE = CLIENT | modules("dbinfer_udf", "udf") | modules("dbinfer_models", "models")


@cache
def needs(name: str) -> frozenset[str]:
    """Return which of our modules a module imports, also within functions."""
    return resolved(name, imports(HOUSE[name]))


def resolved(name: str, imported: Iterable[tuple[str, list[str]]]) -> frozenset[str]:
    """Return the modules of ours that these imports of a module mean."""
    package = name if HOUSE[name].name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for module, members in imported:
        dots = len(module) - len(module.lstrip("."))
        start = package.split(".")[: len(package.split(".")) - dots + 1] if dots else []
        whole = ".".join(filter(None, [*start, module.lstrip(".")]))
        # `from package import module` needs the module; `from module import function` needs the module
        found |= {
            f"{whole}.{member}" if f"{whole}.{member}" in HOUSE else whole for member in members or [""]
        }
    return frozenset(found & set(HOUSE))
