"""As many tokens as cores, over all models: a worker scores while it holds one for each of its threads.

A System V semaphore: the kernel gives back what a killed process held (SEM_UNDO), and who waits longest is next. It is
a courtesy and no lock: a worker that was taken over may take all and keep them, so nobody waits for long.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import struct
from time import monotonic

from .kernel import libc

SEM_UNDO, IPC_CREAT, IPC_EXCL, IPC_NOWAIT = 0x1000, 0o1000, 0o2000, 0o4000
IPC_RMID, GETVAL, SETVAL = 0, 12, 16
# The second and third semaphore of a set say that it is ours
MARKS = (3187, 2741)
PATIENCE = 2.0  # seconds that a request waits for its tokens; who has waited so long does without for the next minute
IMPATIENCE = 60.0


class Tokens:
    """The set of one engine.

    Args:
        number: of the set, as the kernel knows it; -1: the kernel has none, and nobody waits.
        each: tokens that a request takes, one a thread.
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
        """Wait for the tokens of a request, not for ever."""
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
                # the set has gone: this engine drains its queues, and another has begun
                self._number = -1

    def give(self) -> None:
        """Give them back."""
        if self._number >= 0 and self._holds:
            self._semop(self._number, self._up, 1)
        self._holds = False


def key_of(text: str) -> int:
    """Return the number under which the kernel keeps the set of an engine, made of its address."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:7], 16) | 1


def make(key: int, count: int) -> int:
    """Return the number of a new set with `count` tokens; one that a killed engine left is removed. -1: none."""
    _remove_left(key)
    number: int = libc.semget(key, 3, IPC_CREAT | IPC_EXCL | 0o600)
    if number >= 0:
        for which, value in enumerate((count, *MARKS)):
            libc.semctl(number, which, SETVAL, ctypes.c_long(value))
    return number


def remove(number: int) -> None:
    """Remove a set."""
    if number >= 0:
        libc.semctl(number, 0, IPC_RMID, ctypes.c_long(0))


def _remove_left(key: int) -> None:
    number = libc.semget(key, 3, 0)
    if (
        number >= 0
        and tuple(libc.semctl(number, which, GETVAL, ctypes.c_long(0)) for which in (1, 2)) == MARKS
    ):
        remove(number)
