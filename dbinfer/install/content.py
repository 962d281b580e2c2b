"""What this distribution would install: upgrades with their checksums, re-runnable SQL, the runtime's modules."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING

from dbinfer.database import sql

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # new in Python 3.11

# In this order: what LANGUAGE sql functions call is looked up when they are made.
RERUN_FOLDERS = (
    "runtime",
    "registry",
    "resolve",
    "batch",
    "tuning",
    "jobs",
    "workers",
    "functions",
    "views",
    "search",
)

# Functions that an older release made, and that its upgrade drops.
RETIRED = (
    "dbinfer_private.pending",
    "dbinfer._batch",
    "dbinfer._batch_query",
    "dbinfer._batches",
)


def sha256(text: str) -> str:
    """Return the sha256 of a text in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for file in folder.iterdir():
        if file.name.endswith(".py"):
            yield prefix + file.name[:-3], file.read_text(encoding="utf-8")
        elif file.is_dir() and file.name.isidentifier() and not file.name.startswith("_"):
            yield from _sources(file, f"{prefix}{file.name}.")


@dataclass(frozen=True)
class Upgrade:
    """A schema change that runs once in each database."""

    name: str
    sql: str

    @property
    def digest(self) -> str:
        """Return the checksum that freezes it."""
        return sha256(self.sql)


class Content:
    """The SQL and Python of this distribution, read once."""

    @cached_property
    def upgrades(self) -> list[Upgrade]:
        """Return the upgrades in the order of their numbers."""
        return [Upgrade(f.stem, f.read_text(encoding="utf-8")) for f in sql.upgrades()]

    @cached_property
    def rerun(self) -> dict[str, str]:
        """Return the SQL files that are run again at every upgrade, by name, in order."""
        return {
            f"{folder}/{path.name}": sql.read(f"{folder}/{path.name}")
            for folder in RERUN_FOLDERS
            for path in sorted((sql.root() / folder).glob("*.sql"))
        }

    @cached_property
    def modules(self) -> dict[str, str]:
        """Return the source of each module that backends run, by module name: `model`, `engine.client`."""
        return dict(_sources(resources.files("dbinfer_udf"), ""))

    @cached_property
    def runtime_digest(self) -> str:
        """Return the digest of the runtime's modules."""
        return sha256("\0".join(f"{name}\0{self.modules[name]}" for name in sorted(self.modules)))

    @cached_property
    def sql_digest(self) -> str:
        """Return the digest of all re-runnable SQL."""
        return sha256("\0".join(self.rerun.values()))

    @cached_property
    def functions(self) -> list[str]:
        """Return the qualified names of all functions that are ours, in this release or an older one."""
        made = re.findall(
            r"^CREATE OR REPLACE FUNCTION (\S+)\(", "\n".join(self.rerun.values()), re.MULTILINE
        )
        upgrades = "\n".join(upgrade.sql for upgrade in self.upgrades)
        return [*made, *re.findall(r"^CREATE AGGREGATE (\S+)\(", upgrades, re.MULTILINE), *RETIRED]

    @cached_property
    def relations(self) -> list[str]:
        """Return relkind and qualified name of all relations that are ours."""
        text = "\n".join([*(upgrade.sql for upgrade in self.upgrades), *self.rerun.values()])
        kinds = {"TABLE": "r", "SEQUENCE": "S", "TYPE": "c", "OR REPLACE VIEW": "v"}
        found = re.findall(rf"^CREATE ({'|'.join(kinds)}) ([a-z_.0-9]+)", text, re.MULTILINE)
        return [f"{kinds[kind]} {name}" for kind, name in found]
