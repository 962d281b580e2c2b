"""What each worker of a model does now, in memory that workers, host and supervisor share.

A worker that is taken over may write here what it likes. So nobody sends a signal to a process because of it, and what
is read is bounded: a time that has been, counts that can be added and packed.
"""

from __future__ import annotations

import mmap
import os
import struct
from time import monotonic
from typing import Any, Dict, List, NamedTuple

SIZE = 64
WHOLE = struct.Struct("=8sdQQ")
BEGIN = struct.Struct("=8sd")
NOBODY = bytes(8)
MOST_COUNTED = 1 << 53


class State(NamedTuple):
    """A worker's request (eight bytes that its client chose), since when (0: none), and its counts."""

    request: bytes
    since: float
    requests: int
    errors: int


class Slots:
    """The slots of one model's workers.

    Args:
        fd: of the memory that `make` made.
    """

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, 0)

    def __len__(self) -> int:
        return len(self._memory) // SIZE

    def slot(self, number: int) -> Slot:
        """Return the slot that a worker writes."""
        return Slot(self._memory, number, self.read(number))

    def read(self, number: int) -> State:
        """Return what a worker does."""
        request, since, requests, errors = WHOLE.unpack_from(self._memory, number * SIZE)
        # also false of what is no number
        since = since if 0.0 < since <= monotonic() else 0.0
        return State(request, since, min(requests, MOST_COUNTED), min(errors, MOST_COUNTED))

    def all(self) -> List[State]:
        """Return what all workers do."""
        return [self.read(number) for number in range(len(self))]

    def running(self) -> Dict[bytes, float]:
        """Return the requests that run, and since when."""
        return {state.request: state.since for state in self.all() if state.since}

    def clear(self, number: int, failed: bool) -> None:
        """Let no request run in this slot any more; its counts stay."""
        old = self.read(number)
        WHOLE.pack_into(self._memory, number * SIZE, NOBODY, 0.0, old.requests + failed, old.errors + failed)


class Slot:
    """One worker's own slot."""

    def __init__(self, memory: Any, number: int, left: State) -> None:
        self._memory = memory
        self._at = number * SIZE
        # a worker that died left its counts here
        self.requests, self.errors = left.requests, left.errors

    def begin(self, request: bytes) -> None:
        """Note that a request runs from now on."""
        BEGIN.pack_into(self._memory, self._at, request, monotonic())

    def end(self) -> None:
        """Note that it has ended."""
        WHOLE.pack_into(self._memory, self._at, NOBODY, 0.0, self.requests, self.errors)


def make(workers: int) -> int:
    """Return the descriptor of new memory for that many workers."""
    fd = os.memfd_create("dbinfer-slots")
    os.ftruncate(fd, workers * SIZE)
    return fd
