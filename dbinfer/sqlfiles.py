"""The SQL files of this distribution: beside the package in a clone, inside it in a wheel."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

INCLUDE = re.compile(r"^-- include (\S+)$", re.MULTILINE)


@cache
def root() -> Path:
    """Return the folder sql/."""
    packaged = Path(__file__).parent / "_sql"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "sql"


def upgrades() -> list[Path]:
    """Return the files that change tables, each once in a database, in the order of their numbers."""
    return sorted((root() / "upgrades").glob("[0-9]*.sql"))


@cache
def read(name: str) -> str:
    """Return the text of one file, e.g. read('client/models.sql'); in place of `-- include FILE` stands that file."""
    text = (root() / name).read_text(encoding="utf-8")
    return INCLUDE.sub(lambda found: read(found[1]), text)
