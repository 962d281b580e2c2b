"""Packages that import their names on first use, so that a command starts without the modules of all others."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def offer_lazily(package: str) -> None:
    """Let a package offer the names of its `__all__`, which it imports only for type checkers (`if TYPE_CHECKING:`)."""
    sys.modules[package].__class__ = _Package


class _Package(ModuleType):
    """A package whose names are imported on first use."""

    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" or name not in self.__all__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = vars(self)[name] = getattr(import_module(_places(self)[name]), name)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a module of a package binds it there; a function of the same name must not lose its place
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


def _places(package: ModuleType) -> dict[str, str]:
    """Return the module of each name, as the package's imports say."""
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(package))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in found for alias in node.names}
