"""What zip and tar archives have in common: nothing is unpacked to the disk, and no member is believed."""

from __future__ import annotations

import lzma
import os
import posixpath
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO

from dbinfer.errors import DataError
from dbinfer.imagefiles import HEAD, Found, Outcome, Refused, why_not

# An archive of images hardly shrinks; one that grows by more than this, and beyond that, is made to fill disks
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
        return ""  # the reason is told when it is read as a file


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
