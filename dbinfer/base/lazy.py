"""Packages that import what they offer when it is asked for, so that a command starts without all the others."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def offer_lazily(package: str) -> None:
    """Let a package offer the names of its `__all__`, which it imports for type checkers only: `if TYPE_CHECKING:`."""
    sys.modules[package].__class__ = _Package


class _Package(ModuleType):
    """A package whose names are imported by the first who asks for them."""

    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" or name not in self.__all__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = vars(self)[name] = getattr(import_module(_places(self)[name]), name)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Whoever imports a module of a package binds it there; where a function has the same name, it is the function's
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


def _places(package: ModuleType) -> dict[str, str]:
    """Return from which module each name comes, as the package's imports say it."""
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(package))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in found for alias in node.names}
