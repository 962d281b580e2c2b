"""Whether the server (in an engine: the supervisor) wants this work to end, and how Python hears of it."""

from __future__ import annotations

import ctypes
import os
import time

from .process import is_9_4, postmaster, server

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

# rounds; the coordinator and a segment's own timer each send a signal for one cancel
MAX_INTERRUPTS = 16
INTERRUPT_WAIT = 0.001  # seconds

CANCELLED = "57014"
# What the server's handlers of signals set; the last one came with PostgreSQL 17
FLAGS = ("QueryCancelPending", "ProcDiePending", "TransactionTimeoutPending")
# Since PostgreSQL 12 the kernel tells each process by a signal that the postmaster has ended
ORPHAN = "postmaster_possibly_dead"
STATEMENT_TIMEOUT = 3  # its place in the server's enum TimeoutId

# Other reasons to end the work of this process, which need not belong to a server
_reasons: List[Callable[[], bool]] = []


class NoFlag:
    """Stands for a flag on servers that have none."""

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


def orphan_flag() -> Any:
    """Return the server's flag that its postmaster may have ended; then nobody waits for this statement.

    The server itself looks when it waits for its client, at the end of the statement. Until then it would keep the
    shared memory, without which neither it nor a mirror that was promoted (gprecoverseg) can bring this folder back.
    """
    try:
        return ctypes.c_int.in_dll(server(), ORPHAN)
    except ValueError:
        return NoFlag()


def orphaned() -> bool:
    """Return whether the postmaster of this process has ended."""
    flag = orphan_flag()
    if not flag.value:
        return False
    # the flag is set at first, and any process of this user may send the signal. It is reset before the check, as the
    # server does, so that rows do not check again and a signal that comes meanwhile is not lost
    flag.value = False
    if os.getppid() == postmaster():
        return False
    flag.value = True
    return True


def heed(reason: Callable[[], bool]) -> None:
    """Count the work as cancelled also where `reason` returns true."""
    _reasons.append(reason)


def cancelled() -> bool:
    """Return whether the server's signal handlers have noted a cancel, the end of this process or of the postmaster."""
    return any(_noted(name) for name in FLAGS) or orphaned() or any(reason() for reason in _reasons)


# the variables of the server that were looked for; rows ask again
_flags: Dict[str, Any] = {}


def _noted(flag: str) -> bool:
    if flag not in _flags:
        try:
            # the handlers only set these; the C code that acts on them is not reached while Python runs
            # one byte on Greenplum 6: the next bytes are other flags, such as that enough rows have come
            kind = ctypes.c_bool if is_9_4() else ctypes.c_int
            _flags[flag] = kind.in_dll(server(), flag)
        except ValueError:
            _flags[flag] = NoFlag  # an older server; or none: a test
    return bool(_flags[flag].value)


def why_cancelled() -> Tuple[str, str]:
    """Return the sentence in which the server says why a statement ends, and its SQLSTATE."""
    if _noted("ProcDiePending"):
        return "terminating connection due to administrator command", "57P01"
    if orphaned():
        return "terminating connection due to unexpected postmaster exit", "57P01"
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
    """Do nothing: the interpreter raises queued interrupts whenever a function starts."""


def drain_interrupts() -> None:
    """Swallow the KeyboardInterrupts queued before the flag was taken down, so that none outlives the statement."""
    for _ in range(MAX_INTERRUPTS):
        try:
            _wait()
        except KeyboardInterrupt:
            pass


def _wait() -> None:
    """Sleep a little; a queued interrupt is raised when the function starts or a loop ends."""
    for _ in range(2):
        time.sleep(INTERRUPT_WAIT)
