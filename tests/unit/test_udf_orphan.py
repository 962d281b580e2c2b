"""The flag that the postmaster may have ended: looked at once, and not at every row."""

from __future__ import annotations

import ctypes
import os

import pytest

from dbinfer_udf.host import interrupts


@pytest.fixture
def flag(monkeypatch: pytest.MonkeyPatch) -> ctypes.c_int:
    found = ctypes.c_int(1)  # a backend begins so
    monkeypatch.setattr(interrupts, "orphan_flag", lambda: found)
    return found


def test_a_flag_that_was_looked_at_is_reset(monkeypatch: pytest.MonkeyPatch, flag: ctypes.c_int) -> None:
    """Before, it stayed set, and each row looked again, which cost as much as a small network."""
    monkeypatch.setattr(interrupts, "postmaster", os.getppid)
    assert not interrupts.orphaned()
    assert flag.value == 0


def test_an_orphan_stays_one(monkeypatch: pytest.MonkeyPatch, flag: ctypes.c_int) -> None:
    monkeypatch.setattr(interrupts, "postmaster", lambda: os.getppid() + 1)
    assert interrupts.orphaned()
    assert interrupts.orphaned()
    assert flag.value == 1


def test_without_the_signal_nobody_looks(monkeypatch: pytest.MonkeyPatch, flag: ctypes.c_int) -> None:
    flag.value = 0
    monkeypatch.setattr(interrupts, "postmaster", lambda: 1 / 0)
    assert not interrupts.orphaned()
