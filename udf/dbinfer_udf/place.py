"""What this process is: its user, statement, segment and host, read from the server's own memory without plpy."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import time
from typing import Any, Callable, Dict, Iterator, Optional

MAX_INTERRUPTS = 16
INTERRUPT_WAIT = 0.001  # seconds


def _server() -> Any:
    return ctypes.PyDLL(None)


def user_function() -> Callable[[], int]:
    """Return the server's GetUserId: the oid of the user whose rights count now."""
    function = _server().GetUserId
    function.restype, function.argtypes = ctypes.c_uint32, []
    return function  # type: ignore[no-any-return]


def clock_function(name: str) -> Callable[[], int]:
    """Return one of the server's clocks (microseconds), which names what is running.

    `GetCurrentStatementStartTimestamp` names the client's statement, `GetCurrentTransactionStartTimestamp` its
    transaction. Parallel workers have the leader's.
    """
    function = getattr(_server(), name)
    function.restype, function.argtypes = ctypes.c_int64, []
    return function  # type: ignore[no-any-return]


def subtransaction_function() -> Callable[[], int]:
    """Return the server's GetCurrentSubTransactionId, which with the transaction's clock names a subtransaction."""
    function = _server().GetCurrentSubTransactionId
    function.restype, function.argtypes = ctypes.c_uint32, []
    return function  # type: ignore[no-any-return]


def content_id() -> Optional[int]:
    """Return the content id of this Greenplum segment (-1: coordinator); None on PostgreSQL."""
    server = _server()
    if not hasattr(server, "Gp_role"):
        return None
    option = server.GetConfigOption
    option.restype, option.argtypes = ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_bool, ctypes.c_bool]
    value = option(b"gp_contentid", True, False)
    return None if value is None else int(value)


def describe() -> str:
    """Return where this process runs, for the DETAIL of an error: host and segment."""
    content = content_id()
    place = "host %s, pid %d" % (socket.gethostname(), os.getpid())
    return place if content is None else "segment %d, %s" % (content, place)


def threads(settings: Dict[str, str]) -> int:
    """Return how many threads one backend may use: cores of the host / backends that score on it at once.

    The setting `threads` overrides. Backends: on Greenplum the segments of this host, as noted at install; on
    PostgreSQL the leader and its parallel workers.
    """
    wanted = settings.get("threads", "auto")
    if wanted != "auto":
        return max(1, int(wanted))
    cores = len(os.sched_getaffinity(0))
    if content_id() is None:
        return max(1, cores // (int(settings.get("workers", "0")) + 1))
    return max(1, cores // max(1, int(settings.get("segments@" + socket.gethostname(), cores))))


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block all signals, so that threads which a library starts meanwhile never receive the database's signals."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
        return ctypes.c_bool.in_dll(_server(), "PLy_enter_python_intepreter")  # spelt so in Greenplum
    except ValueError:
        return NoFlag()


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


def rss_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
