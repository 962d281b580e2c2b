"""Image files of this machine: found in folders, recognized by their first bytes, and read ahead in threads."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dbinfer.base.errors import DataError, UsageError
from dbinfer_udf.image.header import FORMATS, HEAD_BYTES, sniff

# Bytes that show what a file is
HEAD = HEAD_BYTES
THREADS = 4
BATCH, BATCH_BYTES = 16, 1 << 20
MAX_BYTES = 2**30 - 2**16  # a value in a table holds less than 1 GiB, its row's other values included


class Found(NamedTuple):
    """A file, the path that is stored for it, and the name of its folder.

    Attributes:
        size: in bytes, -1 where it cannot be looked at; modified: its time in microseconds since 1970.
        weight: how much of its source's total it is; place: its number in an archive.
    """

    file: Path | str
    path: str
    folder: str = ""
    size: int = -1
    modified: int | None = None
    weight: int = 0
    place: int = 0


@dataclass(frozen=True)
class Refused:
    """A file or folder that is left out, and why."""

    file: str
    reason: str


Outcome = tuple[Found, bytes] | Refused


def find(
    sources: Sequence[Path], base: Path | None, refused: list[Refused], recursive: bool = True
) -> Iterator[Found]:
    """Yield the files of folders, sorted, and single files; hidden files and folders are left out.

    Stored paths have slashes and are relative to `base`, else to the parent of the folder that is loaded; a single
    file keeps its name as given.

    Args:
        refused: folders that cannot be read are added here.

    Raises:
        DataError: a source is not there.
        UsageError: a source lies outside `base`.
    """
    for source in sources:
        if source.is_dir():
            # normpath, not resolve: dots go, but links keep the names that the user knows
            start = base or Path(os.path.normpath(source.absolute())).parent
            yield from _files(source, start, refused, recursive)
        # lexists: a broken link is refused with its reason when it is read, as any bad file
        elif os.path.lexists(source):
            yield found_file(source, base)
        else:
            raise DataError(f"there is no file or folder {str(source)!r}")


def found_file(file: Path, base: Path | None) -> Found:
    """Return a single file, whether it is there or not.

    Raises:
        UsageError: it lies outside `base`.
    """
    path = _relative(file, base) if base else file.as_posix()
    return _looked_at(Found(str(file), path, _folder(file.parent)))


def _looked_at(found: Found) -> Found:
    try:
        facts = os.stat(found.file)
    except (OSError, ValueError):
        return found  # reading it gives the reason
    # by position: `_replace` would cost more than the rest of a million files together
    return Found(*found[:3], facts.st_size, facts.st_mtime_ns // 1000, facts.st_size)


def _files(top: Path, start: Path, refused: list[Refused], recursive: bool) -> Iterator[Found]:
    """Walk a folder; what all files of one folder have in common is worked out once."""

    def note(err: OSError) -> None:
        refused.append(Refused(str(err.filename), f"cannot be read: {err.strerror}"))

    for folder, inner, names in os.walk(top, onerror=note):
        # In place: os.walk goes on with the folders of this very list
        inner[:] = sorted(name for name in inner if recursive and not name.startswith("."))
        stored, named = _before(_relative(Path(folder), start), "/"), _before(str(Path(folder)), os.sep)
        label = _folder(Path(folder))
        for name in sorted(names):
            if not name.startswith("."):
                yield _looked_at(Found(named + name, stored + name, label))


def _before(folder: str, slash: str) -> str:
    """Return what stands before the names of a folder's files."""
    return "" if folder == "." else folder if folder.endswith(slash) else folder + slash


def _folder(path: Path) -> str:
    return os.path.basename(os.path.abspath(path))


def _relative(file: Path, base: Path) -> str:
    whole = Path(os.path.normpath(file.absolute()))
    try:
        return whole.relative_to(os.path.normpath(base.absolute())).as_posix()
    except ValueError as err:
        raise UsageError(f"{str(file)!r} is outside the base folder {str(base)!r}") from err


def read_ahead(files: Iterable[Found]) -> Generator[Outcome, None, None]:
    """Yield each file's bytes, or why it is refused, in the order of `files`.

    Threads take 16 files at once, because handing over costs as much as reading a small file; they stop at 1 MiB and
    read the rest of the 16 when its turn comes. So at most 5 MiB and 5 files are held.
    """
    todo = iter(files)
    # itertools.batched does the same from Python 3.12 on only
    batches = iter(lambda: list(islice(todo, BATCH)), [])
    threads = ThreadPoolExecutor(THREADS)
    try:
        waiting = deque(threads.submit(_read_some, batch) for batch in islice(batches, THREADS))
        while waiting:
            outcomes, rest = waiting.popleft().result()
            if rest:
                # To the front: the rest of this batch comes before the batches that were submitted after it
                waiting.appendleft(threads.submit(_read_some, rest))
            else:
                waiting.extend(threads.submit(_read_some, batch) for batch in islice(batches, 1))
            yield from outcomes
    finally:
        # A consumer that stops early waits for the reads under way, not for those that are queued
        threads.shutdown(wait=True, cancel_futures=True)


def _read_some(files: Sequence[Found]) -> tuple[list[Outcome], Sequence[Found]]:
    """Return the outcomes of the first files, and the files that are still to be read."""
    outcomes: list[Outcome] = []
    size = 0
    while size < BATCH_BYTES and len(outcomes) < len(files):
        outcomes.append(outcome := read(files[len(outcomes)]))
        size += 0 if isinstance(outcome, Refused) else len(outcome[1])
    return outcomes, files[len(outcomes) :]


def read(found: Found) -> Outcome:
    """Return a file's bytes, or why it is refused; a file that is no image is not read further than its head."""
    try:
        # A name that is not UTF-8 holds surrogates: refused here, file by file, not amid a COPY
        (found.path + found.folder).encode()
        mode = os.stat(found.file).st_mode
        if stat.S_ISDIR(mode):
            return Refused(str(found.file), "is a folder: name its files, or load it with 'dbinfer load'")
        if not stat.S_ISREG(mode):  # opening a pipe would wait
            return Refused(str(found.file), "cannot be read: not a regular file")
        with open(found.file, "rb", buffering=0) as handle:
            facts = os.fstat(handle.fileno())
            reason = _planted(os.lstat(found.file), facts) or why_not(handle.read(HEAD_BYTES), facts.st_size)
            if reason:
                return Refused(str(found.file), reason)
            handle.seek(0)
            return found, handle.read()
    except UnicodeEncodeError:
        return Refused(os.fsencode(found.file).decode("utf-8", "replace"), "its name is not valid UTF-8")
    except OSError as err:
        return Refused(str(found.file), f"cannot be read: {err.strerror or err}")


def _planted(name: os.stat_result, file: os.stat_result) -> str:
    """Return why a name leads to a file that the owner of the name may not be able to read; "" where it does not.

    As the kernel's protected_symlinks, but in each folder: what is loaded is often read by more people than its files.
    """
    if stat.S_ISLNK(name.st_mode):
        trusted = name.st_uid in (0, os.geteuid(), file.st_uid)
        return "" if trusted else "is another user's link to a file that is not his"
    same = (name.st_dev, name.st_ino) == (file.st_dev, file.st_ino)
    return "" if same or name.st_uid == file.st_uid else "was replaced while it was read"


def why_not(head: bytes, size: int) -> str:
    """Return why a file with these first bytes is not loaded; "" where it is."""
    if not head:
        return "is empty (0 bytes)"
    if sniff(head) is None:
        return f"is not an image ({', '.join(FORMATS[:-1])} or {FORMATS[-1]})"
    return f"has {size} bytes; a value in a table holds less than 1 GiB" if size > MAX_BYTES else ""
