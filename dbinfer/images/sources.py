"""Where images come from: folders, files, a list of files, zip and tar archives; walked as often as needed, never held.

Nothing of an archive is unpacked to the disk, and none of its members is trusted.
"""

from __future__ import annotations

import bz2
import calendar
import gzip
import io
import lzma
import os
import posixpath
import shutil
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from dbinfer.base.errors import DataError
from dbinfer.images.files import HEAD, Found, Outcome, Refused, find, found_file, read_ahead, why_not

# generators, so that a consumer that stops early can close them
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
        """Close what is open."""


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
        """Yield the files, missing ones included, which are refused when they are read."""
        self._list.seek(0)
        for name in _names(self._list):
            yield found_file(Path(os.fsdecode(name)), self._base)

    def reader(self) -> Reader:
        """Return what reads files ahead, in threads."""
        return read_ahead

    def close(self) -> None:
        """Close the list."""
        self._list.close()


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


# Images hardly compress: an archive that grows RATIO times, and beyond LEAST bytes, is made to fill disks
RATIO, LEAST = 100, 1 << 28
ZIP = (b"PK\3\4", b"PK\5\6")
# gzip, bzip2, xz
PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")
USTAR = slice(257, 262)
# What Python's readers raise of damage: errors of their own, and whatever a number or a name leads them to
DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, OSError, ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RuntimeError),
)


def kind_of(file: Path) -> str:
    """Return `zip` or `tar` by a file's first bytes, whatever its name is; "" for any other file."""
    try:
        with file.open("rb") as handle:
            head = handle.read(512)
        if head.startswith(ZIP):
            return "zip"
        # What is compressed can only be a tar archive here: no image format begins so
        packed = head.startswith(PACKED)
        return "tar" if packed or head[USTAR] == b"ustar" else ""
    except OSError:
        return ""  # reading it as a file gives the reason


class Budget:
    """How many bytes an archive may become."""

    def __init__(self, file: Path) -> None:
        self._file, self._packed = file, os.path.getsize(file)
        self._done = 0

    def spend(self, size: int) -> None:
        """Count bytes.

        Raises:
            DataError: they are more than an archive of images ever becomes.
        """
        self._done += size
        if self._done > max(LEAST, RATIO * self._packed):
            raise DataError(
                f"{self._file} of {self._packed} bytes becomes more than {self._done - 1}",
                "An archive of images hardly shrinks. If you trust it, unpack it and load the folder.",
            )


def damaged(file: Path, err: BaseException) -> DataError:
    """Return the error for an archive that ends early or was altered."""
    return DataError(f"{file} is damaged or cut off: {err or type(err).__name__}", "Copy or pack it again.")


def outcome_of(item: Found, handle: IO[bytes], budget: Budget | None) -> Outcome:
    """Return a member's bytes, or why it is refused; what is no image is not read further than its head."""
    head = handle.read(HEAD)
    reason = why_not(head, item.size)
    if reason:
        return Refused(str(item.file), reason)
    if budget is not None:
        budget.spend(item.size)
    data = head + handle.read(item.size)  # no more than the size that was looked at above
    return item, data


def found_member(archive: Path, name: str, refused: list[Refused]) -> Found | None:
    """Return a member under the path that it has in the archive; None for a hidden or unfit one."""
    path = posixpath.normpath(name.replace("\\", "/").lstrip("/"))
    reason = _unfit(path)
    if reason:
        shown = os.fsencode(name).decode("utf-8", "replace").replace("\0", "\ufffd")
        refused.append(Refused(f"{archive}: {shown}", reason))
        return None
    if any(part.startswith((".", "__MACOSX")) for part in path.split("/")):
        return None
    folder = posixpath.basename(posixpath.dirname(path))
    return Found(f"{archive}: {name}", path, folder or archive.name.split(".")[0])


def _unfit(path: str) -> str:
    """Return why a table cannot or should not have this path; "" where it can."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    if "\0" in path:
        return "its name has a zero byte"
    return "its name leads out of the archive" if path.split("/", maxsplit=1)[0] == ".." else ""


OPENERS: tuple[Callable[..., Any], ...] = (gzip.open, bz2.open, lzma.open)
# Names and attributes in blocks of their own, which tarfile reads into memory
LONG = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
MOST_LONG = 1 << 20


class Tar:
    """A tar archive, plain or compressed with gzip, bzip2 or xz; read from front to end, once for each reader."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.total = os.path.getsize(file)

    def entries(self, refused: list[Refused]) -> Iterator[Found]:
        """Yield the images-to-be."""
        before = 0
        for place, (member, _, raw) in enumerate(self._members()):
            weight, before = raw.tell() - before, raw.tell()
            found = found_member(self._file, member.name, refused) if member.isreg() else None
            if found is not None:
                modified = _in_range(member.mtime * 1_000_000)
                yield found._replace(size=member.size, modified=modified, weight=weight, place=place)

    def reader(self) -> Callable[[Iterable[Found]], Generator[Outcome, None, None]]:
        """Return what reads some of the entries, in their order."""
        members, sparse = enumerate(self._members()), Budget(self._file)

        def read(wanted: Iterable[Found]) -> Generator[Outcome, None, None]:
            for item in wanted:
                # in step with `entries`: the archive is the same
                member, tar = next((m, tar) for place, (m, tar, _) in members if place == item.place)
                handle = tar.extractfile(member)
                if handle is None:
                    yield Refused(str(item.file), "cannot be read: not a regular file")
                    continue
                try:
                    # the zeros of a sparse file are not in the archive, where all other bytes are counted
                    yield outcome_of(item, handle, sparse if member.issparse() else None)
                except DAMAGED as err:
                    raise damaged(self._file, err) from err

        return read

    def close(self) -> None:
        """Do nothing: each reader closes the archive when it ends."""

    def _members(self) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile, IO[bytes]]]:
        """Yield each member while the stream stands at it; what is not read of it is skipped."""

        class Info(_Info):
            ended = False

        try:
            with (
                self._file.open("rb") as raw,
                self._unpacked(raw) as plain,
                tarfile.open(fileobj=_Counted(plain, Budget(self._file)), mode="r|", tarinfo=Info) as tar,
            ):
                for member in tar:
                    yield member, tar, raw
                    # tarfile keeps all members, of an archive of any length
                    tar.members = []  # type: ignore[attr-defined]
        except RecursionError as err:
            raise damaged(self._file, EOFError("too many headers before one member")) from err
        except DAMAGED as err:
            raise damaged(self._file, err) from err
        if not Info.ended:
            raise damaged(self._file, EOFError("its end is missing"))

    def _unpacked(self, raw: IO[bytes]) -> Any:
        head = raw.read(8)
        raw.seek(0)
        return next(
            (opener(raw) for magic, opener in zip(PACKED, OPENERS, strict=True) if head.startswith(magic)),
            raw,
        )


class _Info(tarfile.TarInfo):
    """Remembers that the block of zeros was seen which ends an archive; tarfile stops at damage as if it were that."""

    ended = False

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Any:
        info = super().frombuf(buf, encoding, errors)
        if info.type in LONG and info.size > MOST_LONG:
            raise tarfile.ReadError(f"a header of {info.size} bytes")
        return info

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Any:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            cls.ended = True
            raise


class _Counted(io.RawIOBase):
    """A stream whose bytes are counted before they are used, and that is not read beyond its end."""

    def __init__(self, inner: Any, budget: Budget) -> None:
        self._inner, self._budget = inner, budget
        self._over = False

    def read(self, size: int = -1, /) -> bytes:
        data: bytes = self._inner.read(size)
        self._budget.spend(len(data))
        # tarfile meets the end once where the last record is short; where a member's size leads beyond the end, it
        # would go on block by block, for years
        if not data and self._over:
            raise EOFError("a member ends beyond the end")
        self._over = not data
        return data


def _in_range(microseconds: float) -> int | None:
    """Return a time that PostgreSQL can hold; None for any other, which only a forged header has."""
    return int(microseconds) if 0 <= microseconds < 2**53 else None


class Zip:
    """A zip archive; its table of contents is held in memory, its images are not."""

    def __init__(self, file: Path) -> None:
        self._file, self._budget = file, Budget(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except DAMAGED as err:
            raise damaged(file, err) from err
        self.total = os.path.getsize(file)

    def entries(self, refused: list[Refused]) -> Iterator[Found]:
        """Yield the images-to-be."""
        for place, info in enumerate(self._zip.infolist()):
            if info.filename.endswith("/"):  # is_dir fails of an empty name
                continue
            found = found_member(self._file, info.filename, refused)
            if found is not None:
                size, weight = info.file_size, info.compress_size
                yield found._replace(size=size, modified=_microseconds(info), weight=weight, place=place)

    def reader(self) -> Callable[[Iterable[Found]], Generator[Outcome, None, None]]:
        """Return what reads some of the entries."""
        return lambda wanted: (self._read(item) for item in wanted)

    def close(self) -> None:
        """Close the archive."""
        self._zip.close()

    def _read(self, item: Found) -> Outcome:
        info = self._zip.infolist()[item.place]
        if info.flag_bits & 1:
            return Refused(str(item.file), "is encrypted; unpack the archive and load the folder")
        try:
            with self._zip.open(info) as handle:
                return outcome_of(item, handle, self._budget)
        except NotImplementedError:
            return Refused(str(item.file), "is compressed in a way that cannot be read here")
        except DAMAGED as err:
            return Refused(str(item.file), f"is damaged: {err}")


def _microseconds(info: zipfile.ZipInfo) -> int | None:
    """Return a member's time, taken for UTC: a zip does not say of which place it is."""
    try:
        return calendar.timegm((*info.date_time, 0, 0, 0)) * 1_000_000
    except (ValueError, OverflowError):
        return None


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
