"""Images within a tar archive, plain or compressed, read from front to end without unpacking it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from dbinfer.imagefiles import Found, Outcome, Refused
from dbinfer.load.archives import DAMAGED, PACKED, Budget, damaged, found_member, outcome_of

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
        """Yield each member while the stream stands at it; what nobody reads of it is skipped."""

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
