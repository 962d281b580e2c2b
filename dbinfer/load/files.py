"""Finds the files to load and says under which path each is stored."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dbinfer.errors import DataError, UsageError


class Found(NamedTuple):
    """A file, the path that is stored for it, and the name of its folder."""

    file: Path | str
    path: str
    folder: str = ""


@dataclass(frozen=True)
class Refused:
    """A file or folder that is left out, and why."""

    file: str
    reason: str


def find(
    sources: Sequence[Path], base: Path | None, refused: list[Refused], recursive: bool = True
) -> list[Found]:
    """Return the files of folders, sorted, and single files; hidden files and folders are left out.

    Stored paths have slashes and are relative to `base`, else to the parent of the folder that is loaded; a single
    file keeps its name as given.

    Args:
        refused: folders that cannot be read are added here.

    Raises:
        DataError: a source is not there.
        UsageError: a source lies outside `base`.
    """
    found: list[Found] = []
    for source in sources:
        if source.is_dir():
            start = base or Path(os.path.normpath(source.absolute())).parent
            found += _files(source, start, refused, recursive)
        elif os.path.lexists(source):
            path = _relative(source, base) if base else source.as_posix()
            found.append(Found(str(source), path, _folder(source.parent)))
        else:
            raise DataError(f"there is no file or folder {str(source)!r}.")
    return found


def _files(top: Path, start: Path, refused: list[Refused], recursive: bool) -> Iterator[Found]:
    """Walk a folder; what all files of a place have in common is worked out once."""

    def note(err: OSError) -> None:
        refused.append(Refused(str(err.filename), f"cannot be read: {err.strerror}"))

    for place, folders, names in os.walk(top, onerror=note):
        folders[:] = sorted(name for name in folders if recursive and not name.startswith("."))
        stored, named = _within(_relative(Path(place), start), "/"), _within(str(Path(place)), os.sep)
        folder = _folder(Path(place))
        for name in sorted(names):
            if not name.startswith("."):
                yield Found(named + name, stored + name, folder)


def _within(place: str, slash: str) -> str:
    """Return what stands before the names of a place's files."""
    return "" if place == "." else place if place.endswith(slash) else place + slash


def _folder(place: Path) -> str:
    return os.path.basename(os.path.abspath(place))


def _relative(file: Path, base: Path) -> str:
    whole = Path(os.path.normpath(file.absolute()))
    try:
        return whole.relative_to(os.path.normpath(base.absolute())).as_posix()
    except ValueError as err:
        raise UsageError(f"{str(file)!r} lies outside the base {str(base)!r}.") from err
