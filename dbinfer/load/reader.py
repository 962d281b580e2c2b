"""Reads image files ahead in threads, so that disk and server work at once in bounded memory."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from dbinfer.load.files import Found, Refused
from dbinfer_udf.header import FORMATS, HEAD_BYTES, sniff

THREADS = 4
BATCH, BATCH_BYTES = 16, 1 << 20
MAX_BYTES = 2**30 - 2**16
Outcome = tuple[Found, bytes] | Refused


def read_ahead(files: Iterable[Found]) -> Iterator[Outcome]:
    """Yield each file's bytes, or why it is refused, in the order of `files`.

    Threads take 16 files at once, because handing over costs as much as reading a small file; they stop at 1 MiB and
    read the rest of the 16 when its turn comes. So at most 5 MiB and 5 files are held.
    """
    todo = iter(files)
    batches = iter(lambda: list(islice(todo, BATCH)), [])
    threads = ThreadPoolExecutor(THREADS)
    try:
        waiting = deque(threads.submit(_read_some, batch) for batch in islice(batches, THREADS))
        while waiting:
            outcomes, rest = waiting.popleft().result()
            if rest:
                waiting.appendleft(threads.submit(_read_some, rest))
            else:
                waiting.extend(threads.submit(_read_some, batch) for batch in islice(batches, 1))
            yield from outcomes
    finally:
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
        (found.path + found.folder).encode()
        if not stat.S_ISREG(os.stat(found.file).st_mode):  # opening a pipe would wait
            return Refused(str(found.file), "cannot be read: not a regular file")
        with open(found.file, "rb", buffering=0) as handle:
            reason = _why_not(handle.read(HEAD_BYTES), os.fstat(handle.fileno()).st_size)
            if reason:
                return Refused(str(found.file), reason)
            handle.seek(0)
            return found, handle.read()
    except UnicodeEncodeError:
        return Refused(os.fsencode(found.file).decode("utf-8", "replace"), "its name is not valid UTF-8")
    except OSError as err:
        return Refused(str(found.file), f"cannot be read: {err.strerror or err}")


def _why_not(head: bytes, size: int) -> str:
    if not head:
        return "is empty (0 bytes)"
    if sniff(head) is None:
        return f"is not an image ({', '.join(FORMATS[:-1])} or {FORMATS[-1]})"
    return f"has {size} bytes; a value in a table holds less than 1 GiB" if size > MAX_BYTES else ""
