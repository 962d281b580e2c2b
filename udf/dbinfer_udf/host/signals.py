"""Keeps the database's signals away from the threads that libraries start."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
from typing import Callable, Iterator

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


@contextlib.contextmanager
def signals_open() -> Iterator[None]:
    """Let this thread hear all signals again, as the server wants it, while nothing but a wait is done."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
