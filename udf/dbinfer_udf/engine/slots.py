"""Memory that workers, loader and supervisor share: what each worker does now, and as many permits as cores.

A worker that is taken over may write here what it likes. So no process gets a signal because of it, and what is read is
bounded: times are in the past, counts can be added and packed.

The permits are a System V semaphore: the kernel gives back what a killed process held (SEM_UNDO), and whoever waits
longest is next. It is a courtesy and no lock: a worker that was taken over may keep all permits, so nobody waits for
long.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import mmap
import os
import struct
from time import monotonic
from typing import Any, Dict, List, NamedTuple

from ..host.sandbox import libc

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
        """Note that no request runs in this slot any more; its counts stay."""
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


def make_slots(workers: int) -> int:
    """Return the descriptor of new memory for that many workers."""
    fd = os.memfd_create("dbinfer-slots")
    os.ftruncate(fd, workers * SIZE)
    return fd


SEM_UNDO, IPC_CREAT, IPC_EXCL, IPC_NOWAIT = 0x1000, 0o1000, 0o2000, 0o4000
IPC_RMID, GETVAL, SETVAL = 0, 12, 16
# The second and third semaphore of a set say that it is ours
MARKS = (3187, 2741)
PATIENCE = (
    2.0  # seconds that a request waits for its permits; after that its worker does without for a minute
)
IMPATIENCE = 60.0


class Permits:
    """The set of one engine.

    Args:
        number: of the set, as the kernel knows it; -1: the kernel has none, and nobody waits.
        each: permits that a request takes, one a thread.
    """

    def __init__(self, number: int, each: int = 1) -> None:
        self._number = number
        self._down = ctypes.create_string_buffer(struct.pack("=Hhh", 0, -each, SEM_UNDO))
        self._up = ctypes.create_string_buffer(struct.pack("=Hhh", 0, each, SEM_UNDO))
        self._patience = ctypes.create_string_buffer(struct.pack("@ll", int(PATIENCE), 0))
        self._semop = libc.semop
        self._holds = False
        self._without_until = 0.0

    def take(self) -> None:
        """Wait for the permits of a request, for PATIENCE at most."""
        self._holds = False
        if self._without_until and monotonic() < self._without_until:
            return
        while self._number >= 0 and not self._holds:
            self._holds = libc.semtimedop(self._number, self._down, 1, self._patience) >= 0
            problem = 0 if self._holds else ctypes.get_errno()
            if problem == errno.EAGAIN:
                self._without_until = monotonic() + IMPATIENCE
                return
            if problem not in (0, errno.EINTR):
                # the set is gone: this engine drains its queues, and another has begun
                self._number = -1

    def give(self) -> None:
        """Give the permits back."""
        if self._number >= 0 and self._holds:
            self._semop(self._number, self._up, 1)
        self._holds = False


def semaphore_key(text: str) -> int:
    """Return the key under which the kernel keeps the set of an engine, made from its address."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:7], 16) | 1


def make_permits(key: int, count: int) -> int:
    """Return the number of a new set with `count` permits; one that a killed engine left is removed. -1: none."""
    _remove_left_permits(key)
    number: int = libc.semget(key, 3, IPC_CREAT | IPC_EXCL | 0o600)
    if number >= 0:
        for which, value in enumerate((count, *MARKS)):
            libc.semctl(number, which, SETVAL, ctypes.c_long(value))
    return number


def remove_permits(number: int) -> None:
    """Remove a set."""
    if number >= 0:
        libc.semctl(number, 0, IPC_RMID, ctypes.c_long(0))


def _remove_left_permits(key: int) -> None:
    number = libc.semget(key, 3, 0)
    if (
        number >= 0
        and tuple(libc.semctl(number, which, GETVAL, ctypes.c_long(0)) for which in (1, 2)) == MARKS
    ):
        remove_permits(number)
