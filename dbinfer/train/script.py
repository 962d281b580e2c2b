"""A Python file, as far as it defines a network: the statements that a name needs, and nothing else of it, are run.

Most public examples are scripts: they load their data, make a network, call `fit` and draw curves. Here only the
network is wanted, so of the imports, constants, functions and layers those are run that it depends on.
"""

from __future__ import annotations

import ast
import symtable
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dbinfer.base.errors import UsageError

# Calls that change what they are called on: model.add(...), blocks.append(...)
CHANGING = ("add", "append", "build", "compile", "extend", "load_weights", "pop", "set_weights")


@dataclass(frozen=True)
class Statement:
    """One statement at the top of a file, and the names of the file that it binds, changes and reads."""

    node: ast.stmt
    binds: frozenset[str]
    changes: frozenset[str]
    reads: frozenset[str]

    @classmethod
    def of(cls, node: ast.stmt) -> Statement:
        """Look at a statement; names that a function keeps to itself do not count."""
        table = symtable.symtable(ast.unparse(node), "statement", "exec")
        binds = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
        return cls(node, frozenset(binds), frozenset(_changed(node)), frozenset(_reads(table)))

    @property
    def assigned(self) -> str:
        """The name of `NAME = ...`; empty for other statements."""
        node = self.node
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id
        return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""

    @property
    def literal(self) -> bool:
        """Whether a plain value is assigned, which `--set` can replace."""
        try:
            ast.literal_eval(getattr(self.node, "value", None) or "")
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return False
        return bool(self.assigned)

    def trains(self, name: str) -> bool:
        """Return whether it calls NAME.fit(...)."""
        calls = (one.func for one in ast.walk(self.node) if isinstance(one, ast.Call))
        return any(
            isinstance(one, ast.Attribute) and one.attr == "fit" and _root(one) == name for one in calls
        )

    def replaced(self, value: Any) -> Statement:
        """Return the statement with another value assigned."""
        node = ast.parse(f"{self.assigned} = {value!r}").body[0]
        return Statement(
            ast.copy_location(ast.fix_missing_locations(node), self.node),
            self.binds,
            frozenset(),
            frozenset(),
        )


def _reads(table: symtable.SymbolTable) -> Iterator[str]:
    for one in table.get_symbols():
        if one.is_global() or (table.get_type() == "module" and one.is_referenced()):
            yield one.get_name()
    for inner in table.get_children():
        yield from _reads(inner)


def _changed(statement: ast.stmt) -> Iterator[str]:
    """Yield the names of what a statement changes in place, also within a loop or a condition."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Attribute) and called.attr in CHANGING:
                yield _root(called)
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Attribute | ast.Subscript):
                yield _root(target)


def _root(node: ast.expr) -> str:
    """Return the name that a chain like `model.layers[0].trainable` begins with; empty where it begins otherwise."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class Script:
    """A Python file.

    Args:
        text: its content.
        path: for messages and tracebacks.

    Raises:
        UsageError: it is no Python.
    """

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        try:
            nodes = ast.parse(text, path).body
            self._statements = [Statement.of(node) for node in nodes if not _is_main(node)]
        except (SyntaxError, ValueError, RecursionError) as err:
            place = f"line {err.lineno} of {path}" if isinstance(err, SyntaxError) else path
            reason = err.msg if isinstance(err, SyntaxError) else err
            raise UsageError(f"{place} is no Python: {reason}") from err

    @property
    def names(self) -> set[str]:
        """All names that the file defines."""
        return {name for one in self._statements for name in one.binds}

    @property
    def functions(self) -> list[str]:
        """The functions that the file defines, in their order."""
        return [one.node.name for one in self._statements if isinstance(one.node, ast.FunctionDef)]

    def is_function(self, name: str) -> bool:
        """Return whether a name is a function or class of the file, or imported; else it is a value."""
        kinds = (ast.FunctionDef, ast.ClassDef, ast.ImportFrom)
        return any(name in one.binds and isinstance(one.node, kinds) for one in self._statements)

    def constants(self, name: str) -> tuple[str, ...]:
        """Return the names of the plain values that a name depends on."""
        return tuple(one.assigned for one in self._needed([name], {}) if one.literal)

    def run(self, names: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
        """Run what these names need, in the file's order; return all that it has defined.

        Args:
            names: of functions or values.
            values: instead of those that the file assigns to these names.
        """
        module = ModuleType(f"network_{id(self)}")
        module.__file__ = self.path
        sys.modules[module.__name__] = module  # classes look for the module that they are of
        body = [one.node for one in self._needed(names, values)]
        exec(compile(ast.Module(body, []), self.path, "exec"), module.__dict__)
        return module.__dict__

    def _needed(self, names: Sequence[str], values: Mapping[str, Any]) -> list[Statement]:
        """Return the statements that these names need; what follows the first call of their `fit` does not count."""
        told = [
            one.replaced(values[one.assigned]) if one.assigned in values else one for one in self._statements
        ]
        ends = [place for place, one in enumerate(told) if any(map(one.trains, names))]
        told = told[: ends[0]] if ends else told
        wanted, kept = set(names), {place for place, one in enumerate(told) if _is_for_all(one.node)}
        more = True
        while more:
            found = {
                place
                for place, one in enumerate(told)
                if place not in kept and wanted & (one.binds | one.changes)
            }
            kept |= found
            wanted |= {name for place in found for name in told[place].reads}
            more = bool(found)
        return [told[place] for place in sorted(kept)]


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in {
        one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)
    }


def _is_for_all(node: ast.stmt) -> bool:
    """Return whether a statement may bind any name, or says how all others are meant."""
    return isinstance(node, ast.ImportFrom) and (
        node.module == "__future__" or any(one.name == "*" for one in node.names)
    )
