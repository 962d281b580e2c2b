"""The SQL files of this distribution: beside the package in a clone, inside it in a wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def root() -> Path:
    """Return the folder sql/."""
    packaged = Path(__file__).parent / "_sql"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "sql"


@cache
def read(name: str) -> str:
    """Return the text of one file, e.g. read('client/models.sql')."""
    return (root() / name).read_text(encoding="utf-8")
