"""Keeps the database's signals and Python out of each other's way."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import signal
import time
from typing import Any, Callable, Iterator, Tuple

from .process import server

# rounds; the coordinator and a segment's own timer each send a signal for one cancel
MAX_INTERRUPTS = 16
INTERRUPT_WAIT = 0.001  # seconds


CANCELLED = "57014"
# What the server's handlers of signals set; the last one came with PostgreSQL 17
FLAGS = ("QueryCancelPending", "ProcDiePending", "TransactionTimeoutPending")
STATEMENT_TIMEOUT = 3  # its place in the server's enum TimeoutId

WAKE = signal.SIGRTMAX  # no server uses it
CRASH_EXIT = (
    2  # as a backend's own handler of SIGQUIT exits: the server then ends all sessions and starts again
)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block all signals, so that threads which a library starts meanwhile never receive the database's signals.

    But a compilation or a first inference may take minutes, and an immediate stop must not wait for it: a thread of
    ours waits for SIGQUIT meanwhile. SIGTERM, cancel and timeouts take effect afterwards, as with any C function.
    """
    # a new thread inherits the mask of the thread that starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    stop = _watch_for_quit()
    try:
        yield
    finally:
        # first the watcher, which must not take a SIGQUIT once this thread can: without the GIL it could not act on it
        stop()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch_for_quit() -> Callable[[], None]:
    """Start a thread that ends the process when SIGQUIT comes; return what stops the thread and waits for its end."""
    # held until the watcher ends: a thread of _thread cannot be joined
    ended = _thread.allocate_lock()
    ended.acquire()

    # starts with all signals blocked, too, which sigwait needs
    def watch() -> None:
        try:
            if signal.sigwait({signal.SIGQUIT, WAKE}) == signal.SIGQUIT:
                # _exit: the server's own exit callbacks must not run in a thread, beside a compilation
                os._exit(CRASH_EXIT)
        finally:
            ended.release()

    watcher = _thread.start_new_thread(watch, ())

    def stop() -> None:
        signal.pthread_kill(watcher, WAKE)
        ended.acquire()

    return stop


class NoFlag:
    """Stands for the flag on servers that have none."""

    value = False


def interrupt_flag() -> Any:
    """Return Greenplum's flag that Python runs; while it is set, each cancel signal queues a KeyboardInterrupt.

    A row takes milliseconds and the executor looks for a cancel after each, so the flag is taken down while one is
    scored. Otherwise the second signal of a cancel (the coordinator's and the segment's own timer both send one) is
    left for the session's next statement: it spoilt 56 of 59.
    """
    try:
        return ctypes.c_bool.in_dll(server(), "PLy_enter_python_intepreter")  # spelt so in Greenplum
    except ValueError:
        return NoFlag()


@contextlib.contextmanager
def signals_open() -> Iterator[None]:
    """Let this thread hear all signals again, as the server wants it, while nothing but a wait is done."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cancelled() -> bool:
    """Return whether the server's signal handlers have noted a cancel or the end of this process."""
    return any(_noted(name) for name in FLAGS)


def _noted(flag: str) -> bool:
    try:
        # the handlers only set these; the C code that acts on them is not reached while Python runs
        return bool(ctypes.c_int.in_dll(server(), flag).value)
    except ValueError:
        return False  # an older server; or none: a test


def why_cancelled() -> Tuple[str, str]:
    """Return the sentence in which the server says why a statement ends, and its SQLSTATE."""
    if _noted("ProcDiePending"):
        return "terminating connection due to administrator command", "57P01"
    if _noted("TransactionTimeoutPending"):
        return "terminating connection due to transaction timeout", "25P04"
    try:
        timeout = server().get_timeout_indicator(STATEMENT_TIMEOUT, False)
    except AttributeError:
        timeout = False
    # as a C bool: the other bytes of the register may hold anything
    why = "statement timeout" if timeout & 0xFF else "user request"
    return "canceling statement due to " + why, CANCELLED


def look_for_interrupts() -> None:
    """Do nothing: the interpreter raises what is queued whenever a function starts."""


def drain_interrupts() -> None:
    """Take the KeyboardInterrupts that were queued before the flag was down, so that none outlives the statement."""
    for _ in range(MAX_INTERRUPTS):
        with contextlib.suppress(KeyboardInterrupt):
            _wait()


def _wait() -> None:
    """Sleep a little; what is queued is raised at the function's start or at the end of a loop."""
    for _ in range(2):
        time.sleep(INTERRUPT_WAIT)
