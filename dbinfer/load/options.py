"""The options and the report of a load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbinfer.errors import UsageError
from dbinfer.imagefiles import Refused
from dbinfer.load.table import Columns
from dbinfer.names import column
from dbinfer.report import Report


@dataclass(frozen=True)
class LoadOptions:
    """Where images go, and under which names.

    Attributes:
        table: the table's name as a user writes it; made where it does not exist.
        label_from: 'folder': the name of each file's folder is stored as its label; None: no label is stored.
        base: stored paths are relative to this folder; None: to the parent of the folder that is loaded.
        column, path_column, label_column: of the image, of the stored path, of the label.
        recursive: also folders within folders.
        update: replace the images of files that have changed since they were loaded.
        from_list: a file that names one file a line, or '-' for standard input.
    """

    table: str = "images"
    label_from: str | None = None
    base: Path | None = None
    column: str = "img"
    path_column: str = "path"
    label_column: str = "label"
    recursive: bool = True
    update: bool = False
    from_list: Path | None = None

    def columns(self) -> Columns:
        """Return the columns as the catalog has them.

        Raises:
            UsageError: a name is none, or `label_from` is another word than folder.
        """
        if self.label_from not in (None, "folder"):
            raise UsageError(f"label_from is {self.label_from!r}, but must be 'folder'")
        label = column(self.label_column) if self.label_from else None
        return Columns(column(self.path_column), column(self.column), label)


@dataclass(frozen=True)
class LoadReport(Report):
    """What a load did.

    Attributes:
        table: its full name; created: whether it was made now.
        loaded, skipped: numbers of files; skipped ones are in the table as they are.
        refused: files and folders that were left out, and why.
        bytes: of the images that were loaded or replaced; seconds: of the whole load.
        changed: files that differ from what the table has of their path, and were left so.
        updated: the same with `update`: the table has them now.
    """

    table: str
    created: bool
    loaded: int
    skipped: int
    refused: tuple[Refused, ...]
    bytes: int
    seconds: float
    changed: int = 0
    updated: int = 0

    @property
    def known(self) -> int:
        """How many files had their path in the table already."""
        return self.skipped + self.changed + self.updated
