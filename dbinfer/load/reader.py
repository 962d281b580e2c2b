"""Reads image files ahead in threads, a few at a time, so that disk and server work at once in bounded memory."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import BinaryIO

from dbinfer.load.files import FORMATS, HEAD_BYTES, Found, Refused, is_image

THREADS = 4
AHEAD = 8
MAX_BYTES = 2**30 - 2**16
Outcome = tuple[Found, bytes] | Refused


def read_ahead(files: Iterable[Found]) -> Iterator[Outcome]:
    """Yield each file's bytes, or why it is refused, in the order of `files`; at most 8 files are held."""
    waiting: deque[Future[Outcome]] = deque()
    todo = iter(files)
    threads = ThreadPoolExecutor(THREADS)
    try:
        waiting.extend(threads.submit(read, file) for file in islice(todo, AHEAD))
        while waiting:
            outcome = waiting.popleft().result()
            waiting.extend(threads.submit(read, file) for file in islice(todo, 1))
            yield outcome
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def read(found: Found) -> Outcome:
    """Return a file's bytes, or why it is refused; a file that is no image is not read further than its head."""
    try:
        (found.path + found.file.parent.name).encode("utf-8")
        with _regular(found) as handle:
            head = handle.read(HEAD_BYTES)
            reason = _why_not(head, os.fstat(handle.fileno()).st_size)
            return Refused(str(found.file), reason) if reason else (found, head + handle.read())
    except UnicodeEncodeError:
        return Refused(os.fsencode(found.file).decode("utf-8", "replace"), "its name is not valid UTF-8")
    except OSError as err:
        return Refused(str(found.file), f"cannot be read: {err.strerror or err}")


@contextmanager
def _regular(found: Found) -> Iterator[BinaryIO]:
    """Open a file; a pipe or device is refused before opening would wait for it."""
    if not stat.S_ISREG(found.file.stat().st_mode):
        raise OSError(None, "not a regular file")
    with found.file.open("rb") as handle:
        yield handle


def _why_not(head: bytes, size: int) -> str:
    if not head:
        return "is empty (0 bytes)"
    if not is_image(head):
        return f"is not an image ({FORMATS})"
    return f"has {size} bytes; a value in a table holds less than 1 GiB" if size > MAX_BYTES else ""
