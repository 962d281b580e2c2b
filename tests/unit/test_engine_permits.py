"""Permits bound what runs at once over all models; the kernel gives back those of a killed process."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from dbinfer_udf.engine import slots
from dbinfer_udf.engine.slots import Permits
from dbinfer_udf.host.sandbox import libc


@pytest.fixture
def key(tmp_path: object) -> int:
    return slots.semaphore_key(str(tmp_path))


@pytest.fixture
def two(key: int) -> Iterator[int]:
    number = slots.make_permits(key, 2)
    assert number >= 0, "this host has no System V semaphores"
    yield number
    slots.remove_permits(number)


def free(number: int) -> int:
    return int(libc.semctl(number, 0, slots.GETVAL, ctypes.c_long(0)))


def test_who_finds_no_token_waits(two: int) -> None:
    one = Permits(two)
    one.take()
    one.take()
    third = threading.Thread(target=Permits(two).take)
    third.start()
    third.join(0.2)
    assert third.is_alive()
    one.give()
    third.join(60)
    assert not third.is_alive()


def test_nobody_waits_for_long_for_who_keeps_all(two: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was taken over takes all permits and keeps them: the rows of other models must not hang."""
    monkeypatch.setattr(slots, "PATIENCE", 1.0)
    Permits(two, 2).take()
    honest = Permits(two)
    waits = threading.Thread(target=lambda: [honest.take() for _ in range(100)], daemon=True)
    waits.start()
    waits.join(60)
    assert not waits.is_alive()
    # it has none, and gives none back
    honest.give()
    assert free(two) == 0


def test_two_threads_take_two_tokens(two: int) -> None:
    wide = Permits(two, 2)
    wide.take()
    assert free(two) == 0
    wide.give()
    assert free(two) == 2


def test_a_killed_process_keeps_no_token(two: int) -> None:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        Permits(two).take()
        os.write(tell, b"x")
        signal.pause()
    os.read(ready, 1)
    assert free(two) == 1
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert free(two) == 2
    os.close(ready)
    os.close(tell)


def test_what_a_killed_engine_left_is_replaced_and_who_drains_goes_on(key: int, two: int) -> None:
    left = Permits(two)
    left.take()
    new = slots.make_permits(key, 2)
    assert (new >= 0, new != two, free(new)) == (True, True, 2)
    # its set has gone: it finishes what it has without permits
    left.take()
    left.give()
    assert free(new) == 2
    slots.remove_permits(new)


def test_a_set_of_somebody_else_stays(key: int) -> None:
    foreign = libc.semget(key, 3, slots.IPC_CREAT | 0o600)
    try:
        assert slots.make_permits(key, 2) == -1
        assert free(foreign) == 0
    finally:
        slots.remove_permits(foreign)
