"""Where images come from: folders and files, archives, a list of files; walked as often as needed, never held."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from dbinfer.base.errors import DataError
from dbinfer.images.archives import Tar, Zip, kind_of
from dbinfer.images.files import Found, Outcome, Refused, find, found_file, read_ahead

# generators, because whoever stops early closes them
Outcomes = Generator[Outcome, None, None]
Reader = Callable[[Iterable[Found]], Outcomes]


class Source(Protocol):
    """Images in an order that stays the same.

    Attributes:
        total: what the weights of all entries add up to, in bytes.
    """

    @property
    def total(self) -> int:
        """Return the weight of all entries."""

    def entries(self, refused: list[Refused]) -> Iterator[Found]:
        """Yield what is there; what cannot even be looked at is added to `refused`."""

    def reader(self) -> Reader:
        """Return what reads some of the entries, in their order; several readers do not disturb each other."""

    def close(self) -> None:
        """Give up what is open."""


class Files:
    """Folders and files."""

    def __init__(self, places: Sequence[Path], base: Path | None, recursive: bool) -> None:
        self._places, self._base, self._recursive = places, base, recursive

    @property
    def total(self) -> int:
        """Return the bytes of all files, from a walk of its own."""
        return sum(item.weight for item in self.entries([]))

    def entries(self, refused: list[Refused]) -> Iterator[Found]:
        """Yield the files."""
        return find(self._places, self._base, refused, self._recursive)

    def reader(self) -> Reader:
        """Return what reads files ahead, in threads."""
        return read_ahead

    def close(self) -> None:
        """Do nothing: no file stays open."""


class Listed:
    """The files that a list names, one a line, or separated by zero bytes as `find -print0` writes them."""

    def __init__(self, place: Path, base: Path | None) -> None:
        self._base = base
        self._list = _opened(place)

    @property
    def total(self) -> int:
        """Return the bytes of all files."""
        return sum(item.weight for item in self.entries([]))

    def entries(self, refused: list[Refused]) -> Iterator[Found]:
        """Yield the files, those that are not there, too: their reason comes when they are read."""
        self._list.seek(0)
        for name in _names(self._list):
            yield found_file(Path(os.fsdecode(name)), self._base)

    def reader(self) -> Reader:
        """Return what reads files ahead, in threads."""
        return read_ahead

    def close(self) -> None:
        """Close the list."""
        self._list.close()


@contextmanager
def open_sources(
    places: Sequence[Path], listed: Path | None, base: Path | None, recursive: bool
) -> Iterator[list[Source]]:
    """Yield the sources, in the order given; files and folders that follow each other are one.

    Raises:
        DataError: one is not there, or is an archive that cannot be read.
    """
    sources: list[Source] = []
    try:
        _add(sources, places, base, recursive)
        if listed:
            sources.append(Listed(listed, base))
        yield sources
    finally:
        for source in sources:
            source.close()


def _add(sources: list[Source], places: Sequence[Path], base: Path | None, recursive: bool) -> None:
    plain: list[Path] = []
    for place in places:
        # A broken link is refused with its reason when it is read, as any bad file
        if not os.path.lexists(place):
            raise DataError(f"there is no file or folder {str(place)!r}")
        kind = kind_of(place) if place.is_file() else ""
        if not kind:
            plain.append(place)
            continue
        if plain:
            sources.append(Files(plain, base, recursive))
            plain = []
        sources.append(Zip(place) if kind == "zip" else Tar(place))
    if plain:
        sources.append(Files(plain, base, recursive))


def _opened(place: Path) -> IO[bytes]:
    """Return the list as a file that can be read again; standard input is copied to a temporary file."""
    try:
        if str(place) != "-":
            return place.open("rb")
        copy = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the source
        shutil.copyfileobj(sys.stdin.buffer, copy)
        return copy
    except OSError as err:
        raise DataError(f"the list {str(place)!r} cannot be read: {err.strerror}") from err


def _names(handle: IO[bytes]) -> Iterator[bytes]:
    separator, rest = b"", b""
    while piece := handle.read(1 << 20):
        separator = separator or (b"\0" if b"\0" in piece else b"\n")
        *names, rest = (rest + piece).split(separator)
        yield from filter(None, (name.rstrip(b"\r") for name in names))
    if rest.strip():
        yield rest.rstrip(b"\r")
